// SPDX-License-Identifier: Apache-2.0
// Sums of equally long blocks, one per rank, in rank order: the arithmetic of the reductions over Gloo.
#pragma once

#include <cstdint>
#include <span>

#include "core/ir/dtype.h"

namespace spscope::dist {

/// False for types that have no sum (8-bit floats, unknown).
bool canSum(ir::DType type);

/// out[i] = blocks[0][i] + blocks[1][i] + …, in this order. `out` may be one of the blocks. Half-precision types are
/// accumulated in float32; bool is "any"; integers wrap.
void sumBlocks(ir::DType type, std::span<const void* const> blocks, void* out, std::int64_t count);

}  // namespace spscope::dist
