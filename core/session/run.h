// SPDX-License-Identifier: Apache-2.0
// The run request: N training steps on P ranks. Real ranks are processes of this program (or of an existing launch), which
// open and compile for themselves, agree, and train; virtual ranks are all in this process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/session/profile.h"

namespace spscope::session {

/// Where a rank process is, as its launcher sees it.
struct RankStatus {
  int rank = 0;
  std::string phase;                ///< "starting", "compile", "step" ..., as the rank names it
  std::int64_t step = -1;           ///< -1: none yet
  std::string node;                 ///< that began last
  std::string collective;           ///< that began last; "" before the first
  std::int64_t sequence = 0;        ///< its number
  bool inside_collective = false;   ///< it has not ended
  std::int64_t silent_ns = 0;       ///< since its last sign of life
  bool ended = false;
  std::string end;                  ///< how: "done", "killed by signal 9 (SIGKILL)"
};
using OnRanks = std::function<void(const std::vector<RankStatus>&)>;

struct RunRequest {
  OpenRequest open;                ///< the ranks open the model again; a stage must have been resolved to its model
  passes::Settings settings;
  DataRequest data;
  std::string ranks = "gloo";      ///< "virtual", "gloo", "nccl"
  bool launched = false;           ///< this process is one rank of torchrun, Slurm or Open MPI
  std::int64_t steps = 1;
  double lr = 1e-3;
  double clip = 0.0;               ///< largest global norm of the gradients; 0: no clipping
  std::string save_to;             ///< folder for weights and optimizer after the last step; "": nowhere
  std::string resume;              ///< such a folder, or one step of it; "": from the model's weights
  double timeout_seconds = 120.0;  ///< of each collective, and of the meeting of the ranks
  std::string grads_to;            ///< every rank writes its gradients of the first step as <grads_to>.rank<r>; "": none does
  bool allow_replicated = false;   ///< run even where nothing could be sharded
  ProfileRequest profile;          ///< what is recorded of it; file "": nothing
  std::string program;             ///< the headless program to start as ranks; "": this one
  OnRanks on_ranks;                ///< ranks as processes: told at most ten times a second, on the thread of run(); may be empty
};

struct StepLine {
  std::int64_t step = 0;           ///< from 0; goes on counting after a resume
  double loss = 0.0;
  std::int64_t ns = 0;             ///< wall time of forward, backward, optimizer on rank 0; without loading the batch
  std::int64_t comm_ns = 0;        ///< collectives under way, waiting for other ranks included; virtual ranks: 0, not measured
  std::int64_t exposed_comm_ns = 0;///< of it while the rank did nothing but wait
  double gradient_norm = 0.0;      ///< before clipping; 0 when not clipping
};

/// What the ranks' last collectives say of a run that failed: hang::Verdict in plain data (docs/hangs.md).
struct HangVerdict {
  std::string code;               ///< "hang-absent-rank"
  std::vector<int> culprits;      ///< empty: cannot be told
  std::string certainty;          ///< "certain", "likely", "possible"
  std::string why;
  std::string group, op;
  std::optional<std::int64_t> sequence;  ///< of the collective in its group
  std::vector<int> waiting, missing;
};

/// Which rank failed first, and what is known of all.
struct RankFailure {
  int rank = 0;
  std::string node;
  Error error;                      ///< its notes hold the end of the rank's output and the table of all ranks
  std::string log;                  ///< path of its output
  std::optional<HangVerdict> hang;  ///< where ranks waited for each other, or did not do the same
};

struct RunOutcome {
  CompileOutcome compiled;
  std::vector<StepLine> steps;      ///< those that were finished
  std::vector<std::int64_t> peak_bytes;            ///< per rank, measured: weights, optimizer and the step; 0: not known
  std::vector<std::int64_t> step_peak_bytes;       ///< per rank, measured: of it what a step takes beyond weights and optimizer
  std::vector<double> last_loss;                   ///< per rank; all the same, if all is well
  std::vector<std::int64_t> predicted_peak_bytes;  ///< per rank
  std::vector<std::int64_t> comm_ns, exposed_comm_ns;  ///< per rank, all steps; as in StepLine; empty: virtual ranks, not measured
  std::int64_t comm_bytes = 0;      ///< sent by one rank in a step
  bool cancelled = false;
  std::optional<RankFailure> failure;
  std::string saved_to;             ///< the step's folder, where something was saved
  std::optional<ProfileSummary> profile;  ///< of the trace that was written
  std::optional<Error> profile_error;     ///< why it was not; the run itself may be well
  int rank = 0;                     ///< of this process in an existing launch; only rank 0 should report
};

/// Called after each step, on the thread of run().
using OnStep = std::function<void(const StepLine&)>;

/// Errors before any step (outcome kRefused): those of open, compile and loading; nothing-sharded; nccl-unavailable;
/// launch-env, launch-world. What goes wrong later is RunOutcome::failure.
Result<RunOutcome> run(const RunRequest& what, const Request& request, const OnStep& on_step = {});

/// What is started as a rank: the headless program beside this one (the window starts ranks, too), or this one.
std::string rankProgram();

/// Whether ranks of that kind can run here. Errors: usage (another word than virtual, gloo, nccl), nccl-unavailable.
Status checkTransport(const std::string& ranks);

/// The whole of a process that run() started as a rank. Returns its exit code. `watcher` (may be null) hears of everything
/// that the rank executes, on its thread.
int rankMain(exec::ExecutionObserver* watcher = nullptr);
/// Which rank of an existing launch (torchrun, Open MPI, Slurm) this process is, by its environment; nullopt: of none.
std::optional<int> launchedRank();

}  // namespace spscope::session
