// SPDX-License-Identifier: Apache-2.0
// Runs programs on virtual ranks and holds what ir::surelyContiguous says of each value against the tensor's strides.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/ir/layout.h"
#include "core/ir/text.h"
#include "core/torch/tensor_bag_impl.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::exec::testing {

/// One per rank.
using Programs = std::vector<std::shared_ptr<const ir::Graph>>;

/// How many values are contiguous for certain, and how many of all are contiguous.
struct Layouts {
  int sure = 0, contiguous = 0, values = 0;
};

/// Runs a step and looks at every value of every rank.
inline Result<std::vector<StepResult>> runAndLook(const Programs& graphs, const TensorBag& state, const TensorBag& inputs, Layouts& layouts) {
  std::vector<std::shared_ptr<const Program>> programs;
  const int size = static_cast<int>(graphs.size());
  for (int r = 0; r < size; ++r) {
    SP_ASSIGN(auto program, Program::prepare(graphs[static_cast<std::size_t>(r)], {r, size, true}));
    programs.push_back(std::move(program));
  }
  SP_ASSIGN(auto ranks, VirtualRanks::create(std::move(programs)));
  SP_TRY(ranks.bind(state));
  SP_TRY(ranks.begin(inputs));
  while (!ranks.done()) SP_TRY(ranks.stepNode());
  for (int r = 0; r < size; ++r) {
    const ir::Graph& graph = *graphs[static_cast<std::size_t>(r)];
    for (const ir::NodeId id : graph.order)
      for (const ir::ValueId v : graph.node(id).outputs) {
        if (v == ir::kNone) continue;
        const auto bag = ranks.value(r, v);
        if (!bag) continue;  // a buffer of a collective: nobody may read it
        const at::Tensor& tensor = bag->impl().tensors.front();
        const bool sure = ir::surelyContiguous(graph, v);
        ++layouts.values, layouts.sure += sure, layouts.contiguous += tensor.is_contiguous();
        EXPECT_TRUE(!sure || tensor.is_contiguous()) << ir::nodeText(graph, graph.node(id)) << " lies at strides " << tensor.strides();
      }
  }
  return ranks.finish();
}

}  // namespace spscope::exec::testing
