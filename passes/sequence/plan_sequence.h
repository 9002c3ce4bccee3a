// SPDX-License-Identifier: Apache-2.0
// plan-sequence: where does the sequence go? Placements by data flow from the tagged inputs (planner.h).
//
// Before:  %q = aten.linear.default(input=%x, weight=%w) : f32[2, 64, 32]
// After:   %w.v = sp.vary.default(self=%w) : f32[32, 32] R
//          %q = aten.linear.default(input=%x, weight=%w.v) : f32[2, {64 s}, 32] S(1.0)
// The program is still the global one: sp.redistribute and sp.vary are the identity on global values.
// Refuses: marks that name nothing; graphs without a loss.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass planSequencePass();

}  // namespace spscope::passes
