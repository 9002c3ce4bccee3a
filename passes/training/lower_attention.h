// SPDX-License-Identifier: Apache-2.0
// lower-attention: scaled_dot_product_attention becomes the target device's kernel, whose derivative libtorch knows.
//
// Before:  %o = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, is_causal=true) : f32{2b, 4, 64s, 16} S1[2, 2]
// After:   %o, %l = aten._scaled_dot_product_flash_attention_for_cpu.default(query=%q, key=%k, value=%v, dropout_p=0.0,
//              is_causal=true) : f32{2b, 4, 64s, 16} S1[2, 2], f32{2b, 4, 64s} S1[2, 2]
//
// A bool mask becomes one of 0 and -inf in the query's type; fewer kv heads than query heads are repeated where the
// kernel does not take them. What fits no kernel stays as it is (libtorch's own matrix products are then captured) with
// the remark attention-math, which names the reason. Refuses: dropout_p > 0 (attention-dropout).
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass lowerAttentionPass();

}  // namespace spscope::passes
