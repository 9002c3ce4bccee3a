// SPDX-License-Identifier: Apache-2.0
// recognise-masks: attention masks of S x S elements become what they say.
//
// Before:  %m = aten.le.Tensor(self=%columns, other=%rows) : bool{1, 1, 64, 64}
//          %o = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, attn_mask=%m) : f32{2, 4, 64, 16}
// After:   (%rows, %columns from aranges)    %o = aten.scaled_dot_product_attention.default(.., is_causal=true)
//          (from position_ids, documents ..) %o = spscope.scaled_dot_product_attention.default(.., query_rows=[%rows],
//                                                 key_columns=[%columns], mask_rule=[0, 5, 0, 0, 0])
// The matrix and all that only led to it are gone, forward and backward; vectors of S elements stay. Nothing is assumed
// of the data: the kernel compares the vectors block by block. What the algebra (mask_algebra.h) cannot read stays as it
// is, with the warning mask-kept. Not touched: masks that do not vary with both query and key, and eager attention, whose
// scores have S x S elements anyway.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass recogniseMasksPass();

}  // namespace spscope::passes
