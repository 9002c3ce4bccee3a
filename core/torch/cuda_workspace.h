// SPDX-License-Identifier: Apache-2.0
// Scratch memory of CUDA kernels; one of the two sides of workspace.h. No libtorch in this header.
#pragma once

#include <cstdint>

#include "core/ir/graph.h"

namespace spscope::exec {

/// As workspaceBytes(..., "cuda", ...). Where the figure depends on the card, that of an H100 (132 multiprocessors).
std::int64_t cudaWorkspaceBytes(const ir::Graph& graph, const ir::Node& node);

}  // namespace spscope::exec
