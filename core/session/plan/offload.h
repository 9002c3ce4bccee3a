// SPDX-License-Identifier: Apache-2.0
// Checkpoints on the host: what a step would keep on the device if what one layer hands to the next lay in pinned memory of
// the host from its forward to its backward. The pipeline cannot do it yet; this is a model of it, by liveness.
//
//   forward   a checkpoint is on the device until the next one is made: it is copied meanwhile
//   backward  it is back on the device when the backward of the layer above begins: one is copied while one is used
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"
#include "core/session/plan/optimizer_offload.h"

namespace spscope::session {

/// A storage that a layer hands on and that the backward needs; places are those of Graph::order.
struct Checkpoint {
  ir::ValueId base = ir::kNone;
  std::int64_t bytes = 0;
  std::int32_t made = -1;
  std::int32_t gone = -1;   ///< from here on it is not on the device ...
  std::int32_t back = -1;   ///< ... and from here on it is again
  std::int32_t first_backward = -1;
};

/// Those of a scheduled joint graph, in the order in which they are made. The last one never leaves: the backward begins with it.
std::vector<Checkpoint> findCheckpoints(const ir::Graph& program);

/// Takes them off `live` (bytes at each place of the program) while they are on the host. What the host holds at most.
HostBytes moveToHost(const std::vector<Checkpoint>& checkpoints, std::vector<std::int64_t>& live);

}  // namespace spscope::session
