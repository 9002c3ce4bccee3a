// SPDX-License-Identifier: Apache-2.0
// How many ranks are busy at a time: a curve for viewers and pages.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

/// From `time` on.
struct BusyStep {
  std::int64_t time = 0;
  std::int32_t ranks = 0;
};

/// A rank is busy while any of its counted work runs (analyze/work.h), on any of its devices, or on its host where no
/// device did anything. Neighbours differ; the last step is 0 ranks. Empty where nothing was counted.
std::vector<BusyStep> busyRanks(const Trace& trace);

}  // namespace spscope::trace
