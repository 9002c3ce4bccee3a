// SPDX-License-Identifier: Apache-2.0
// Pass choose-saved: which values of a joint graph the forward keeps for the backward, and which are made again.
//
//   before   %gate = aten.mm.default(...)            after   the same nodes; each forward value carries `keep`:
//            %act = aten.silu.default(self=%gate)            saved, recompute or freed
//
// Policies (Settings::save):
//   all       keeps whatever the backward uses, as eager PyTorch does
//   sac       minimises the predicted peak of the step: for a price on recomputation the layers' minimum cuts say what is
//             kept (saving.h), the predicted peak of the schedule that follows says what that is worth, and the price is
//             searched (price_search.h)
//   min-cut   what PyTorch's partitioner would keep (torch_partition.h)
//   layer-inputs  what layers hand on (layers.h); inside of them all else is made again, attention and exchanges included, as with
//             torch.utils.checkpoint around every layer; outside of them as sac. Error save-no-layers where there are none
//   budget=F  the least recomputation whose peak is at most F of the way from the lowest to that of `all`
// Under each of them the user's marks hold, and what saving_rules.h forbids is never run again. The graph's nodes and
// order are not changed; `schedule` acts on the marks.
#pragma once

#include "passes/memory/replay_plan.h"
#include "passes/memory/report.h"
#include "passes/pass.h"

namespace spscope::passes {

Pass chooseSaved();

/// Writes the decisions into Value::keep; true when any mark changed.
bool markDecisions(ir::Graph& graph, const StepModel& model, const Decisions& decisions);
/// Reads them back. Error "internal" when a mark cannot be followed (an input marked for recomputation).
Result<Decisions> readDecisions(const StepModel& model);

}  // namespace spscope::passes
