// SPDX-License-Identifier: Apache-2.0
// shard-sequence: the planned global program becomes the program of one rank. Local shapes follow from factors and
// placement; sizes in arguments become local; redistributions become sp.slice, sp.all_gather, sp.reduce_scatter.
//
// Before:  %x = sp.redistribute.default(self=%ids) : i64[2, {64 s}] S(1.0; 32, 32)
//          %h = aten.view.default(self=%q, size=[2, 64, 8, 4])
// After:   %x = sp.slice.default(self=%ids, dim=1, blocks=[32, 32])
//          %h = aten.view.default(self=%q, size=[2, 32, 8, 4])
// Exchanges (S -> S') wait for insert-all-to-all, partial sums for parallelize-loss.
#pragma once

#include "passes/pass.h"

namespace spscope::passes {

Pass shardSequencePass();

/// A text that is equal for two ranks exactly when shard-sequence makes the same program for both: ranks are compiled
/// once per class. Needs a kPlanned graph.
std::string rankClass(const ir::Graph& planned, int rank);

}  // namespace spscope::passes
