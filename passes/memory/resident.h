// SPDX-License-Identifier: Apache-2.0
// What optimizerBytes and accumulatorBytes (liveness.h) add up, tensor by tensor, in the order in which a rank makes them.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/memory/liveness.h"

namespace spscope::passes {

/// Of each trainable parameter its float32 master, where it has one, and its moments.
std::vector<std::int64_t> optimizerStates(const ir::Graph& graph, const LivenessOptions& options);
/// The sums of gradients that are kept from batch to batch; empty where there is one batch a step.
std::vector<std::int64_t> accumulators(const ir::Graph& graph, int accumulate);

}  // namespace spscope::passes
