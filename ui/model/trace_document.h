// SPDX-License-Identifier: Apache-2.0
// An opened trace with what the window shows of it, computed once, off the window's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "profiler/analyze/align.h"
#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/memory.h"
#include "profiler/trace/trace.h"
#include "ui/model/state/selection.h"
#include "ui/model/timeline/timeline_index.h"

namespace spscope::ui {

/// Immutable once made.
struct TraceDocument {
  std::vector<std::string> paths;
  trace::Trace trace;              ///< on one clock
  trace::Alignment alignment;
  std::string alignment_error;     ///< why the ranks are not on one clock, where they could not be put there
  std::vector<trace::Breakdown> breakdown;
  std::vector<trace::MemoryUse> memory;
  std::shared_ptr<const TimelineIndex> timeline;  ///< of `trace`: ready to be drawn
};

/// Reads, aligns and analyses. Errors: those of importTraces.
Result<std::shared_ptr<const TraceDocument>> openTraceDocument(const std::vector<std::string>& paths, const ProgressFn& progress,
                                                               const CancelToken& cancel);

/// What an event stands for: its rank and, where it ran a node of the graph, that node. `event` is an index into the trace.
Selection selectionOfEvent(const trace::Trace& trace, std::int32_t event);

}  // namespace spscope::ui
