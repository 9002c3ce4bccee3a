// SPDX-License-Identifier: Apache-2.0
#include "passes/shrink/fold_layers.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "passes/shrink/layer_blocks.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

/// What a layer is but for its place, as text; equal texts are equal layers.
class Signatures {
 public:
  explicit Signatures(const ir::Graph& graph) : graph_(graph), blocks_(layerBlocks(graph)), users_(ir::usersOf(graph)), input_of_(graph.valueCount(), kNone), result_(graph.valueCount(), false) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) input_of_[at(graph.inputs[i].value)] = static_cast<std::int32_t>(i);
    for (const ir::Output& out : graph.outputs)
      if (out.value != kNone) result_[at(out.value)] = true;
  }

  const LayerBlocks& blocks() const { return blocks_; }

  std::string of(std::int32_t block) const {
    std::string out;
    std::unordered_map<ValueId, int> slots;  // parameters of its own, by first use
    for (const NodeId id : blocks_.blocks[at(block)].nodes) {
      const ir::Node& n = graph_.node(id);
      out += n.op.str();
      for (const ir::Argument& a : n.args) {
        out += " " + a.name.str() + "=";
        if (const auto* use = std::get_if<ir::Use>(&a.value)) {
          out += operand(use->value, block, slots);
        } else if (const auto* list = std::get_if<ir::UseList>(&a.value)) {
          for (const ir::Use& entry : *list) out += operand(entry.value, block, slots) + ",";
        } else {
          out += ir::attributeText(graph_, a.value);
        }
      }
      for (const ValueId v : n.outputs) out += v == kNone ? " none" : " " + ir::typeText(graph_, graph_.value(v)) + (givesAway(v, block) ? strf("!%d", v) : "");
      out += strf(" c%d\n", n.location && n.location->checkpoint != 0 ? 1 : 0);
    }
    return out;
  }

 private:
  template <typename I>
  static std::size_t at(I i) { return static_cast<std::size_t>(i); }
  std::int32_t blockOf(NodeId n) const { return blocks_.block_of[at(n)]; }

  bool givesAway(ValueId v, std::int32_t block) const {
    if (result_[at(v)]) return true;
    return std::any_of(users_[at(v)].begin(), users_[at(v)].end(), [&](NodeId user) {
      const auto step = blocks_.step(block, blockOf(user));
      return !step || *step < 0;
    });
  }

  std::string operand(ValueId v, std::int32_t block, std::unordered_map<ValueId, int>& slots) const {
    if (v == kNone) return "none";
    if (const std::int32_t i = input_of_[at(v)]; i != kNone) {
      const bool own = std::all_of(users_[at(v)].begin(), users_[at(v)].end(), [&](NodeId user) { return blockOf(user) == block; });
      if (!own || result_[at(v)]) return strf("shared%d", v);
      const ir::Input& input = graph_.inputs[at(i)];
      const int slot = slots.try_emplace(v, static_cast<int>(slots.size())).first->second;
      return strf("own%d kind%d train%d ", slot, static_cast<int>(input.kind), input.trainable) + ir::typeText(graph_, graph_.value(v));
    }
    const ir::Value& value = graph_.value(v);
    const auto step = blocks_.step(blockOf(value.producer), block);
    if (!step || *step < 0) return strf("value%d", v);
    return strf("%s%d.%d", *step == 0 ? "here" : "before", blocks_.place_of[at(value.producer)], value.output_index);
  }

  const ir::Graph& graph_;
  LayerBlocks blocks_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<std::int32_t> input_of_;
  std::vector<bool> result_;
};

/// Inputs that only what is gone has read go, too.
void dropInputs(ir::Graph& graph, const std::vector<bool>& was_read) {
  const auto users = ir::usersOf(graph);
  std::vector<int> now(graph.inputs.size(), kNone);
  std::vector<ir::Input> kept;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto v = static_cast<std::size_t>(graph.inputs[i].value);
    if (was_read[v] && users[v].empty()) continue;
    now[i] = static_cast<int>(kept.size());
    kept.push_back(graph.inputs[i]);
  }
  graph.inputs = std::move(kept);
  std::erase_if(graph.outputs, [&](const ir::Output& o) { return o.input != kNone && now[static_cast<std::size_t>(o.input)] == kNone; });
  for (ir::Output& o : graph.outputs)
    if (o.input != kNone) o.input = now[static_cast<std::size_t>(o.input)];
}

}  // namespace

Fold foldLayers(const ir::Graph& graph) {
  Fold out;
  out.graph = graph;
  const Signatures signatures(graph);
  const LayerBlocks& layers = signatures.blocks();
  std::vector<std::int32_t> left_for(layers.blocks.size());  // of each block
  std::string before;
  std::map<std::string, FoldedGroup> groups;
  for (std::size_t b = 1; b < layers.blocks.size(); ++b) {
    const LayerBlock& layer = layers.blocks[b];
    std::string mine = signatures.of(static_cast<std::int32_t>(b));
    const bool equal = b > 1 && layers.blocks[b - 1].group == layer.group && mine == before;
    left_for[b] = equal ? left_for[b - 1] : static_cast<std::int32_t>(b);
    before = std::move(mine);
    out.stands_for[layer.name] = layers.blocks[static_cast<std::size_t>(left_for[b])].name;
    FoldedGroup& group = groups[layer.group];
    group.group = layer.group;
    ++group.layers;
    group.kept += !equal;
  }
  for (auto& [name, group] : groups) out.groups.push_back(group);

  // What read a layer that goes, reads the one that is left for it.
  const auto instead = [&](ValueId v) {
    const ir::Value& value = graph.value(v);
    if (value.producer == kNone) return v;
    const std::int32_t b = layers.block_of[static_cast<std::size_t>(value.producer)];
    if (b == kNone || b == 0 || left_for[static_cast<std::size_t>(b)] == b) return v;
    const LayerBlock& left = layers.blocks[static_cast<std::size_t>(left_for[static_cast<std::size_t>(b)])];
    const NodeId n = left.nodes[static_cast<std::size_t>(layers.place_of[static_cast<std::size_t>(value.producer)])];
    return graph.node(n).outputs[static_cast<std::size_t>(value.output_index)];
  };
  std::vector<bool> was_read(graph.valueCount(), false);
  for (const NodeId id : graph.order)
    ir::forEachUse(graph.node(id), [&](const ir::Use& use) { was_read[static_cast<std::size_t>(use.value)] = true; });
  out.graph.order.clear();
  for (const NodeId id : graph.order) {
    const std::int32_t b = layers.block_of[static_cast<std::size_t>(id)];
    if (b != 0 && left_for[static_cast<std::size_t>(b)] != b) continue;
    out.graph.order.push_back(id);
    ir::forEachUse(out.graph.node(id), [&](ir::Use& use) { use.value = instead(use.value); });
  }
  dropInputs(out.graph, was_read);
  return out;
}

}  // namespace spscope::passes
