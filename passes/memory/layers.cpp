// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/layers.h"

#include <string_view>
#include <unordered_map>

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Layers findLayers(const ir::Graph& graph) {
  Layers layers;
  layers.of.assign(graph.nodeCount(), 0);
  std::unordered_map<std::string_view, std::int32_t> numbers;
  std::unordered_map<const ir::Location*, std::int32_t> by_location;
  std::vector<ir::NodeId> unnamed;  // since the last node of a layer
  std::vector<bool> learned(graph.valueCount(), false);  // depends on a trainable parameter
  for (const ir::Input& input : graph.inputs)
    if (input.value != ir::kNone && input.trainable) learned[at(input.value)] = true;
  std::int32_t current = 0;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (node.phase != ir::Phase::kForward) continue;
    bool depends = false;
    ir::forEachUse(node, [&](const ir::Use& use) { depends = depends || learned[at(use.value)]; });
    for (const ir::ValueId out : node.outputs)
      if (out != ir::kNone) learned[at(out)] = depends;
    std::int32_t layer = 0;
    if (node.location) {
      const auto [known, fresh] = by_location.try_emplace(node.location.get(), 0);
      if (fresh)
        if (const std::string_view key = ir::layerOf(node.location->module_path); !key.empty())
          known->second = numbers.try_emplace(key, static_cast<std::int32_t>(numbers.size()) + 1).first->second;
      layer = known->second;
    }
    if (layer == 0) {
      if (depends) unnamed.push_back(id);
      continue;
    }
    for (const ir::NodeId between : unnamed) layers.of[at(between)] = current;
    unnamed.clear();
    layers.of[at(id)] = current = layer;
  }
  layers.count = static_cast<int>(numbers.size());
  return layers;
}

std::vector<HandedOn> findHandedOn(const ir::Graph& graph, const Layers& layers) {
  struct Seen {
    HandedOn what;
    bool made = false, leaves = false;
  };
  std::vector<Seen> seen(graph.valueCount());
  std::vector<ir::ValueId> made;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (node.phase != ir::Phase::kForward) continue;
    const std::int32_t layer = layers.of[at(id)];
    ir::forEachUse(node, [&](const ir::Use& use) {
      const ir::Value& value = graph.value(use.value);
      Seen& s = seen[at(value.storage == ir::kNone ? use.value : value.storage)];
      if (!s.made || layer == s.what.from) return;
      s.leaves = true;
      if (layer == 0) return;
      s.what.shared = s.what.shared || (s.what.to != 0 && s.what.to != layer);
      if (s.what.to == 0) s.what.to = layer;
    });
    for (const ir::ValueId out : node.outputs) {
      if (out == ir::kNone || (graph.value(out).storage != ir::kNone && graph.value(out).storage != out)) continue;
      seen[at(out)].what = {out, layer, 0, false};
      seen[at(out)].made = true;
      made.push_back(out);
    }
  }
  std::vector<HandedOn> out;
  for (const ir::ValueId id : made)
    if (seen[at(id)].leaves) out.push_back(seen[at(id)].what);
  return out;
}

}  // namespace spscope::passes
