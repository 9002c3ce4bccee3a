// SPDX-License-Identifier: Apache-2.0
// The collectives of a joint graph and what waits for what: the facts by which they may be put together.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

class CollectiveOrder {
 public:
  /// O(nodes * collectives / 64).
  explicit CollectiveOrder(const ir::Graph& graph);

  /// In program order.
  const std::vector<ir::NodeId>& collectives() const { return collectives_; }
  /// Does the node need the result of that collective, directly or through others?
  bool dependsOn(ir::NodeId node, std::size_t collective) const {
    return (bits_[static_cast<std::size_t>(node)][collective / 64] >> (collective % 64) & 1) != 0;
  }
  /// A sum of the backward whose result no other collective needs: it may be made at any later time.
  bool isGradientSum(std::size_t collective) const { return gradient_sum_[collective]; }

 private:
  std::vector<ir::NodeId> collectives_;
  std::vector<std::vector<std::uint64_t>> bits_;  ///< by node: the collectives that it depends on
  std::vector<bool> gradient_sum_;
};

}  // namespace spscope::passes
