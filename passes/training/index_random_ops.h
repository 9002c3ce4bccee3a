// SPDX-License-Identifier: Apache-2.0
// index-random-ops: what draws from libtorch's sequential generator draws by position instead (core/ir/rng_ops.h), so that
// any number of ranks gets the numbers of one rank.
//
// Before:  %y = aten.dropout.default(input=%x, p=0.1, train=true) : f32[2, 64, 32]
// After:   %k = rng.keep_at.default(self=%x, size=[2, 64, 32], whole=[2, 64, 32], number=0, p=0.1) : bool[2, 64, 32]
//          %m = aten.mul.Tensor(self=%x, other=%k)
//          %y = aten.mul.Scalar(self=%m, other=1.1111111111111112)
// Covers dropout, native_dropout, feature_dropout, bernoulli, rand, randn, randint, uniform and their *_like. Attention with
// dropout gets the number only: lower-attention writes it as separate products. Ops are numbered in program order.
// Refuses other random ops on more than one rank (random-op-sharded).
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass indexRandomOpsPass();

/// Scale of what dropout with probability `p` keeps.
inline double keptScale(double p) { return p < 1.0 ? 1.0 / (1.0 - p) : 0.0; }

/// What an rng.* op must know of a value to draw for it.
struct DrawnPart {
  ir::Dims whole;         ///< the factors of all dimensions in a row
  std::int64_t cut = -1;  ///< which of them is sharded
  std::int64_t batch = -1;
};
/// Of the result of `node`. With replicas the batch is what shard-batch left on the node (kReplicaRows; nothing: all replicas
/// draw the same), else what follows the batch of a tagged input.
DrawnPart drawnPart(const ir::Value& value, const ir::Node& node, bool replicas);

/// What shard-batch leaves on a node that draws for the rows of one replica: [elements before the rows, rows of one replica].
/// One row has no factor that could be followed.
inline const Symbol kReplicaRows{"replica_rows"};
void markReplicaRows(ir::Node& node, const ir::Value& whole_batch);

/// The argument by which this pass hands an attention its number; no libtorch op has it.
inline const Symbol kRandomNumber{"random_number"};

}  // namespace spscope::passes
