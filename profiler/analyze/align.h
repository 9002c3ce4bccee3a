// SPDX-License-Identifier: Apache-2.0
// All ranks on one clock. Anchors are instants that the ranks share: leaving the start barrier, and the ends of
// collectives, matched by group and sequence number. Of each rank the offset and, where there are enough anchors, the
// drift against the first rank; with what disagreement remains. Refused where that would be a guess.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

struct Alignment {
  std::string method;                   ///< "one-rank", or the methods of Clock, joined by "+" where several were used
  std::int64_t residual_ns = kUnknown;  ///< the largest of the ranks; kUnknown: nothing could be compared
  std::int64_t anchors = 0;             ///< pairs of instants that were used
  std::int64_t left_out = 0;            ///< anchors that contradict the others
  std::vector<Clock> clocks;            ///< by rank
};

/// Finds the clocks; the trace stays as it is. Errors: trace-not-alignable, with the ranks and the reason:
///   no common collectives (a rank shares no anchor with the others), inconsistent ends (more than a quarter of the anchors
///   contradict the rest, or the drift is beyond 1000 ppm), or a residual larger than the gap between collectives.
Result<Alignment> align(const Trace& trace);

/// Moves every time of the trace onto the common clock, and notes it in Rank::clock.
void applyAlignment(Trace& trace, const Alignment& alignment);

}  // namespace spscope::trace
