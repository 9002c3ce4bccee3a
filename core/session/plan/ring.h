// SPDX-License-Identifier: Apache-2.0
// Ring attention, modelled from the program with exchanges: each rank keeps its part of the sequence, and the keys and
// values of all others pass by, one block at a time. What is known of it is an interval:
//
//   low    without any buffer of a collective, which are those of the exchanges but for the sums of gradients
//   high   with all of them
//
// plus, while an attention runs, the blocks that come in and go out, and what is summed over the blocks in float32.
#pragma once

#include "core/ir/graph.h"
#include "passes/memory/liveness.h"

namespace spscope::session {

struct RingMemory {
  std::int64_t peak_low = 0, peak_high = 0;
  std::vector<std::int64_t> live;  ///< the high end, at each place
  std::int64_t most = 0;           ///< bytes of the ring's own buffers at most
};

/// `program`: the one that `curve` is of, with classes.
RingMemory modelRing(const ir::Graph& program, const passes::MemoryCurve& curve);

}  // namespace spscope::session
