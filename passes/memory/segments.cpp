// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/segments.h"

#include "passes/memory/layers.h"

namespace spscope::passes {

Segments findSegments(const StepModel& model) {
  const ir::Graph& graph = model.graph();
  Segments segments;
  segments.of.assign(model.nodes.size(), -1);

  std::vector<bool> learned(graph.valueCount(), false);  // depends on a trainable parameter
  for (const ir::Input& input : graph.inputs)
    if (input.value != ir::kNone && input.trainable) learned[static_cast<std::size_t>(input.value)] = true;

  const Layers layers = findLayers(graph);
  std::int32_t current = 0;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const StepNode& step = model.nodes[i];
    if (!step.forward) continue;
    bool depends = false;
    for (const ir::ValueId use : model.usesOf(step)) depends = depends || learned[static_cast<std::size_t>(use)];
    for (const ir::ValueId out : model.outsOf(step)) learned[static_cast<std::size_t>(out)] = depends;
    if (const std::int32_t layer = layers.of[static_cast<std::size_t>(step.id)]; layer > 0) current = layer;
    segments.of[i] = depends ? current : 0;
  }
  segments.count = layers.count + 1;
  return segments;
}

}  // namespace spscope::passes
