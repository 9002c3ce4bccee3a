// SPDX-License-Identifier: Apache-2.0
#include "ui/model/trace_document.h"

#include "profiler/import/import.h"

namespace spscope::ui {

Result<std::shared_ptr<const TraceDocument>> openTraceDocument(const std::vector<std::string>& paths, const ProgressFn& progress,
                                                               const CancelToken& cancel) {
  auto document = std::make_shared<TraceDocument>();
  document->paths = paths;
  SP_ASSIGN(document->trace, trace::importTraces(paths, {.progress = progress, .cancel = cancel}));
  // Ranks that cannot be aligned are still looked at, each on its own clock, with the reason shown.
  if (auto alignment = trace::align(document->trace); alignment) {
    document->alignment = std::move(*alignment);
    trace::applyAlignment(document->trace, document->alignment);
  } else {
    document->alignment_error = alignment.error().message;
  }
  SP_TRY(cancel.check());
  document->breakdown = trace::breakdown(document->trace, trace::classifyWork(document->trace));
  document->memory = trace::memoryUse(document->trace);
  SP_ASSIGN(document->timeline, TimelineIndex::build(document->trace, document->breakdown, document->memory, document->alignment_error.empty(), cancel));
  return std::shared_ptr<const TraceDocument>(std::move(document));
}

Selection selectionOfEvent(const trace::Trace& trace, std::int32_t event) {
  Selection s;
  s.event = event;
  const auto at = static_cast<std::size_t>(event);
  if (const trace::NodeIndex node = trace.events.node[at]; node != trace::kNoIndex && trace.nodes[static_cast<std::size_t>(node)].id != trace::kUnknown)
    s.node = static_cast<ir::NodeId>(trace.nodes[static_cast<std::size_t>(node)].id);
  const auto rank = static_cast<std::size_t>(trace.tracks[static_cast<std::size_t>(trace.events.track[at])].rank);
  s.rank = static_cast<int>(trace.ranks[rank].number == trace::kUnknown ? static_cast<std::int64_t>(rank) : trace.ranks[rank].number);
  return s;
}

}  // namespace spscope::ui
