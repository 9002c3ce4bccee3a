// SPDX-License-Identifier: Apache-2.0
// The modules of a graph as a tree: what the tree panel lists and what the graph view collapses. Runs of equal layers are
// folded ("1 … 31, same as 0"). In a joint graph forward and backward are two branches, since a module has nodes in both
// and would otherwise stand in a cycle with its neighbours.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::ui {

/// Index into ModuleTree::modules; 0 is the root.
using ModuleIndex = std::int32_t;

struct Module {
  std::string path;     ///< key in this tree: "layers.0.attn"; "backward/layers.0"; of a fold "layers.[1-31]"
  std::string label;    ///< "attn", "0", "1 … 31"
  std::string name;     ///< the module's name in the program, without the branch; empty: root, branches and folds
  ModuleIndex parent = -1;
  std::vector<ModuleIndex> children;  ///< in the order of their first node
  std::vector<ir::NodeId> nodes;      ///< its own, not its children's, in program order
  std::int64_t all_nodes = 0;         ///< with its children's
  std::int64_t parameter_bytes = 0;   ///< of parameters that its nodes use first; with its children's
  std::uint64_t structure = 0;        ///< equal structures have equal hashes
  ModuleIndex same_as = -1;           ///< a fold: the module that its members equal
};

class ModuleTree {
 public:
  explicit ModuleTree(const ir::Graph& graph);
  const std::vector<Module>& modules() const { return modules_; }
  const Module& at(ModuleIndex index) const { return modules_[static_cast<std::size_t>(index)]; }
  /// The module of a node; 0 (root) for nodes without one.
  ModuleIndex of(ir::NodeId node) const;
  /// -1 where there is none.
  ModuleIndex find(const std::string& path) const;
  /// From the root's child down to the module; empty for the root.
  std::vector<ModuleIndex> chain(ModuleIndex module) const;

 private:
  ModuleIndex child(ModuleIndex parent, const std::string& label, std::string path, std::string name);
  ModuleIndex moduleFor(const ir::Graph& graph, const ir::Node& node);
  void hashStructures(const ir::Graph& graph);
  void foldEqualLayers();

  std::vector<Module> modules_;
  std::unordered_map<std::string, ModuleIndex> by_path_;
  std::vector<ModuleIndex> of_node_;  ///< by node id
};

}  // namespace spscope::ui
