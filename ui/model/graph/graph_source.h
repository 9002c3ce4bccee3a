// SPDX-License-Identifier: Apache-2.0
// What the graph view shows: one graph, or two stages merged (the later one's nodes, and those that it no longer has, each
// with what happened to it). Built once per stage and comparison; which modules are open does not matter here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/diff.h"
#include "core/ir/graph.h"
#include "ui/model/graph/module_tree.h"

namespace spscope::ui {

enum class Change : std::uint8_t { kNone, kAdded, kRemoved, kChanged };
enum class LinkKind : std::uint8_t { kData, kSaved, kCollective };  ///< kSaved: kept from forward to backward

struct SourceNode {
  ir::NodeId node = ir::kNone;    ///< kNone: a graph input
  ir::ValueId input = ir::kNone;  ///< of an input
  ModuleIndex module = 0;
  std::string title, subtitle;    ///< "linear · q_proj", "[1, S/8, 4096] bf16"
  Change change = Change::kNone;
  std::vector<std::string> what;  ///< of a changed node: "argument dim: 1 -> 2"
  bool collective = false, attention = false, view = false;
};
struct SourceLink {
  std::int32_t from = 0, to = 0;  ///< into nodes
  ir::ValueId value = ir::kNone;
  LinkKind kind = LinkKind::kData;
  Change change = Change::kNone;  ///< a link of a removed or to a removed node
};

struct GraphSource {
  std::shared_ptr<const ir::Graph> graph;     ///< the shown stage
  std::shared_ptr<const ir::Graph> previous;  ///< what it is compared with; null: nothing
  std::shared_ptr<const ModuleTree> tree;     ///< of `graph`
  std::vector<SourceNode> nodes;              ///< inputs of the user first, then program order; removed ones last
  std::vector<SourceLink> links;
  ir::GraphDiff diff;
  std::vector<std::int32_t> index_of;         ///< by node id: index into nodes, -1
  struct Changes {
    std::int32_t added = 0, removed = 0, changed = 0;
    bool any() const { return added + removed + changed > 0; }
  };
  std::vector<Changes> changes;               ///< by module, with its children's; empty where nothing is compared
  std::int32_t indexOf(ir::NodeId node) const {
    return node >= 0 && static_cast<std::size_t>(node) < index_of.size() ? index_of[static_cast<std::size_t>(node)] : -1;
  }
};

/// Parameters are no nodes: they belong to the box that reads them. O(graph).
std::shared_ptr<const GraphSource> makeGraphSource(std::shared_ptr<const ir::Graph> graph, std::shared_ptr<const ir::Graph> previous = nullptr);

/// What the tree panel says of a module: "8.03 GiB", "31 like 0", "+4 ~2".
struct ModuleRow {
  std::string label, detail, tip;
  bool changed = false;
};
ModuleRow moduleRow(const GraphSource& source, ModuleIndex module);

/// "[1, S/8, 4096] bf16" of a value: local shapes where it is sharded, with the factor that is cut.
std::string shapeText(const ir::Graph& graph, const ir::Value& value);

}  // namespace spscope::ui
