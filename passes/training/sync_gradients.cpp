// SPDX-License-Identifier: Apache-2.0
#include "passes/training/sync_gradients.h"

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"

namespace spscope::passes {

std::vector<bool> rankVarying(const ir::Graph& graph, ir::MeshAxis axis) {
  std::vector<bool> varying(graph.valueCount(), false);
  for (ir::NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    bool v = false;
    const std::string_view base = ir::baseName(n.op);
    if (base == "type_as") {  // of its second operand only the dtype is read, of new_ones' first one too
      const ir::ValueId self = ir::useArg(n, "self");
      v = self != ir::kNone && varying[static_cast<std::size_t>(self)];
    } else if (base.rfind("new_", 0) != 0) {
      ir::forEachUse(n, [&](const ir::Use& use) { v = v || varying[static_cast<std::size_t>(use.value)]; });
    }
    // What happens on the other axis alone changes nothing on this one.
    if (const ir::MeshAxis on = ir::axisOf(n); on == axis || on == ir::MeshAxis::kAll) {
      if (n.op == ir::sp::kAllReduce || n.op == ir::sp::kAllGather) v = false;
      if (n.op == ir::sp::kSlice || n.op == ir::sp::kAllToAll || n.op == ir::sp::kReduceScatter) v = true;
    }
    for (ir::ValueId out : n.outputs)
      if (out != ir::kNone) varying[static_cast<std::size_t>(out)] = v;
  }
  return varying;
}

namespace {

Status proveOn(const ir::Graph& graph, ir::MeshAxis axis) {
  const std::vector<bool> varying = rankVarying(graph, axis);
  for (const ir::Output& output : graph.outputs) {
    if (output.value == ir::kNone || output.kind == ir::OutputKind::kUser) continue;
    if (varying[static_cast<std::size_t>(output.value)]) {
      const bool gradient = output.kind == ir::OutputKind::kGradient;
      Error e = makeError("gradient-incomplete",
                          gradient ? "the gradient of " + graph.inputs[static_cast<std::size_t>(output.input)].name + " still differs between the ranks"
                                   : std::string("the loss still differs between the ranks"));
      const ir::NodeId producer = graph.value(output.value).producer;
      if (producer != ir::kNone) {
        e.node = graph.node(producer).name;
        if (graph.node(producer).location) e.source = graph.node(producer).location->source;
      }
      return e;
    }
  }
  for (ir::NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    if (n.op != ir::sp::kAllReduce && n.op != ir::sp::kReduceScatter) continue;
    if (const ir::MeshAxis on = ir::axisOf(n); on != axis && on != ir::MeshAxis::kAll) continue;
    if (varying[static_cast<std::size_t>(ir::useArg(n, "self"))]) continue;
    // Equal on all ranks, so it is complete already: the sum would be as many times too large as there are ranks.
    Error e = makeError("gradient-repeated", "a sum over the ranks is taken of a value that is the same on all of them");
    e.node = n.name;
    if (n.location) e.source = n.location->source;
    return e;
  }
  return {};
}

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  SP_TRY(proveOn(graph, ir::MeshAxis::kSequence));
  if (ir::axisSize(graph.mesh, ir::MeshAxis::kData) > 1) SP_TRY(proveOn(graph, ir::MeshAxis::kData));
  for (const ir::Output& output : graph.outputs)
    if (output.kind == ir::OutputKind::kGradient && output.value != ir::kNone) context.count("complete");
  for (ir::NodeId id : graph.order)
    if (graph.node(id).op == ir::sp::kAllReduce && graph.node(id).phase == ir::Phase::kBackward) context.count("gradient_sums");
  return false;
}

}  // namespace

Pass syncGradientsPass() {
  return {{"sync-gradients",
           "Prove that every gradient is complete on every rank, exactly once",
           {{"complete", "gradients that are the same on every rank"},
            {"gradient_sums", "all-reduces in the backward"}},
           ir::Form::kJoint,
           ir::Form::kJoint},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          run};
}

}  // namespace spscope::passes
