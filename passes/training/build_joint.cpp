// SPDX-License-Identifier: Apache-2.0
#include "passes/training/build_joint.h"

namespace spscope::passes {
namespace {

Status checkLegal(const ir::Graph& graph, const PassContext& context) {
  if (!context.services) return makeError("internal", "build-joint needs libtorch");
  for (const ir::Input& input : graph.inputs)
    if (input.kind == ir::InputKind::kParameter && input.trainable) return {};
  Error e = makeError("nothing-trainable", "no parameter of the graph requires a gradient");
  e.remedy = "Export the model with requires_grad left on (model.train(), no freezing of everything).";
  return e;
}

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  SP_ASSIGN(graph, context.services->captureJoint(graph, context.cancel));
  for (ir::NodeId id : graph.order) {
    if (graph.node(id).phase == ir::Phase::kBackward) context.count("backward_nodes");
    else context.count("forward_nodes");
  }
  for (const ir::Output& output : graph.outputs)
    if (output.kind == ir::OutputKind::kGradient) context.count("gradients");
  return true;
}

}  // namespace

Pass buildJointPass() {
  return {{"build-joint",
           "Forward and backward as one graph, by libtorch's autograd on meta tensors",
           {{"forward_nodes", "ops of the forward, composite ones decomposed"},
            {"backward_nodes", "ops of the backward"},
            {"gradients", "parameters that get a gradient"}},
           ir::Form::kLocal,
           ir::Form::kJoint},
          checkLegal,
          run};
}

}  // namespace spscope::passes
