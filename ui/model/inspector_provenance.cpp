// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "ui/model/inspector_sections.h"

namespace spscope::ui {
namespace {

constexpr int kDeep = 12;  ///< generations of "made from"

bool alive(const ir::Graph& graph, ir::NodeId node) {
  return node >= 0 && static_cast<std::size_t>(node) < graph.nodeCount() &&
         std::find(graph.order.begin(), graph.order.end(), node) != graph.order.end();
}

/// Index of the last stage before `stage` that has the node; -1.
int lastWith(const std::vector<Workspace::Stage>& stages, int stage, ir::NodeId node) {
  for (int i = stage - 1; i >= 0; --i)
    if (stages[static_cast<std::size_t>(i)].graph && alive(*stages[static_cast<std::size_t>(i)].graph, node)) return i;
  return -1;
}

int stageNamed(const std::vector<Workspace::Stage>& stages, const std::string& name) {
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace

InspectorSection provenanceSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{"Provenance", {}, ""};
  const auto& stages = scope.workspace->stages();
  // Where it appeared, and where its line became another.
  std::string before;
  bool there = false;
  for (int i = 0; i <= scope.workspace->stage(); ++i) {
    const Workspace::Stage& stage = stages[static_cast<std::size_t>(i)];
    if (!stage.graph || !alive(*stage.graph, node.id)) continue;
    const std::string text = ir::nodeText(*stage.graph, stage.graph->node(node.id));
    if (!there) out.rows.push_back({stage.name, (i == 0 ? "in the file: " : "made: ") + text, true, {}});
    else if (text != before) out.rows.push_back({stage.name, "changed: " + text, true, {}});
    there = true;
    before = text;
  }
  // What it was made from, back to the file.
  std::set<ir::NodeId> seen{node.id};
  std::vector<std::pair<ir::NodeId, int>> now{{node.id, scope.workspace->stage()}};
  for (int deep = 0; deep < kDeep && !now.empty(); ++deep) {
    std::vector<std::pair<ir::NodeId, int>> next;
    for (const auto& [id, at] : now) {
      const ir::Provenance& p = stages[static_cast<std::size_t>(at)].graph->node(id).provenance;
      const int pass = stageNamed(stages, p.pass.str());
      for (const ir::NodeId from : p.from) {
        if (!seen.insert(from).second) continue;
        const int stage = lastWith(stages, pass < 0 ? at + 1 : pass, from);
        if (stage < 0) continue;
        const ir::Graph& g = *stages[static_cast<std::size_t>(stage)].graph;
        Selection target;
        target.node = from;
        out.rows.push_back({deep == 0 ? "made from" : "and that from", "%" + g.node(from).name + " (" + g.node(from).op.str() + "), by " + p.pass.str(), true, target});
        next.emplace_back(from, stage);
      }
    }
    now = std::move(next);
  }
  if (!node.provenance.pass.str().empty() && node.provenance.from.empty()) out.rows.push_back({"by", node.provenance.pass.str(), true, {}});
  return out;
}

}  // namespace spscope::ui
