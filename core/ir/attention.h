// SPDX-License-Identifier: Apache-2.0
// Where a graph computes attention: fused ops, and the eager form product -> elementwise -> softmax -> product.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace spscope::ir {

struct AttentionSite {
  NodeId node = kNone;     ///< the fused op, or the product of queries and keys
  NodeId softmax = kNone;  ///< eager only
  bool fused = true;
  ValueId query = kNone;
  ValueId key = kNone;
};

/// All attention of an imported (global, forward) graph, in program order. O(graph).
std::vector<AttentionSite> findAttention(const Graph& graph);

}  // namespace spscope::ir
