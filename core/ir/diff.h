// SPDX-License-Identifier: Apache-2.0
// What a pass did to a graph: a comparison by node identity. Nodes keep their ids from stage to stage, so this is linear
// and says what happened to a node, not which lines of text moved.
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::ir {

/// One node that is in both graphs and differs.
struct NodeChange {
  NodeId node = kNone;
  std::vector<std::string> what;  ///< "argument dim: 1 -> 2", "op: a -> b", "placement of %x: R -> S1[4, 4]"
};

struct GraphDiff {
  std::vector<NodeId> added;        ///< in b only, in b's order
  std::vector<NodeId> removed;      ///< in a only, in a's order
  std::vector<NodeChange> changed;  ///< in b's order
  std::vector<NodeId> moved;        ///< unchanged nodes that stand elsewhere (as few as explain the new order)
  std::vector<std::string> graph;   ///< inputs, outputs, mesh, form: "input ids: ...", "output 0: ..."

  bool empty() const {
    return added.empty() && removed.empty() && changed.empty() && moved.empty() && graph.empty();
  }
};

/// Values are compared by what defines them, not by id or name; provenance, locations and stacks are not compared.
GraphDiff diffGraphs(const Graph& a, const Graph& b);
/// added + removed + changed of diffGraphs, without the texts.
std::int64_t countChangedNodes(const Graph& a, const Graph& b);
/// The diff as lines for people: "+ ...", "- ...", "~ ...".
std::string formatDiff(const Graph& a, const Graph& b, const GraphDiff& diff);

}  // namespace spscope::ir
