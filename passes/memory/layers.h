// SPDX-License-Identifier: Apache-2.0
// The layers of a model's forward, and what they hand on.
//
// A layer is named by its module path (ir::layerOf), in order of first appearance. Nodes without one belong to the layer that
// runs, or to none: before the first layer (embeddings, tables), after the last one (the head and the loss), and wherever no trainable
// parameter leads to them (masks, positions). A module that is called several times is one layer.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

struct Layers {
  int count = 0;
  std::vector<std::int32_t> of;  ///< by node id: 1 ... count; 0: outside of layers, or no node of the forward
};
Layers findLayers(const ir::Graph& graph);

/// A storage that the forward makes in one place and reads in another: in another layer, or on the other side of a layer's edge.
struct HandedOn {
  ir::ValueId base = ir::kNone;  ///< the value that owns the storage
  std::int32_t from = 0;         ///< the layer that makes it; 0: none
  std::int32_t to = 0;           ///< the first other layer that reads it; 0: only what stands outside of layers does
  bool shared = false;           ///< several other layers read it: a table, a mask, an encoder's result
};

/// In the order in which they are made. Of a joint graph before or after `schedule`: only its forward nodes count.
std::vector<HandedOn> findHandedOn(const ir::Graph& graph, const Layers& layers);

}  // namespace spscope::passes
