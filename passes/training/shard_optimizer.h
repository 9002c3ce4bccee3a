// SPDX-License-Identifier: Apache-2.0
// shard-optimizer (--zero 1): each rank keeps optimizer states for its block of every parameter, and needs that block of the
// gradient only. The sum over all ranks at the end of a gradient becomes a reduce-scatter; a gradient that is complete
// without one is cut.
//
// Before:  %g = sp.all_reduce.default(self=%part, axis="all") : f32[32, 7]                     (an output, 4 ranks)
// After:   %flat = aten.view.default(self=%part, size=[224]) : f32[224]
//          %g = sp.reduce_scatter.default(self=%flat, dim=0, blocks=[56, 56, 56, 56], axis="all") : f32[56]
// A block is a run of the parameter's elements in memory order (ir::shardBlocks), whatever its shape. The optimizer updates
// it; the blocks are gathered afterwards, outside the graph (core/torch/shards.h).
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass shardOptimizerPass();

/// Equal for two ranks exactly when their blocks of all trainable parameters have the same sizes.
std::string shardClass(const ir::Graph& graph, int rank, int ranks);

}  // namespace spscope::passes
