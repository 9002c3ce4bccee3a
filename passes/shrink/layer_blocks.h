// SPDX-License-Identifier: Apache-2.0
// The nodes of a program by the layer that they belong to (ir::layerOf of their module path), in program order. One way to
// split a program for all who compare layers: of one program with each other (fold_layers), of two programs (compare_plans).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

struct LayerBlock {
  std::string name;   ///< "model.layers.3"; "" for what stands in no layer
  std::string group;  ///< "model.layers"
  std::int64_t number = 0;
  std::vector<ir::NodeId> nodes;  ///< in program order
};

struct LayerBlocks {
  std::vector<LayerBlock> blocks;      ///< [0]: outside of layers; then by group and number
  std::vector<std::int32_t> block_of;  ///< by node id; kNone for dead nodes
  std::vector<std::int32_t> place_of;  ///< by node id: index into LayerBlock::nodes

  /// 1: `b` comes next after `a` in its group, -1: just before, 0: the same; nullopt otherwise.
  std::optional<int> step(std::int32_t a, std::int32_t b) const;
};

LayerBlocks layerBlocks(const ir::Graph& graph);

}  // namespace spscope::passes
