// SPDX-License-Identifier: Apache-2.0
// Which values of a joint graph are "long": their size grows with the sequence.
//
// Where plan-sequence has left factors, the sequence tag answers. The nodes that libtorch's autograd decomposes an op
// into (t, view, mm, _to_copy, _log_softmax ...) have no factors; there the dimensions that hold the sequence are
// followed through the forward nodes:
//   views         by matching groups of dimensions of equal product; a group that holds the sequence keeps it
//   transposes    the dimensions move
//   contractions  the contracted dimension goes
//   reductions    the reduced dimensions go; a reduction to a scalar is never long
//   elementwise   aligned from the right, the union of the operands
//   other ops     the dimensions of an operand of the same shape, else every dimension when any operand is long
// A size is never compared with a constant, nor with the sequence length: [B, H, S, D], S = hidden, and shards shorter
// than any threshold are all answered by where the sequence went.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

/// By value id; false for values that are not made by the forward and are no input. O(forward nodes).
std::vector<bool> findLongValues(const ir::Graph& joint);

}  // namespace spscope::passes
