// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/stage_nodes.h"

#include <algorithm>

#include "core/ir/diff.h"
#include "core/session/debug/node_query.h"

namespace spscope::session::debug {

std::set<ir::NodeId> nodesOfStages(const passes::Compiled& compiled, const std::string& pattern) {
  std::set<ir::NodeId> out, made;
  const ir::Graph* before = nullptr;
  for (const passes::StageRecord& stage : compiled.stages) {
    if (stage.graph == nullptr) continue;
    if (like(stage.name, pattern)) {
      if (before == nullptr) {  // the file's own
        out.insert(stage.graph->order.begin(), stage.graph->order.end());
      } else {
        const ir::GraphDiff diff = ir::diffGraphs(*before, *stage.graph);
        out.insert(diff.added.begin(), diff.added.end());
        made.insert(diff.added.begin(), diff.added.end());
        for (const ir::NodeChange& change : diff.changed) out.insert(change.node);
      }
    }
    // What a later stage makes of what this one made is its, too: exchanges that were fused, say.
    for (const ir::NodeId id : stage.graph->order) {
      const ir::Provenance& p = stage.graph->node(id).provenance;
      if (p.pass.str() == stage.name && std::any_of(p.from.begin(), p.from.end(), [&](ir::NodeId from) { return made.contains(from); })) made.insert(id), out.insert(id);
    }
    before = stage.graph.get();
  }
  return out;
}

}  // namespace spscope::session::debug
