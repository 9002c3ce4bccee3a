// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire, counted from the graph: what one rank sends in one step, per collective.
//
// Ring algorithms for P ranks and n bytes of the whole value: all_reduce 2 (P-1)/P n, all_gather and reduce_scatter
// (P-1)/P n. all_to_all: exactly what this rank holds and others get, uneven and empty blocks included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

/// Bytes that Graph::rank sends for this node; 0 for ops that do not communicate. Takes verified local or joint graphs.
std::int64_t sentBytes(const ir::Graph& graph, const ir::Node& node);

struct CollectiveTotal {
  std::string kind;  ///< "all_to_all", "all_gather", "all_reduce", "reduce_scatter"
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
/// By kind, in alphabetical order; kinds that do not occur are absent. Each operand of a collective that carries several
/// counts as the collective that it was before; `fused`: as one with the others.
std::vector<CollectiveTotal> collectiveTotals(const ir::Graph& graph, bool fused = false);
/// Sum over all collectives; 0 in graphs that are not local yet.
std::int64_t totalSentBytes(const ir::Graph& graph);

}  // namespace spscope::passes
