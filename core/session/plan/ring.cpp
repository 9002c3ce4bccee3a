// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/ring.h"

#include <algorithm>

namespace spscope::session {

RingMemory modelRing(const ir::Graph& program, const passes::MemoryCurve& curve) {
  RingMemory out;
  out.live = curve.live;
  for (std::size_t i = 0; i < curve.live.size() && i < program.order.size(); ++i) {
    const ir::Node& node = program.node(program.order[i]);
    std::int64_t own = 0;
    if (ir::isAttention(node.op)) {
      // Whole keys of a part of the heads have as many elements as a part of the keys of all heads.
      std::int64_t elements = 0, bytes = 0;
      for (const char* name : {"key", "value"})
        if (const ir::ValueId v = ir::useArg(node, Symbol(name)); v != ir::kNone) {
          elements += ir::numel(program.value(v).local);
          bytes += program.value(v).localBytes();
        }
      const ir::ValueId query = ir::useArg(node, Symbol("query"));
      const std::int64_t summed = query == ir::kNone ? 0 : ir::numel(program.value(query).local) * 4;
      const bool backward = ir::baseName(node.op).find("backward") != std::string_view::npos;
      // One block in use or leaving and one arriving; in the backward their gradients travel along, in float32.
      own = 2 * bytes + summed + (backward ? 2 * 4 * elements : 0);
    }
    out.most = std::max(out.most, own);
    out.live[i] += own;
    out.peak_high = std::max(out.peak_high, out.live[i]);
    const std::int64_t exchanged = i < curve.by_class.size() ? curve.by_class[i][static_cast<std::size_t>(passes::MemoryClass::kCommunication)] : 0;
    out.peak_low = std::max(out.peak_low, out.live[i] - exchanged);
  }
  return out;
}

}  // namespace spscope::session
