// SPDX-License-Identifier: Apache-2.0
// Durations that cannot be: a handful of broken records may otherwise make the headline. They are flagged and ranked, kept in
// the trace, and every figure can be had with and without them.
#pragma once

#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct Outlier {
  EventIndex event = kNoIndex;
  std::int64_t duration_ns = 0;
  std::int64_t fits_ns = 0;   ///< until the next work of its stream starts: more it cannot have taken
  bool flagged_by_reader = false;
};
struct Outliers {
  std::vector<Outlier> events;             ///< the longest first
  std::vector<bool> left_out;              ///< by event; empty where there are none
  std::int64_t duration_ns = 0;            ///< sum of theirs
  std::int64_t device_ns = 0;              ///< sum of the durations of all device work
};

/// Device work that a reader flagged (kImpossible), or that runs into what comes after it on its stream by more than half
/// of its own duration and 10 us, or beyond the end of it. Works of one stream may overlap a little (dependent launches),
/// and those of one CUDA graph at will: neither is flagged. O(n log n).
Outliers findOutliers(const Trace& trace);

}  // namespace spscope::trace
