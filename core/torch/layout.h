// SPDX-License-Identifier: Apache-2.0
// How the local tensor of a value lies in memory when the graph runs on the CPU. The graph does not store strides; they
// follow from the ops, as far as kernels' choices are known. Used for what depends on them: copies inside kernels.
#pragma once

#include "core/ir/graph.h"

namespace spscope::exec {

/// Strides in elements, one per local dimension: views are followed exactly; element-wise ops keep the order of their
/// largest operand; everything else is taken as contiguous.
ir::Dims stridesOf(const ir::Graph& graph, ir::ValueId value);

/// Row-major without gaps (sizes of 1 do not matter), as at::Tensor::is_contiguous.
bool isContiguous(const ir::Dims& sizes, const ir::Dims& strides);
ir::Dims contiguousStrides(const ir::Dims& sizes);

}  // namespace spscope::exec
