// SPDX-License-Identifier: Apache-2.0
// Attention with dropout as separate products. The fused kernels draw their dropout from generators of their own, by an
// order that depends on kernel, device and shard; so it is written out, with numbers by position (core/ir/rng_ops.h):
//
//   scores = scale * q . k^T (+ mask)      weights = softmax(scores) * keep      out = weights . v / (1 - p)
//
// Over windows of query rows, so that at most about 64 MiB of scores exist at once; each of several windows is an activation
// checkpoint of its own, so that the backward makes its scores again instead of keeping S x S of them. A causal window
// reads the keys up to its last row only.
#pragma once

#include "passes/pass.h"
#include "passes/rewriter.h"

namespace spscope::passes {

/// True where lowerWithDropout must take the node (an SDPA of a kLocal graph).
bool dropsOut(const ir::Node& node);

/// Replaces the node. `next_checkpoint`: a number above all of the graph's activation checkpoints; raised by those made.
void lowerWithDropout(ir::Graph& graph, Rewriter& rewriter, const PassContext& context, ir::NodeId node, std::int32_t* next_checkpoint);

}  // namespace spscope::passes
