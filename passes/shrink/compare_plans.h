// SPDX-License-Identifier: Apache-2.0
// Whether the plan of a reduced program (fold_layers, narrow) is the plan of the real one: node for node the same ops on the
// same operands with the same placements, sizes aside.
//
// Both programs are split by layer (layer_blocks); each layer of the real one is held against the layer that is left for it, what
// stands outside of layers against the same of the other. Sizes and numbers that follow from sizes may differ, but only as the
// sizes of the node's own values do: 1/4096 may be 1/512 where a dim of 4096 is one of 512, 7 never becomes 9.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

struct PlanDifference {
  std::string node;    ///< of the real program
  std::string twin;    ///< of the reduced one; "" where there is none
  std::string source;
  std::string what;
};

struct PlanMatch {
  std::int64_t nodes = 0, twin_nodes = 0, collectives = 0, twin_collectives = 0;
  std::int64_t compared = 0;  ///< nodes of the real program that were held against one of the other
  std::vector<PlanDifference> differences;  ///< at most kShown of each pair of programs
  static constexpr std::size_t kShown = 8;
  bool matches() const { return differences.empty() && compared == nodes; }
};

/// Two graphs of one stage. `stands_for` as Fold has it.
PlanMatch comparePlans(const ir::Graph& real, const ir::Graph& twin, const std::map<std::string, std::string>& stands_for);

/// What choose-saved decided, by layer and place: for a program with the same nodes and other sizes.
struct SavedPlaces {
  std::map<std::string, std::vector<ir::Keep>> of_layer;  ///< per output of each node in program order; "": outside of layers
};
SavedPlaces savedPlaces(const ir::Graph& chosen);
/// Marks the same places in `graph` as kRecompute. False where a layer has other nodes, or is not known.
bool markPlaces(ir::Graph& graph, const SavedPlaces& places);

}  // namespace spscope::passes
