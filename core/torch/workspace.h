// SPDX-License-Identifier: Apache-2.0
// Scratch memory of kernels: what they allocate while they run beyond what they return. No libtorch in this header.
#pragma once

#include <cstdint>

#include "core/ir/graph.h"

namespace spscope::exec {

/// Most scratch bytes that are alive at once, beyond its outputs, while the CPU kernel of `node` runs on the local
/// shapes of `graph` with `threads` intra-op threads. Measured, see workspace.cpp. 0 for ops that need none.
std::int64_t workspaceBytes(const ir::Graph& graph, const ir::Node& node, int threads);

}  // namespace spscope::exec
