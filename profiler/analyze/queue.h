// SPDX-License-Identifier: Apache-2.0
// How many works each stream had waiting: +1 when one is launched, -1 when it starts. A queue that runs empty is a host that
// is too slow.
#pragma once

#include <optional>
#include <vector>

#include "profiler/analyze/statistics.h"

namespace spscope::trace {

struct QueueLength {
  TrackIndex stream = 0;
  std::int64_t launched = 0;            ///< works with a known launch; the others are not counted
  std::optional<Statistics> length;     ///< over all changes; none: no launch of this stream is known
};
/// Of every stream with device work. O(n log n).
std::vector<QueueLength> queueLengths(const Trace& trace);

/// The lengths after each change; where a launch and a start fall on one instant, the launch counts first.
std::vector<std::int64_t> queueOf(const std::vector<std::int64_t>& launches, const std::vector<std::int64_t>& starts);

}  // namespace spscope::trace
