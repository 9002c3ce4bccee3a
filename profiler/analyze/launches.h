// SPDX-License-Identifier: Apache-2.0
// Which call launched which device work: by correlation id, never by time. One launch of a CUDA graph has many kernels.
#pragma once

#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct LaunchLinks {
  std::vector<EventIndex> launch;      ///< by event: the runtime call of device work; kNoIndex: not recorded
  std::vector<EventIndex> first_work;  ///< by event: device work of a runtime call, then next_work
  std::vector<EventIndex> next_work;
  std::int64_t unlaunched = 0;         ///< device work without its call
  std::int64_t early = 0;              ///< device work that starts before its call does (clock skew)
  std::int64_t worst_early_ns = 0;
};

/// Ids count per rank. Where several calls bear one id (a runtime call and the driver's inside it), the outermost is it.
/// O(n log n).
LaunchLinks linkLaunches(const Trace& trace);

}  // namespace spscope::trace
