// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/segments.h"

#include <string_view>
#include <unordered_map>

namespace spscope::passes {

Segments findSegments(const StepModel& model) {
  const ir::Graph& graph = model.graph();
  Segments segments;
  segments.of.assign(model.nodes.size(), -1);

  std::vector<bool> learned(graph.valueCount(), false);  // depends on a trainable parameter
  for (const ir::Input& input : graph.inputs)
    if (input.value != ir::kNone && input.trainable) learned[static_cast<std::size_t>(input.value)] = true;

  std::unordered_map<std::string_view, std::int32_t> layers;
  std::unordered_map<const ir::Location*, std::int32_t> by_location;
  std::int32_t current = 0;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const StepNode& step = model.nodes[i];
    if (!step.forward) continue;
    bool depends = false;
    for (const ir::ValueId use : model.usesOf(step)) depends = depends || learned[static_cast<std::size_t>(use)];
    for (const ir::ValueId out : model.outsOf(step)) learned[static_cast<std::size_t>(out)] = depends;
    if (!depends) {
      segments.of[i] = 0;
      continue;
    }
    const ir::Location* location = graph.node(step.id).location.get();
    std::int32_t layer = -1;
    if (location != nullptr) {
      const auto [known, fresh] = by_location.try_emplace(location, -1);
      if (fresh) {
        const std::string_view key = ir::layerOf(location->module_path);
        if (!key.empty()) {
          const auto next = static_cast<std::int32_t>(layers.size()) + 1;
          known->second = layers.try_emplace(key, next).first->second;
        }
      }
      layer = known->second;
    }
    if (layer > 0) current = layer;
    segments.of[i] = current;
  }
  segments.count = static_cast<int>(layers.size()) + 1;
  return segments;
}

}  // namespace spscope::passes
