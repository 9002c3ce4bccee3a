// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/insert_all_to_all.h"

#include "core/ir/sp_ops.h"
#include "passes/rewrite_count.h"
#include "passes/sequence/lower_redistribute.h"

namespace spscope::passes {
namespace {

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  Rewriter rw(graph, "insert-all-to-all");
  for (ir::NodeId id : rw.program()) {
    rw.visit(id);
    if (graph.node(id).op != ir::sp::kRedistribute || kindOf(graph, graph.node(id)) != Redistribution::kAllToAll || !mayRewrite(graph, id)) {
      rw.keep(id);
      continue;
    }
    context.count("inserted_all_to_all");
    const ir::ValueId out = graph.node(id).outputs[0];
    rw.replace(out, lowerRedistribute(graph, rw, id));
  }
  return rw.finish();
}

}  // namespace

Pass insertAllToAllPass() {
  return {{"insert-all-to-all",
           "Exchange between sequence shards and head shards around attention",
           {{"inserted_all_to_all", "exchanges in the forward"}},
           ir::Form::kLocal,
           ir::Form::kLocal},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          run};
}

}  // namespace spscope::passes
