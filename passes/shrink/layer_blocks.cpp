// SPDX-License-Identifier: Apache-2.0
#include "passes/shrink/layer_blocks.h"

#include <charconv>

namespace spscope::passes {

std::optional<int> LayerBlocks::step(std::int32_t a, std::int32_t b) const {
  if (a == b) return 0;
  const LayerBlock &x = blocks[static_cast<std::size_t>(a)], &y = blocks[static_cast<std::size_t>(b)];
  if (a == 0 || b == 0 || x.group != y.group) return std::nullopt;
  if (b == a + 1) return 1;
  if (a == b + 1) return -1;
  return std::nullopt;
}

LayerBlocks layerBlocks(const ir::Graph& graph) {
  LayerBlocks out;
  std::map<std::pair<std::string, std::int64_t>, std::vector<ir::NodeId>> layers;
  out.blocks.emplace_back();
  for (const ir::NodeId id : graph.order) {
    const ir::Location* location = graph.node(id).location.get();
    const std::string name(location ? ir::layerOf(location->module_path) : std::string_view());
    if (name.empty()) {
      out.blocks[0].nodes.push_back(id);
      continue;
    }
    const std::size_t dot = name.rfind('.');
    const std::size_t digits = dot == std::string::npos ? 0 : dot + 1;
    std::int64_t number = 0;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    layers[{name.substr(0, dot == std::string::npos ? 0 : dot), number}].push_back(id);
  }
  for (auto& [key, nodes] : layers)
    out.blocks.push_back({key.first.empty() ? std::to_string(key.second) : key.first + "." + std::to_string(key.second), key.first, key.second, std::move(nodes)});
  out.block_of.assign(graph.nodeCount(), ir::kNone);
  out.place_of.assign(graph.nodeCount(), ir::kNone);
  for (std::size_t b = 0; b < out.blocks.size(); ++b)
    for (std::size_t i = 0; i < out.blocks[b].nodes.size(); ++i) {
      out.block_of[static_cast<std::size_t>(out.blocks[b].nodes[i])] = static_cast<std::int32_t>(b);
      out.place_of[static_cast<std::size_t>(out.blocks[b].nodes[i])] = static_cast<std::int32_t>(i);
    }
  return out;
}

}  // namespace spscope::passes
