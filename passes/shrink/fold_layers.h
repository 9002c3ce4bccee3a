// SPDX-License-Identifier: Apache-2.0
// Of equal layers in a row only the first stays: 32 layers become 3, each kind of neighbourhood still there.
//
//   Before:  %h0 = embedding .. ; layers.0(%h0) -> %h1; layers.1(%h1) -> %h2; .. layers.30(%h30) -> %h31; layers.31(%h31) -> %h32
//   After:   %h0 = embedding .. ; layers.0(%h0) -> %h1; layers.1(%h1) -> %h2; layers.31(%h2) -> %h32
//
// Two layers are equal when they hold the same ops with the same arguments, types and shapes, read the same places of
// themselves, of the layer before and of what all share, own parameters of the same shapes, and give nothing to anyone but
// the layer after. So the first and the last layer of a model, and any odd one, stay. What the weights hold does not count.
// The graph is a kGlobal one; ids and names of what stays do not change.
#pragma once

#include <map>
#include <string>

#include "core/ir/graph.h"

namespace spscope::passes {

struct FoldedGroup {
  std::string group;  ///< "model.layers"
  int layers = 0, kept = 0;
};

struct Fold {
  ir::Graph graph;
  std::map<std::string, std::string> stands_for;  ///< every layer -> the one that is left for it (itself where it stays)
  std::vector<FoldedGroup> groups;
};

Fold foldLayers(const ir::Graph& graph);

}  // namespace spscope::passes
