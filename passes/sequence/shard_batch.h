// SPDX-License-Identifier: Apache-2.0
// plan-batch and shard-batch: data parallel replicas, by the very rules that cut the sequence.
//
// A replica is what is left of the program when the batch of its inputs is cut: so the batch is planned as if it were the
// sequence (same placements, same redistributions, same global counts in the means), and carried out for one row of the
// mesh. What comes out is a program of one replica, in which sp.* ops with axis="dp" tie the replicas together; the
// sequence passes then take it as they take an imported graph. A loss over the global batch, a regulariser, a balance loss
// of a router or a mean over rows are right by construction; no convention about dividing by the number of replicas exists.
//
// Before:  %x = aten.embedding.default(weight=%w, indices=%ids) : f32[4, 64, 32]             (--dp 2)
// After:   %w.v = sp.vary.default(self=%w, axis="dp") : f32[100, 32]
//          %mine = sp.slice.default(self=%ids, dim=0, blocks=[2, 2], axis="dp") : i64[2, 64]
//          %x = aten.embedding.default(weight=%w.v, indices=%mine) : f32[2, 64, 32]
// The batch of an input: of integer inputs the dim before the sequence, of others dim 0 (dim 1 where dim 0 is the sequence);
// where no input is marked, dim 0 of every user input. Refuses (setting-dp) a batch that the replicas do not divide.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

/// Whether Settings::dp replicas can share the graph's batch; any number of them where dp is 1. Errors: setting-dp.
Status checkBatch(const ir::Graph& graph, const Settings& settings);

/// Only where Settings::dp > 1: between functionalize and plan-sequence.
Pass planBatchPass();
/// For the replica of PassContext::rank.
Pass shardBatchPass();

}  // namespace spscope::passes
