// SPDX-License-Identifier: Apache-2.0
// Pass schedule: turns the marks of choose-saved into a program.
//
//   before   %act  = aten.silu.default(self=%gate)      phase forward, keep recompute
//            ...
//            %dw   = aten.mm.default(self=%g, mat2=%act)  phase backward
//   after    %act  = aten.silu.default(self=%gate)      freed after its last use in forward
//            ...
//            %act.1 = aten.silu.default(self=%gate.1)   phase recompute, forward = %act, just before its first use
//            %dw   = aten.mm.default(self=%g, mat2=%act.1)
//
// A re-run node reads kept values or other re-run nodes, is made once and shared by all that need it afterwards. Forward
// nodes that only served what is now made again go. Everything else stays in its order, collectives on all ranks alike.
#pragma once

#include "passes/memory/replay_plan.h"
#include "passes/pass.h"

namespace spscope::passes {

Pass schedule();

/// Rewrites the graph by the plan made from `model`, which must be of this graph. Returns how many nodes were added.
int applyPlan(ir::Graph& graph, const StepModel& model, const Decisions& decisions, const Plan& plan);

}  // namespace spscope::passes
