// SPDX-License-Identifier: Apache-2.0
// One curve of memory along a training step: predicted of a compiled program, or measured by a recorded run. Both are a list
// of places in the order in which nodes run, so that curves are compared and a place is a node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/session/compile.h"
#include "passes/memory/liveness.h"
#include "ui/model/trace_document.h"

namespace spscope::ui {

/// Bytes on one rank. Immutable once made.
struct StepMemory {
  struct Place {
    ir::NodeId node = ir::kNone;
    bool backward = false;       ///< or recomputed
    std::int64_t live = 0;
    passes::ClassBytes classes{};  ///< sums to `live` where known
  };
  std::vector<Place> places;
  std::vector<std::string> names;  ///< by place: "%linear_3"
  bool classes_known = true;
  std::int64_t peak = 0;
  std::int32_t peak_place = -1;
  std::int32_t backward_begins = 0;  ///< the first place that is not forward; places.size() where all is forward
  /// What lives at the peak: the largest values, with the node that made each.
  struct Living {
    ir::NodeId node = ir::kNone;
    std::string name;
    std::int64_t bytes = 0;
    passes::MemoryClass memory_class = passes::MemoryClass::kTemporaries;
  };
  std::vector<Living> at_peak;       ///< at most 12, the largest first
  std::string absent;                ///< why there are no places
  std::string note;                  ///< what to know of it: "rank 1, step 2 of the run"
};

/// The class of the compiled ranks with the highest peak. `services` for the kernels' workspaces.
StepMemory predictedCurve(const session::CompileOutcome& compiled, const passes::Settings& settings);

/// Rank of that number in the trace: the recorded step with the highest peak. `absent` where the trace has none of it, or
/// names no nodes.
StepMemory measuredCurve(const TraceDocument& document, std::int64_t rank);

}  // namespace spscope::ui
