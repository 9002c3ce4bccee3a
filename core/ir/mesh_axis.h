// SPDX-License-Identifier: Apache-2.0
// Which ranks an sp.* op spans: one axis of the mesh, or all of it.
//
// Ranks are numbered with the sequence axis innermost: rank = dp coordinate * sp size + sp coordinate, so that the ranks
// that exchange most are neighbours. A node says its axis by the argument `axis`; without it the sequence axis is meant.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/graph.h"

namespace spscope::ir {

enum class MeshAxis : std::uint8_t { kSequence, kData, kAll };

/// "sp", "dp", "all": as in the argument `axis`.
std::string_view axisName(MeshAxis axis);
/// Of an sp.* node, started or not. An unknown name counts as the sequence axis; the verifier refuses it.
MeshAxis axisOf(const Node& node);
bool hasKnownAxis(const Node& node);
/// Writes the argument; nothing for the sequence axis.
void setAxis(Node& node, MeshAxis axis);

/// Ranks along the axis.
int axisSize(const Mesh& mesh, MeshAxis axis);
/// The place of a rank among those of its group along the axis.
int axisRank(const Mesh& mesh, int rank, MeshAxis axis);
/// Blocks of `n` over `ranks`, all as large as the first but the last ones: what a rank keeps of a sharded optimizer.
Dims shardBlocks(std::int64_t n, int ranks);
/// The place of Graph::rank on the sequence axis: whose local shapes the graph shows.
inline int sequenceRank(const Graph& graph) { return axisRank(graph.mesh, graph.rank, MeshAxis::kSequence); }
/// The group's ranks, in order.
std::vector<int> axisGroup(const Mesh& mesh, int rank, MeshAxis axis);
/// "sp", "dp", "all"; where several groups share an axis with the group's first rank: "sp@4".
std::string groupName(const Mesh& mesh, int rank, MeshAxis axis);

}  // namespace spscope::ir
