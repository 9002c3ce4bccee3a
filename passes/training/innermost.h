// SPDX-License-Identifier: Apache-2.0
// Whether a value's last dimension is certainly its innermost in memory. Fused attention kernels read rows of the head
// dimension: the CPU kernel takes a query with other strides without a word and computes something else (measured).
#pragma once

#include "core/ir/graph.h"

namespace spscope::passes {

/// Follows views and elementwise ops back to whatever made the memory. False means "not certain".
bool lastDimIsInnermost(const ir::Graph& graph, ir::ValueId value);

}  // namespace spscope::passes
