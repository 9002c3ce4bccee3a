// SPDX-License-Identifier: Apache-2.0
// What the difference of a value is measured by: its own norm, and a share of what it was computed from. A value that is nearly
// zero because large ones cancel has the rounding of those; so has what is only another shape of it.
#pragma once

#include <vector>

#include "core/torch/virtual_ranks.h"

namespace spscope::session {

class ValueScales {
 public:
  /// Of the values of `graph`, which outlives this. `floor`: the share of an operand's scale that every result has at least.
  ValueScales(const ir::Graph& graph, double floor) : graph_(graph), floor_(floor), scale_(graph.valueCount(), 0.0) {}

  /// The graph's inputs, when a step of `ranks` (the one rank of the graph's program) has begun.
  Status measureInputs(const exec::VirtualRanks& ranks);
  /// The results of `node`, which has just run. Nodes are told of in the order of the program.
  Status measure(const exec::VirtualRanks& ranks, const ir::Node& node);
  double of(ir::ValueId value) const { return scale_[static_cast<std::size_t>(value)]; }

 private:
  Status measure(const exec::VirtualRanks& ranks, ir::ValueId value, const ir::Node* node);
  const ir::Graph& graph_;
  double floor_;
  std::vector<double> scale_;
};

}  // namespace spscope::session
