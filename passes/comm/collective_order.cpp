// SPDX-License-Identifier: Apache-2.0
#include "passes/comm/collective_order.h"

#include "core/ir/sp_ops.h"

namespace spscope::passes {

CollectiveOrder::CollectiveOrder(const ir::Graph& graph) : bits_(graph.nodeCount()) {
  std::vector<std::int32_t> number(graph.nodeCount(), -1);
  for (const ir::NodeId id : graph.order)
    if (ir::isCollective(graph.node(id).op)) {
      number[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(collectives_.size());
      collectives_.push_back(id);
    }
  const std::size_t words = collectives_.size() / 64 + 1;
  std::vector<std::uint64_t> needed(words, 0);  // by any other collective
  for (const ir::NodeId id : graph.order) {
    auto& mine = bits_[static_cast<std::size_t>(id)];
    mine.assign(words, 0);
    ir::forEachUse(graph.node(id), [&](const ir::Use& use) {
      const ir::NodeId producer = graph.value(use.value).producer;
      if (producer == ir::kNone) return;
      const auto& theirs = bits_[static_cast<std::size_t>(producer)];
      for (std::size_t w = 0; w < words; ++w) mine[w] |= theirs[w];
      const std::int32_t c = number[static_cast<std::size_t>(producer)];
      if (c >= 0) mine[static_cast<std::size_t>(c) / 64] |= std::uint64_t{1} << (c % 64);
    });
    if (number[static_cast<std::size_t>(id)] >= 0)
      for (std::size_t w = 0; w < words; ++w) needed[w] |= mine[w];
  }
  for (std::size_t c = 0; c < collectives_.size(); ++c) {
    const ir::Node& n = graph.node(collectives_[c]);
    const bool sums = n.op == ir::sp::kAllReduce || n.op == ir::sp::kReduceScatter;
    gradient_sum_.push_back(sums && n.phase == ir::Phase::kBackward && (needed[c / 64] >> (c % 64) & 1) == 0);
  }
}

}  // namespace spscope::passes
