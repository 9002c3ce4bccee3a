// SPDX-License-Identifier: Apache-2.0
// What a thread was doing at each instant: its nested events cut into stretches of the innermost one.
#pragma once

#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct Stretch {
  std::int64_t start = 0, end = 0;
  EventIndex event = kNoIndex;
};

/// By track; empty for streams. Sorted, disjoint, none empty. Of ops, Python frames, runtime calls, synchronisations,
/// waits and overhead, and of host collectives whose wait is not recorded apart; ranges are no work. Where events overlap
/// without nesting, the one that started last counts. O(n log n).
std::vector<std::vector<Stretch>> hostTime(const Trace& trace);

}  // namespace spscope::trace
