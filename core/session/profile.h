// SPDX-License-Identifier: Apache-2.0
// Recording a run (`run --profile`): each rank spools what its executor tells, for some of the steps; at the end the spools
// become one trace file. While it runs, the spools lie in a folder beside that file; a failed run's are merged like any other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/torch/observer.h"

namespace spscope::session {

struct ProfileRequest {
  std::string file;               ///< the trace; "": no profile
  std::int64_t first = 1;         ///< steps [first, last), counted from the first step of this run; the default leaves out the
  std::int64_t last = 4;          ///< warm-up
  std::vector<int> ranks;         ///< which; empty: all
  std::int64_t cap_bytes = 256 << 20;  ///< of records, per rank; beyond it they are dropped and counted
  std::optional<Error> refused;   ///< why prepareProfile failed, on rank 0 of an existing launch: the others are told when they meet
  std::string spools;             ///< folder of the ranks' recordings, made by prepareProfile; the same on all ranks
  bool of(int rank) const;
};

/// "1:4" -> [1, 4); "3" -> [3, 4). Error usage.
Status parseProfileSteps(const std::string& text, ProfileRequest& out);
/// "0,2-5". Error usage.
Status parseProfileRanks(const std::string& text, int world, ProfileRequest& out);

/// "forward", "backward", "recompute".
const char* phaseName(ir::Phase phase);

/// For RankProfile::hostCall: the optimizer, which uses up the gradients.
inline constexpr const char* kOptimizerCall = "optimizer";

/// One rank's recorder. Used on the rank's thread.
class RankProfile {
 public:
  /// `graph`: the program that the rank runs. Errors: file-unwritable. Where a GPU cannot be recorded a warning
  /// cupti-unavailable goes to `diagnostics`, and host events are recorded all the same.
  static Result<std::unique_ptr<RankProfile>> start(const ProfileRequest& what, int rank, int world, const std::string& backend,
                                                    const ir::Graph& graph, const passes::Settings& settings, DiagnosticSink* diagnostics);
  ~RankProfile();
  /// For the step of this number (from 0, of this run); null where it is not recorded.
  exec::ExecutionObserver* observer(std::int64_t step);
  /// The rank left the barrier that all ranks pass before the first step; nanoseconds of CLOCK_MONOTONIC.
  void barrier(std::int64_t ns);
  /// What the rank holds before the first step: weights, and the states of the optimizer. Counted in all that follows.
  void resident(std::int64_t parameter_bytes, std::int64_t optimizer_bytes);
  /// Loading the batch, the optimizer: what belongs to a step but not to its program. Recorded where the step is.
  void hostCall(std::int64_t step, const char* name, std::int64_t begin_ns, std::int64_t end_ns);
  /// Error file-unwritable: the disk was full.
  Status finish();

 private:
  RankProfile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Removes what prepareProfile made: of a run that was refused.
void dropProfile(const ProfileRequest& what);

/// Makes a new folder for the recordings, beside the trace, and notes it in `what`. Errors: file-unwritable, file-is-folder (the
/// trace's path is one).
Status prepareProfile(ProfileRequest& what);

struct ProfileSummary {
  std::int64_t events = 0, dropped = 0, ranks = 0;
  std::vector<int> missing;  ///< ranks whose recording is not there (another host's, or one that died at once)
};
/// Reads the spools of ranks 0..world-1, writes the trace and removes the folder. `properties` go into the trace: the
/// plan, its predictions. Errors: file-unwritable, file-unreadable (no rank's recording is there), cancelled. On an error the spools
/// are kept.
Result<ProfileSummary> mergeProfile(const ProfileRequest& what, int world, const std::vector<std::pair<std::string, std::string>>& properties,
                                    const Request& request);

}  // namespace spscope::session
