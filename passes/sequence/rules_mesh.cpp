// SPDX-License-Identifier: Apache-2.0
// Ops of our own on another axis of the mesh, as the plan of the sequence meets them: to it they are ordinary linear ops
// that keep, shorten or lengthen a dimension.
#include "core/ir/mesh_axis.h"
#include "core/ir/sp_ops.h"
#include "passes/sequence/rules.h"

namespace spscope::passes {

NoRule onOtherAxis(Planner& p, ir::NodeId id) {
  const ir::Node& n = p.node(id);
  const ir::ValueId x = ir::useArg(n, "self"), out = n.outputs[0];
  ir::Factors factors = p.factors(x);
  const ir::Placement placement = p.placement(x);
  const auto& shape = p.value(out).shape;
  for (std::size_t d = 0; d < factors.size(); ++d) {
    if (shape[d] == p.value(x).shape[d]) continue;
    if (placement.isSharded() && placement.dim == static_cast<int>(d)) return "a dimension is cut on both axes of the mesh";
    const ir::Tag tag = factors[d].size() == 1 ? factors[d][0].tag : ir::Tag::kNone;
    factors[d] = shape[d] == 1 ? ir::FactorList{} : ir::FactorList{{shape[d], tag}};
  }
  p.setOutput(id, 0, std::move(factors), placement);
  return {};
}

NoRule convolveRows(Planner& p, ir::NodeId id) {
  const ir::Node& n = p.node(id);
  const ir::ValueId x = n.find("input") ? ir::useArg(n, "input") : ir::useArg(n, "self");
  if (x == ir::kNone) return "not defined on sharded values";
  if (allReplicated(p, p.operands(id))) {
    p.setReplicated(id);
    return {};
  }
  const ir::Placement placement = p.placement(x);
  const ir::Dims out = p.value(n.outputs[0]).shape;
  if (!placement.isSharded() || placement.dim != 0 || out.size() != p.value(x).shape.size()) return "not defined on sharded values";
  for (const ir::ValueId v : p.operands(id)) {
    if (v == x) continue;
    if (!p.placement(v).isReplicated()) return "its filters are sharded";
    p.replaceOperand(id, v, p.vary(v));
  }
  ir::Factors factors = ir::plainFactors(out);
  factors[0] = p.factors(x)[0];
  p.setOutput(id, 0, std::move(factors), placement);
  return {};
}

void addBatchRules(RuleTable& table) {
  for (std::string_view name : {"conv1d", "conv2d", "conv3d", "convolution"}) table[name] = convolveRows;
}

}  // namespace spscope::passes
