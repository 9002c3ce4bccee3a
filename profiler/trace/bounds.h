// SPDX-License-Identifier: Apache-2.0
// The last step of every reader: no number of a file is so large that adding up or subtracting overflows in an analysis.
#pragma once

#include <cstdint>

namespace spscope::trace {

struct Trace;

/// Times lie within this many ns of the epoch (to the year 2065), so that differences and shifts of clocks fit.
inline constexpr std::int64_t kFarthestTime = 3'000'000'000'000'000'000;
/// All durations of a trace together, and all bytes, FLOPs and dropped events each, stay below this.
inline constexpr std::int64_t kLargestSum = std::int64_t{1} << 61;

/// Bounds times; where the durations (or sizes) of a trace add up to more than kLargestSum, those that are larger than its
/// even share become marks (or unknown). Each is counted as Problem::kOutOfRange. No real recording is changed. O(n).
void keepInBounds(Trace& trace);

}  // namespace spscope::trace
