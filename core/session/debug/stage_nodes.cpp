// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/stage_nodes.h"

#include "core/ir/diff.h"
#include "core/session/debug/node_query.h"

namespace spscope::session::debug {

std::set<ir::NodeId> nodesOfStages(const passes::Compiled& compiled, const std::string& pattern) {
  std::set<ir::NodeId> out;
  const ir::Graph* before = nullptr;
  for (const passes::StageRecord& stage : compiled.stages) {
    if (stage.graph == nullptr) continue;
    if (like(stage.name, pattern)) {
      if (before == nullptr) {  // the file's own
        out.insert(stage.graph->order.begin(), stage.graph->order.end());
      } else {
        const ir::GraphDiff diff = ir::diffGraphs(*before, *stage.graph);
        out.insert(diff.added.begin(), diff.added.end());
        for (const ir::NodeChange& change : diff.changed) out.insert(change.node);
      }
    }
    before = stage.graph.get();
  }
  return out;
}

}  // namespace spscope::session::debug
