// SPDX-License-Identifier: Apache-2.0
// functionalize: no op writes into its operand any more. Planning, capture and recomputation need a program of values.
//
// Before:  %s = aten.slice.Tensor(self=%q, dim=3, start=0, end=32)      After:  %v = aten.expand.default(self=%nope, ...)
//          %c = aten.copy_.default(self=%s, src=%nope)                          %q2 = aten.slice_scatter.default(self=%q, src=%v, dim=3, start=0, end=32)
//          %y = aten.mul.Tensor(self=%q, other=%k)                              %y = aten.mul.Tensor(self=%q2, other=%k)
//
// An in-place op becomes its functional twin. A write through a view is written back through the chain of views to the
// base (slice_scatter, select_scatter, the inverse of transposes and reshapes), and whoever reads the base or another
// view of it afterwards sees it. alias is dropped; detach is not (it stops gradients). Graphs without mutation keep
// every node.
// Refuses: writes into parameters, constants and user inputs (mutates-input; a buffer gets a kBufferUpdate output),
// in-place ops without twin and views that cannot be written through (mutation-unknown).
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass functionalizePass();

}  // namespace spscope::passes
