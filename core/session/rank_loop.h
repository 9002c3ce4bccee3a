// SPDX-License-Identifier: Apache-2.0
// The training loop of one rank that is a process: open, compile, meet, agree, load, step. The same for ranks of our
// launcher and for those of torchrun, Slurm and Open MPI.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/dist/c10d/gloo.h"
#include "core/dist/collectives.h"
#include "core/dist/rank_reporter.h"
#include "core/session/run_wire.h"
#include "core/torch/observer.h"

namespace spscope::session {

struct RankPlace {
  dist::RankReporter& reporter;   ///< told where the rank is
  dist::Rendezvous meet;          ///< rank, size and place; the rest is filled in
  std::string transport = "gloo"; ///< or "nccl"
  exec::ExecutionObserver* watcher = nullptr;  ///< hears everything, too; outlives the training
  std::chrono::milliseconds meeting{0};        ///< so long may the meeting take, where the deadline of the run is shorter
};

struct RankTraining {
  RankFigures figures;
  std::vector<RankFigures> of_all;   ///< every rank's, where `gather` was set
  CompileOutcome compiled;
};

/// Peak of one rank's program, in bytes.
std::int64_t predictedPeak(const ir::Graph& program, const passes::Settings& settings);

/// Where a rank writes RunRequest::grads_to.
std::string gradsFile(const std::string& prefix, int rank);

/// The group of all ranks of the run, its deadlines set, its collectives told to the reporter. Errors: those of connectMesh, connectNccl.
Result<std::unique_ptr<dist::Collectives>> joinGroup(const RunRequest& what, RankPlace& place);

/// Trains to the end. `on_step` is called on every rank. After cancellation rank 0 saves the last finished step (where a
/// folder is given) and the error is `cancelled`.
Result<RankTraining> trainRank(const RunRequest& what, RankPlace place, const Request& request, const OnStep& on_step, bool gather);

}  // namespace spscope::session
