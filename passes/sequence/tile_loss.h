// SPDX-License-Identifier: Apache-2.0
// tile-loss (with --tile-loss): the head and the cross entropy of its logits become one op that makes them a block of rows
// at a time, forward and backward.
//
// Before:  %l = aten.linear.default(input=%h, weight=%w) : f32{2b, 64s, 128256} S1..
//          %f = aten.view.default(self=%l, size=[..]) : f32{2b*64s, 128256} S0.1..
//          %s = aten.cross_entropy_loss.default(self=%f, target=%y, reduction=2) : f32[] P
// After:   %g = aten.reshape.default(self=%h, shape=[..]) : f32{2b*64s, 2048} S0.1..
//          %r = spscope.tiled_cross_entropy.default(self=%g, weight=%w, target=%y, .., rows=256, steps="") : f32{2b*64s} S0.1..
//          %s = aten.sum.default(self=%r) : f32[] P
// Between the product and the loss may stand views, slices of rows, conversions, mul and div by a number, tanh. Logits that
// something else reads, class weights, probabilities as labels: left as they are, with the warning loss-untiled.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass tileLossPass();

}  // namespace spscope::passes
