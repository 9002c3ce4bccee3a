// SPDX-License-Identifier: Apache-2.0
// parallelize-loss: reductions over the sharded sequence give what the whole sequence gives. A mean becomes the local
// sum divided by the global count (for cross entropy: of labels that are not ignored, counted on the whole labels, so
// that a rank without any valid label adds zero); partial sums are completed by sp.all_reduce where they are read whole.
//
// Before:  %loss = aten.cross_entropy_loss.default(self=%logits, target=%mine) : f32[] P     (%mine = sp.slice(%labels))
// After:   %sum = aten.cross_entropy_loss.default(self=%logits, target=%mine, reduction=2) : f32[] P
//          %valid = aten.ne.Scalar(self=%labels, other=-100); %count = aten.sum.default(self=%valid)
//          %mean = aten.div.Tensor(self=%sum, other=%count) : f32[] P
//          %loss = sp.all_reduce.default(self=%mean) : f32[] R
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass parallelizeLossPass();

}  // namespace spscope::passes
