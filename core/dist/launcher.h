// SPDX-License-Identifier: Apache-2.0
// Starts P copies of a program on this machine, one per rank, and supervises them: whatever happens to one, the run ends
// within seconds, says which rank failed first and where, and leaves no process behind. See docs/launching.md.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/dist/blame.h"
#include "core/dist/message.h"

namespace spscope::dist {

struct LaunchSpec {
  std::string program;               ///< path of the program; it attaches with RankReporter::attach()
  std::vector<std::string> arguments;///< without the program's name
  int ranks = 1;
  int threads = 0;                   ///< per rank; 0: OMP_NUM_THREADS where set, else cores / ranks, at least 1
  std::map<std::string, std::string> environment;  ///< added to this process's
  std::string request;               ///< what the ranks are to do, for RankReporter::request(); any bytes
  /// A rank that makes no progress (RankReporter::phase, step, note, collective) for this long has stalled. 0: never.
  /// Ranks that wait inside a collective get two seconds more: their own deadline comes first. A process that has not said
  /// anything yet is being loaded, and has a minute at least.
  std::chrono::milliseconds stall_timeout{120'000};
  /// After a failure: so long may the others finish and report before SIGTERM; SIGKILL follows 1 s later.
  std::chrono::milliseconds grace{1500};
  /// The same after a cancellation; longer where ranks save what they have.
  std::chrono::milliseconds cancel_grace{1500};
  CancelToken cancel;
  /// Of each rank, a socket to whoever controls it besides the launcher (see control_line.h); empty: nobody does. The caller's own:
  /// who wants to see that a rank has ended closes it when `on_started` is called.
  std::vector<int> controls;
  /// Called when all ranks have been started, on the thread that called launch(): their process ids.
  std::function<void(const std::vector<int>&)> on_started;
  bool keep_directory = false;       ///< also after a good run; after a failure its logs always stay
  /// Told where every rank is, at most ten times a second and once at the end, on the thread that called launch(). Of each
  /// record rank, last, silent_ns, done, ended, exit_code and signal are as they are then.
  std::function<void(const std::vector<RankRecord>&)> on_ranks;
};

/// Called on the thread that called launch(), in the order in which one rank sent them.
using OnRankMessage = std::function<void(int rank, const Message&)>;

struct RunFailure {
  int rank = 0;
  std::string node;                     ///< its last node
  Error error;                          ///< its own, or rank-died / rank-stalled with how it ended
  int exit_code = -1;
  int signal = 0;
  std::string log;                      ///< path of its output
  std::vector<std::string> last_lines;  ///< of that output

  /// The error with rank, node, log and the table of all ranks in its notes; outcome kRunFailed.
  Error toError(const std::vector<RankRecord>& ranks) const;
};

struct RunOutcome {
  bool cancelled = false;
  std::optional<RunFailure> failure;  ///< of the rank that failed first
  std::vector<RankRecord> ranks;      ///< as they were when the failure was noticed
  std::string directory;              ///< "" where it was removed
  double seconds = 0;
  bool ok() const { return !cancelled && !failure; }
};

/// Blocks until every rank has ended and is reaped (one that even SIGKILL does not end is given up after 2 s). A rank that
/// is at the same place for long is spoken of in the log. After a failure the directory holds the ranks' output and, in
/// failure.log, the report. An error only where nothing was started: run-directory, rank-start.
Result<RunOutcome> launch(const LaunchSpec& spec, const OnRankMessage& on_message = {});

/// Cores this process may use (affinity and cgroup quota), at least 1.
int availableCores();

}  // namespace spscope::dist
