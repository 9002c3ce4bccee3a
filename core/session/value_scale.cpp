// SPDX-License-Identifier: Apache-2.0
#include "core/session/value_scale.h"

#include <algorithm>

#include "core/torch/value_compare.h"

namespace spscope::session {

Status ValueScales::measureInputs(const exec::VirtualRanks& ranks) {
  for (const ir::Input& input : graph_.inputs) SP_TRY(measure(ranks, input.value, nullptr));
  return {};
}

Status ValueScales::measure(const exec::VirtualRanks& ranks, const ir::Node& node) {
  for (const ir::ValueId v : node.outputs)
    if (v != ir::kNone) SP_TRY(measure(ranks, v, &node));
  return {};
}

Status ValueScales::measure(const exec::VirtualRanks& ranks, ir::ValueId v, const ir::Node* node) {
  double& scale = scale_[static_cast<std::size_t>(v)];
  if (auto value = ranks.value(0, v); value && ir::isFloating(graph_.value(v).dtype)) {
    SP_ASSIGN(scale, exec::normOfValue(*value));
  }
  const double share = graph_.value(v).storage != ir::kNone ? 1.0 : floor_;
  if (node != nullptr)
    ir::forEachUse(*node, [&](const ir::Use& use) { scale = std::max(scale, share * scale_[static_cast<std::size_t>(use.value)]); });
  return {};
}

}  // namespace spscope::session
