// SPDX-License-Identifier: Apache-2.0
// The requests of a program to an allocator, in order: what predictMemory adds up, one by one; and what PyTorch's caching
// allocator of CUDA memory would have reserved for them.
//
// All of it is one stream's: a collective that was started holds its buffers until the stream has waited for it, so nothing
// is ever freed while another stream has it.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/memory/caching_allocator.h"
#include "passes/memory/liveness.h"

namespace spscope::passes {

struct AllocationEvent {
  std::int32_t block = -1;  ///< number of the request, 0 to AllocationTrace::blocks - 1; first an event that asks, later one that frees
  std::int32_t place = -1;  ///< in Graph::order; one beyond the last: after the step
  std::int64_t bytes = 0;   ///< 0: freed
};

class StepModel;  // passes/memory/step_model.h

struct AllocationTrace {
  std::vector<std::int64_t> resident;  ///< there before the first step: inputs, then masters and states by parameter, sums of gradients
  std::vector<AllocationEvent> step;   ///< everything that is asked for is freed again: outputs after the step
  std::int32_t blocks = 0;
};

/// Of a joint graph, as predictMemory sees it: at every place the requests that are open sum to MemoryCurve::live.
AllocationTrace allocationTrace(const ir::Graph& graph, const LivenessOptions& options);
/// The same of its model, made with the same options.
AllocationTrace allocationTrace(const StepModel& model, const LivenessOptions& options);

/// Bytes. "At the peak": the first instant at which the most bytes are asked for.
struct ReplayFigures {
  bool possible = true;             ///< false: out of memory, what follows is of that instant
  std::int64_t requested = 0;       ///< asked for, at the peak
  std::int64_t allocated = 0;       ///< blocks in use, at the peak
  std::int64_t reserved_there = 0;  ///< at the peak
  std::int64_t largest_free = 0;    ///< block that could be had at once, at the peak
  std::int64_t reserved = 0;        ///< the most that was reserved at any time
  std::int64_t least = 0;           ///< leastCapacity(); 0: not looked for
  std::int64_t segments = 0;        ///< at the end
  int retries = 0;                  ///< requests that waited until cached memory was given back
  std::int64_t fragmentation() const { return reserved_there - allocated; }
};

/// A capacity with which it is possible, not far above the least: what is cached and not needed is given back in between (retries).
/// From what is asked for at the peak to `free.reserved`, halved until at most a 64th of it, or 32 MiB, is left. `free`: replay()
/// without a capacity.
std::int64_t leastCapacity(const AllocationTrace& trace, const ReplayFigures& free, bool expandable = false);

/// What is resident, then the step `steps` times: the second one finds the cache that the first has left.
ReplayFigures replay(const AllocationTrace& trace, const CachingOptions& options, int steps = 2);

}  // namespace spscope::passes
