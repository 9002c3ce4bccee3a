// SPDX-License-Identifier: Apache-2.0
// Runs graphs on real CPU tensors, node by node, for comparing a captured joint graph with autograd itself.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/dtype_convert.h"
#include "core/torch/op_call.h"

namespace spscope::exec::testing {

/// Values that every model takes: small numbers, indices below 2, masks that hide nothing.
inline std::vector<at::Tensor> randomInputs(const ir::Graph& graph, std::uint64_t seed = 7) {
  at::manual_seed(static_cast<std::int64_t>(seed));
  std::vector<at::Tensor> inputs;
  for (const ir::Input& input : graph.inputs) {
    const ir::Value& value = graph.value(input.value);
    const auto type = toScalarType(value.dtype);
    at::Tensor made;
    if (c10::isFloatingType(type) || c10::isComplexType(type))
      made = (at::randn(value.local, at::kDouble) * 0.2).to(type);
    else if (type == at::kBool)
      made = at::ones(value.local, type);
    else
      made = at::randint(0, 2, value.local, at::TensorOptions().dtype(type));
    // The file's layout, as the capture has it: kernels choose by strides.
    if (input.storage && input.storage->strides.size() == value.local.size() && value.local == value.shape)
      made = at::empty_strided(value.local, input.storage->strides, made.options()).copy_(made);
    inputs.push_back(made);
  }
  return inputs;
}

/// Runs all nodes in order; the table of all values. Autograd records where the inputs ask for it.
inline std::vector<at::Tensor> runGraph(const ir::Graph& graph, const std::vector<at::Tensor>& inputs) {
  at::manual_seed(3);  // the same dropout each time
  std::vector<at::Tensor> values(graph.valueCount());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[static_cast<std::size_t>(graph.inputs[i].value)] = inputs[i];
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (ir::baseName(node.op).rfind("_assert", 0) == 0) continue;
    auto op = prepare(node);
    if (!op) {
      ADD_FAILURE() << op.error().format();
      return values;
    }
    if (const Status status = callInPlace(*op, values); !status) {
      ADD_FAILURE() << status.error().format();
      return values;
    }
  }
  return values;
}

}  // namespace spscope::exec::testing
