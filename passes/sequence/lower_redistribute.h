// SPDX-License-Identifier: Apache-2.0
// One sp.redistribute becomes the op that does it (the table of core/ir/sp_ops.h), with a reshape before and after
// where a factor inside a dimension is what is sharded.
#pragma once

#include "passes/rewriter.h"

namespace spscope::passes {

enum class Redistribution { kSlice, kAllGather, kReduceScatter, kAllReduce, kAllToAll };

/// What the placements of operand and result ask for.
Redistribution kindOf(const ir::Graph& graph, const ir::Node& redistribute);

/// Emits the ops for `node` (an sp.redistribute of a kLocal graph) and returns the value that replaces its output.
ir::ValueId lowerRedistribute(ir::Graph& graph, Rewriter& rewriter, ir::NodeId node);

}  // namespace spscope::passes
