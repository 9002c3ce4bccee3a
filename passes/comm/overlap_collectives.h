// SPDX-License-Identifier: Apache-2.0
// overlap-collectives: moves starts up and waits down, so that the rank computes while its data is under way.
//
//   before   %dw = aten.mm.default(...)              after   %s, ... = sp.all_to_all_start.default(self=[%dx], ...)
//            %s, ... = sp.all_to_all_start(...)              %dw = aten.mm.default(...)
//            %y = sp.wait.default(...)                       %y = sp.wait.default(...)
//            ... = attention backward(%y)                    ... = attention backward(%y)
//
// A start goes up to the start before it, or to the last wait that it needs, taking along what its operands need; what they
// do not need comes after it: weight gradients are computed while activations' gradients are under way. A
// wait goes down to the first node that computes with its result (views of it go along); one whose results only the
// outputs need goes to the end. Starts never change their order, so all ranks issue the same collectives in the same order.
// Bound: nowhere is the predicted memory to rise above the peak that there was without any move. Moves that reach over
// such a place are taken back.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass overlapCollectivesPass();

}  // namespace spscope::passes
