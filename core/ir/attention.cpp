// SPDX-License-Identifier: Apache-2.0
#include "core/ir/attention.h"

#include <set>
#include <string_view>

namespace spscope::ir {
namespace {

bool isProduct(std::string_view base) { return base == "matmul" || base == "bmm" || base == "baddbmm" || base == "mm"; }

/// Ops that may stand between the scores and the softmax: scaling, masks, soft caps, sinks, casts, views.
bool passesScores(std::string_view base) {
  static const std::set<std::string_view> names = {
      "mul", "div", "add", "sub", "where", "masked_fill", "to", "_to_copy", "tanh", "clamp", "cat", "view", "reshape",
      "_unsafe_view", "contiguous", "clone", "alias", "transpose", "expand", "dropout", "maximum"};
  return names.count(base) > 0;
}

Symbol leftName(const Node& n) { return baseName(n.op) == "baddbmm" ? "batch1" : "self"; }
Symbol rightName(const Node& n) {
  const auto base = baseName(n.op);
  return base == "baddbmm" ? "batch2" : base == "matmul" ? "other" : "mat2";
}

}  // namespace

std::vector<AttentionSite> findAttention(const Graph& graph) {
  // Parameters and what follows from them alone: a product with a weight is a layer, not attention.
  std::vector<bool> activation(graph.valueCount(), false);
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::kUser) activation[static_cast<std::size_t>(input.value)] = true;
  std::vector<AttentionSite> sites;
  std::vector<std::int32_t> scores(graph.valueCount(), kNone);  // value -> index into `eager` whose scores it carries
  struct Eager {
    AttentionSite site;
    bool used = false;
  };
  std::vector<Eager> eager;
  std::vector<std::int32_t> weights(graph.valueCount(), kNone);  // softmax result -> its eager site
  for (NodeId id : graph.order) {
    const Node& n = graph.node(id);
    const std::string_view base = baseName(n.op);
    bool active = false;
    std::int32_t carried = kNone, weighted = kNone;
    forEachUse(n, [&](const Use& use) {
      active = active || activation[static_cast<std::size_t>(use.value)];
      if (scores[static_cast<std::size_t>(use.value)] != kNone) carried = scores[static_cast<std::size_t>(use.value)];
      if (weights[static_cast<std::size_t>(use.value)] != kNone) weighted = weights[static_cast<std::size_t>(use.value)];
    });
    for (ValueId out : n.outputs)
      if (out != kNone) activation[static_cast<std::size_t>(out)] = active;
    const ValueId out = n.outputs.empty() ? kNone : n.outputs[0];
    if (out == kNone) continue;
    if (isAttention(n.op)) {
      sites.push_back({id, kNone, true, useArg(n, "query"), useArg(n, "key")});
    } else if (isProduct(base)) {
      if (weighted != kNone && !eager[static_cast<std::size_t>(weighted)].used) {
        eager[static_cast<std::size_t>(weighted)].used = true;
        sites.push_back(eager[static_cast<std::size_t>(weighted)].site);
        continue;
      }
      const ValueId a = useArg(n, leftName(n)), b = useArg(n, rightName(n));
      if (a == kNone || b == kNone || !activation[static_cast<std::size_t>(a)] || !activation[static_cast<std::size_t>(b)]) continue;
      scores[static_cast<std::size_t>(out)] = static_cast<std::int32_t>(eager.size());
      eager.push_back({{id, kNone, false, a, b}, false});
    } else if (base == "softmax" || base == "_softmax") {
      if (carried != kNone) {
        eager[static_cast<std::size_t>(carried)].site.softmax = id;
        weights[static_cast<std::size_t>(out)] = carried;
      }
    } else if (weighted != kNone && (passesScores(base) || base == "slice")) {
      weights[static_cast<std::size_t>(out)] = weighted;
    } else if (carried != kNone && passesScores(base)) {
      scores[static_cast<std::size_t>(out)] = carried;
    }
  }
  return sites;
}

}  // namespace spscope::ir
