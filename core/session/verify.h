// SPDX-License-Identifier: Apache-2.0
// The verify request: does the sharded program compute the loss and every gradient of the unsharded graph?
#pragma once

#include <string>
#include <vector>

#include "core/session/against_float32.h"
#include "core/session/bisect.h"
#include "core/session/compile.h"
#include "core/session/first_difference.h"
#include "core/torch/compare.h"
#include "core/torch/executor.h"

namespace spscope::session {

struct VerifyRequest {
  passes::Settings settings;
  DataRequest data;
  std::string ranks = "virtual";  ///< "virtual": all in this process; "gloo", "nccl": processes (needs `open`)
  double timeout_seconds = 120.0; ///< processes: of each collective, and of the meeting of the ranks
  OpenRequest open;               ///< how the model was opened: rank processes open it again
  bool bisect = false;     ///< where the results differ: after which pass they first do
  std::string grads_path;  ///< where the sharded run's gradients go as safetensors; "": nowhere
};

struct VerifyOutcome {
  double loss = 0.0, reference_loss = 0.0, loss_rel = 0.0;
  exec::GradientComparison gradients;   ///< the worst rank's, per parameter
  exec::Tolerance tolerance;
  int worst_rank = 0;
  bool equal = false;
  CompileOutcome compiled;
  std::string reference;                 ///< with --accumulate: what the accumulated step was held against
  std::vector<std::int64_t> peak_bytes;  ///< measured step peak per rank
  std::int64_t reference_peak_bytes = 0; ///< of the unsharded step
  /// 16-bit models: both runs against float32; the sharded one may be no more than a margin worse, or they are not equal.
  std::optional<AgainstFloat32> float32;
  /// Where they differ: of the first node that does. Empty also where all ranks in one process agree though others did not.
  std::optional<FirstDifference> first_difference;
  std::optional<Bisection> bisection;    ///< where they differ and it was asked for
};

/// Runs the unsharded graph (one rank, nothing recomputed), then all ranks of the sharded one on the same
/// inputs and weights (with settings.accumulate on that many batches), and compares on every rank; where they differ, both run again, node by node, in this process. Errors: those of compile, loadState, loadInputs and the executor.
Result<VerifyOutcome> verify(const Model& model, const VerifyRequest& what, const Request& request);

/// The same for programs that are there already, `what.settings` those that they were compiled with; processes compile for themselves.
Result<VerifyOutcome> prove(const Model& model, const VerifyRequest& what, CompileOutcome compiled, const Request& request);

/// The program of each rank. Needs a compilation of all ranks.
std::vector<std::shared_ptr<const ir::Graph>> programsOf(const passes::Compiled& compiled);

/// The program of the unsharded step: one rank, everything kept, nothing recomputed.
Result<std::shared_ptr<const ir::Graph>> compileUnsharded(const Model& model, const passes::Settings& settings, const Request& request);

/// The unsharded step: its loss and gradients.
Result<exec::StepResult> runUnsharded(const Model& model, const passes::Settings& settings, const exec::TensorBag& state,
                                      const exec::TensorBag& inputs, const Request& request, std::uint64_t seed = 0);

}  // namespace spscope::session
