// SPDX-License-Identifier: Apache-2.0
// Scratch memory of kernels: what they allocate while they run beyond what they return. No libtorch in this header.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ir/graph.h"

namespace spscope::exec {

/// Most scratch bytes that are alive at once, beyond its outputs, while the kernel of `node` for this device ("cpu" or "cuda") runs on
/// the local shapes of `graph`, with `threads` intra-op threads on a CPU. 0 for ops that need none. CPU: measured, see workspace.cpp.
/// CUDA: from PyTorch's sources, see cuda_workspace.cpp; never measured on a GPU.
std::int64_t workspaceBytes(const ir::Graph& graph, const ir::Node& node, std::string_view device, int threads);

}  // namespace spscope::exec
