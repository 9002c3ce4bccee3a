// SPDX-License-Identifier: Apache-2.0
// A trace as pictures: SVG without scripts, for pages that open anywhere. Each is complete in itself (colours for light and
// dark, tooltips by <title>), well-formed XML, and of bounded size however many events there are.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/memory.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

struct Picture {
  std::string title;
  std::string svg;   ///< "" where there is nothing to draw
  std::string note;  ///< what was left out or put together
};

/// Ranks and their tracks against time. Events shorter than a pixel are put together with their neighbours, deep nesting
/// and tracks beyond the busiest are left out; the note says so.
Picture timelinePicture(const Trace& trace);

/// For each rank and device what fills its span: compute, exposed communication and memory, idle; overlapped communication
/// as a strip below.
Picture breakdownPicture(const Trace& trace, const std::vector<Breakdown>& rows);

/// Live bytes against time, a line for each rank and device, with its peak.
Picture memoryPicture(const Trace& trace, const std::vector<MemoryUse>& uses);

}  // namespace spscope::trace
