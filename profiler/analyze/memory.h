// SPDX-License-Identifier: Apache-2.0
// The memory of each rank and device over time: what was live, of which class, at the peak, whose allocation made the peak,
// and what the plan had predicted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct ClassBytes {
  StringId memory_class = 0;
  std::int64_t bytes = 0;
};
struct MemoryPoint {
  std::int64_t time = 0, live = 0;
};

/// One rank's memory on one device (-1: the host's). Of every pool that was recorded.
struct MemoryUse {
  std::int32_t rank = 0, device = -1;
  std::int64_t peak_bytes = kUnknown, peak_ns = kUnknown;
  NodeIndex peak_node = kNoIndex;          ///< whose allocation made the peak
  std::vector<ClassBytes> at_peak;         ///< the largest first; sums to peak_bytes, less what was there before the recording
  std::int64_t before_recording = kUnknown;///< live when the recording began, where the file says or frees betray it: at least
  std::int64_t predicted_peak = kUnknown;  ///< property "predicted_peak.N" of rank number N
  std::int64_t peak_reserved = kUnknown;
  std::int64_t allocated = 0, freed = 0;   ///< sums over the trace; freed is positive, net = allocated - freed
  std::int64_t allocations = 0, frees = 0;
  std::vector<MemoryPoint> curve;          ///< a point an event, in the order of time
};

/// The class of an allocation. The default is MemoryEvent::memory_class; another view of the same events may be asked for,
/// the events stay what they are. A free is of the class of what it frees (found by address), or of its own.
using ClassOf = std::function<StringId(const MemoryEvent&)>;

/// By rank, then device; empty: no memory was recorded. O(n log n).
std::vector<MemoryUse> memoryUse(const Trace& trace, const ClassOf& class_of = {});

/// What each node allocated and freed, apart: a node that only frees has no "negative use".
struct NodeMemory {
  NodeIndex node = kNoIndex;  ///< kNoIndex: not attributed
  std::int64_t allocated = 0, freed = 0, allocations = 0, frees = 0;
  std::int64_t net() const { return allocated - freed; }
};
/// All ranks; the largest allocated first.
std::vector<NodeMemory> memoryByNode(const Trace& trace);

}  // namespace spscope::trace
