// SPDX-License-Identifier: Apache-2.0
// Whose fault was it? When one rank fails, the others fail after it: with lost connections, with timeouts. This picks the
// first cause from what is known of every rank when all have ended. No processes here: a function of its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/dist/rank_state.h"

namespace spscope::dist {

/// Everything known of one rank.
struct RankRecord {
  int rank = 0;
  int pid = 0;
  RankSnapshot last;               ///< its state block, read after its end
  std::int64_t silent_ns = 0;      ///< how long ago its last sign of life was, when the failure was noticed; 0: not known
  bool done = false;               ///< it said that it has done all
  bool ended = false;
  int exit_code = -1;              ///< where it exited
  int signal = 0;                  ///< where a signal ended it
  bool asked_to_stop = false;      ///< it ended after the launcher had asked it to, or had sent a signal
  std::int64_t ended_ns = 0;       ///< monotonic
  std::optional<Error> error;      ///< the first one that it reported
  std::int64_t error_ns = 0;
  bool stalled = false;            ///< no progress before the deadline
  std::int64_t stalled_ns = 0;
  std::string log;                 ///< path
  std::vector<std::string> last_lines;
  std::int64_t calls_ns = 0;       ///< when `calls` was read, wall clock
  std::vector<RecordedCall> calls; ///< its last collectives, as `last` read when the failure was noticed
};

/// Index of the rank at fault; -1 where none failed. In this order: the earliest rank that failed by itself (own error,
/// death, exit before it was done); one whose process does not run (stopped, starved); one that did not come to the
/// collective in which others waited; the earliest stall; the earliest report of any kind.
int firstAtFault(std::span<const RankRecord> ranks);

/// What the rank that firstAtFault() has found did, in one sentence.
std::string describeFault(std::span<const RankRecord> ranks, int index);

/// One sentence: "killed by signal 9 (SIGKILL)", "exited with code 3", "no sign of progress", or its own error's message.
std::string describeEnd(const RankRecord& rank);

/// One line per rank: phase, step, last node, last collective and whether it had ended, how the rank ended.
std::string formatTable(std::span<const RankRecord> ranks);

}  // namespace spscope::dist
