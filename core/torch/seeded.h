// SPDX-License-Identifier: Apache-2.0
// Seeded weights as tensors. Only for core/torch (it includes ATen); see tensor_store.h for the rules.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::exec {

/// The parameter, buffer or constant that the seed gives. Error weightless-buffer.
Result<at::Tensor> seedTensor(const ir::Graph& graph, const ir::Input& input, std::uint64_t seed);

}  // namespace spscope::exec
