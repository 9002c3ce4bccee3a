// SPDX-License-Identifier: Apache-2.0
// Two traces side by side: by name of node or op and of device work, what is new, what is gone, what takes longer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct ComparedRow {
  std::string name;
  std::string kind;  ///< "node", or the category of what ran ("kernel", "memcpy", "operator", ...)
  std::optional<std::int64_t> a_ns, b_ns, a_count, b_count;  ///< nothing: not in this trace
};
struct Comparison {
  std::vector<ComparedRow> added, removed;  ///< the longest first
  std::vector<ComparedRow> changed;         ///< in both, other time or count; the largest difference first
  std::int64_t same = 0;                    ///< in both, equal
};

/// Nodes are matched by name where both traces have a graph, ops otherwise; device work by its kernels' names. O(n log n).
Comparison compareTraces(const Trace& a, const Trace& b);

}  // namespace spscope::trace
