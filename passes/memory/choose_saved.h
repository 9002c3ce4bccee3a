// SPDX-License-Identifier: Apache-2.0
// Pass choose-saved: which values of a joint graph the forward keeps for the backward, and which are made again.
//
//   before   %gate = aten.mm.default(...)            after   the same nodes; each forward value carries `keep`:
//            %act = aten.silu.default(self=%gate)            saved, recompute or freed
//
// Policies (Settings::save): "all" keeps whatever the backward uses, as eager PyTorch does. "sac" minimises the predicted
// peak of the step: for a price on recomputation the layers' minimum cuts say what is kept (saving.h), the predicted
// peak of the schedule that follows says what that is worth, and the price is searched. Equal peaks: the one that re-runs
// less. The graph's nodes and order are not changed; `schedule` acts on the marks.
#pragma once

#include "passes/memory/replay_plan.h"
#include "passes/memory/report.h"
#include "passes/pass.h"

namespace spscope::passes {

Pass chooseSaved();

/// The search by itself. `model` is of the graph that `schedule` will see.
struct SavingChoice {
  Decisions decisions;
  MemoryReport report;
  int segments = 1;           ///< prelude + layers
  int distinct_segments = 1;  ///< of different structure: what had to be solved
};
Result<SavingChoice> searchSaving(const StepModel& model, const std::vector<bool>& long_values, const CancelToken& cancel);

/// Writes the decisions into Value::keep; true when any mark changed.
bool markDecisions(ir::Graph& graph, const StepModel& model, const Decisions& decisions);
/// Reads them back. Error "internal" when a mark cannot be followed (an input marked for recomputation).
Result<Decisions> readDecisions(const StepModel& model);

}  // namespace spscope::passes
