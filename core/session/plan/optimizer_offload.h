// SPDX-License-Identifier: Apache-2.0
// The optimizer's states on the host: moments and float32 masters lie in pinned memory and pass over the device block by block
// during the update; parameters and gradients stay. The pipeline cannot do it yet; this is a model of it.
//
// The update is planned on the device, not on the host's cores (as DeepSpeed's CPU Adam does it): its time is then that of a link
// which the profile knows, and its results are those of the update without offload, bit by bit. A host that updates sends
// less (gradients one way, parameters the other), and takes its own time for it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"
#include "passes/pass.h"

namespace spscope::session {

/// What the memory of a host holds for one rank.
struct HostBytes {
  std::int64_t low = 0;   ///< what is asked for
  std::int64_t high = 0;  ///< what PyTorch's allocator of pinned memory takes for it: blocks are powers of two
  std::vector<std::int64_t> blocks;  ///< that are asked for
  void add(std::int64_t bytes);
  void add(const HostBytes& more);
};

/// Of one rank.
struct OptimizerOnHost {
  std::int64_t states = 0;   ///< bytes that the device does not keep; 0: the optimizer keeps nothing
  std::int64_t passing = 0;  ///< bytes of them on the device during the update at most: two blocks, each the states of one parameter
  HostBytes host;
};

/// `program`: a joint graph, compiled with `settings`; `shares`: ranks among which its states are divided besides (modelled replicas).
OptimizerOnHost optimizerOnHost(const ir::Graph& program, const passes::Settings& settings, int shares);

}  // namespace spscope::session
