// SPDX-License-Identifier: Apache-2.0
// What an sp.* op of the graph moves: one rank's view of a redistribution, in element counts. No libtorch here.
//
// Every redistribution runs in three steps: pack (this rank's elements in the order of the receiving ranks), exchange
// (a collective over flat buffers), unpack (what came from each rank to its place). Packing or unpacking is skipped
// where the memory is in the right order already: for an all-to-all that gathers the sequence of a batch of one, the
// receive buffer *is* the result. The send buffer is freed before the receive buffer is unpacked, so that beyond the
// result only the larger of the two counts; passes/memory predicts the same (packingBytes).
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/mesh_axis.h"

namespace spscope::exec {

enum class SpKind : std::uint8_t { kVary, kSlice, kUnpack, kAllReduce, kAllGather, kReduceScatter, kAllToAll };

/// One sp.* node as `rank` of `ranks` sees it. Shapes are local ones.
struct Redistribution {
  SpKind kind = SpKind::kVary;
  ir::MeshAxis axis = ir::MeshAxis::kSequence;
  int rank = 0;                  ///< place on the axis
  int ranks = 1;                 ///< along the axis
  std::int64_t gather_dim = 0;   ///< all_to_all, all_gather, unpack: becomes whole
  std::int64_t scatter_dim = 0;  ///< all_to_all, slice, reduce_scatter: becomes this rank's block
  ir::Dims gather_blocks;        ///< one per rank
  ir::Dims scatter_blocks;
  ir::Dims input;                ///< shape before, on this rank
  ir::Dims output;               ///< shape after, on this rank

  bool communicates() const { return kind >= SpKind::kAllReduce; }
  /// Elements that go to, and come from, each rank (all_to_all, all_gather, reduce_scatter); sums give the buffers.
  ir::Dims sendCounts() const;
  ir::Dims recvCounts() const;
  /// Shape of the part that goes to, or comes from, `peer`.
  ir::Dims sendPart(int peer) const;
  ir::Dims recvPart(int peer) const;
  /// True where the input (if contiguous) is its own send buffer, and the receive buffer is the result.
  bool packFree() const;
  bool unpackFree() const;
  /// Bytes this rank sends to others.
  std::int64_t bytesSent(std::int64_t element_size) const;
};

bool isRedistribution(Symbol op);

/// Reads an sp.* node for the place `rank` on its axis. `input` is the operand's local shape on that rank. Errors "sp-op" (a block list does not
/// have one entry per rank, does not sum to the dimension, a dimension is out of range, or the shape does not fit).
Result<Redistribution> describe(const ir::Node& node, const ir::Dims& input, int rank, int ranks);
/// An sp.unpack node whose result has the shape `output` on that rank.
Result<Redistribution> describeUnpack(const ir::Node& node, const ir::Dims& output, int rank, int ranks);

}  // namespace spscope::exec
