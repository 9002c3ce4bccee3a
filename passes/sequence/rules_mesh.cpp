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

}  // namespace spscope::passes
