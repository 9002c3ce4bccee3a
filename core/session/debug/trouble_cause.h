// SPDX-License-Identifier: Apache-2.0
// Why an op made no number of what it read: by its kind and the elements that it read, and by doing it again in float64.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/tensor_bag.h"

namespace spscope::session::debug {

/// Operands of a node on one rank, in the order of its uses; a bag is empty where its value is not to be had.
struct Operand {
  std::string argument;
  ir::ValueId value = ir::kNone;
  exec::TensorBag bag;
};

/// The element at `index` of output `output`, computed in float64 from the same operands. nullopt: it cannot be (collectives, random ops).
std::optional<double> inFloat64(const ir::Graph& graph, const ir::Node& node, const std::vector<Operand>& operands, std::size_t output, const ir::Dims& index);

/// One sentence, never empty. `got`: the element at `index`; `exact`: see inFloat64.
std::string causeOf(const ir::Graph& graph, const ir::Node& node, const std::vector<Operand>& operands, std::size_t output, const ir::Dims& index, double got,
                    const std::optional<double>& exact);

}  // namespace spscope::session::debug
