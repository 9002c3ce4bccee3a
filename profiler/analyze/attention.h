// SPDX-License-Identifier: Apache-2.0
// Which kernel each attention of the graph really ran: what the plan asks for is an op, and the library chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct AttentionKernel {
  StringId name = 0;  ///< of the kernel; on the host: of the op that ran
  std::int64_t count = 0, total_ns = 0;
};
struct AttentionNode {
  NodeIndex node = kNoIndex;
  bool on_device = false;               ///< false: nothing of it ran on a device, or that was not recorded
  std::vector<AttentionKernel> kernels; ///< the longest total first; device: every kernel of the node
};

/// The attention nodes that ran, forward and backward, in the order of Trace::nodes; all ranks together. Device work finds its
/// node by id (see nodes.h). Traces without a graph have none.
std::vector<AttentionNode> attentionKernels(const Trace& trace);

}  // namespace spscope::trace
