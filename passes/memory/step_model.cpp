// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/step_model.h"

#include <optional>

#include "core/ir/layout.h"

namespace spscope::passes {

std::int32_t StepModel::intern(ir::ValueId id) {
  std::int32_t& slot = storage_of_[static_cast<std::size_t>(id)];
  if (slot >= 0) return slot;
  const ir::Value& value = graph_->value(id);
  if (value.storage != ir::kNone && value.storage != id) return slot = intern(value.storage);
  StepStorage storage;
  storage.base = id;
  storage.bytes = value.storage_bytes > 0 ? value.storage_bytes : value.localBytes();
  storage.producer = value.producer == ir::kNone ? -1 : place_of[static_cast<std::size_t>(value.producer)];
  storage.input = value.producer == ir::kNone;
  storage.forward = storage.producer >= 0 && graph_->node(value.producer).phase == ir::Phase::kForward;
  slot = static_cast<std::int32_t>(storages.size());
  storages.push_back(storage);
  return slot;
}

StepModel::StepModel(const ir::Graph& graph, const LivenessOptions& options, const DeviceRates& rates)
    : graph_(&graph), storage_of_(graph.valueCount(), -1) {
  place_of.assign(graph.nodeCount(), -1);
  for (std::size_t i = 0; i < graph.order.size(); ++i)
    place_of[static_cast<std::size_t>(graph.order[i])] = static_cast<std::int32_t>(i);

  for (const ir::Input& input : graph.inputs)
    if (input.value != ir::kNone && storage_of_[static_cast<std::size_t>(input.value)] < 0)
      resident_parameters += storages[static_cast<std::size_t>(intern(input.value))].bytes;
  resident_optimizer = optimizerBytes(graph, options);
  resident_gradients = accumulatorBytes(graph, options.accumulate);

  std::optional<ir::LayoutScope> layouts;  // workspaces follow from how operands lie
  if (options.services != nullptr) layouts.emplace(graph);
  nodes.reserve(graph.order.size());
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    StepNode step;
    step.id = id;
    step.forward = node.phase == ir::Phase::kForward;
    step.uses_begin = static_cast<std::int32_t>(uses.size());
    ir::forEachUse(node, [&](const ir::Use& use) {
      const std::int32_t storage = intern(use.value);
      if (!step.forward) storages[static_cast<std::size_t>(storage)].used_after = true;
      uses.push_back(use.value);
    });
    step.uses_end = static_cast<std::int32_t>(uses.size());
    step.outs_begin = static_cast<std::int32_t>(outs.size());
    step.view = true;
    for (const ir::ValueId out : node.outputs) {
      if (out == ir::kNone) continue;
      intern(out);
      step.view = step.view && !ownsStorage(out);
      outs.push_back(out);
    }
    step.outs_end = static_cast<std::int32_t>(outs.size());
    if (!step.view) {
      step.cost = costOf(graph, node, rates);
      step.packing = packingBytes(graph, node);
      // The packing of our own ops is known here; everything else is asked of libtorch's side.
      if (options.services != nullptr && node.op.str().rfind("sp.", 0) != 0)
        step.workspace = options.services->workspaceBytes(graph, node, options.device, options.threads);
    }
    nodes.push_back(step);
  }
  for (const ir::Output& output : graph.outputs) {
    if (output.value == ir::kNone) continue;
    StepStorage& storage = storages[static_cast<std::size_t>(intern(output.value))];
    storage.output = true;
    storage.gradient = storage.gradient || output.kind == ir::OutputKind::kGradient;
  }
}

}  // namespace spscope::passes
