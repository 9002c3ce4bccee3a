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
  bool counts_differ = false;  ///< it is in both and ran a different number of times: totals do not compare
  /// Of one execution; nothing where it never ran.
  std::optional<std::int64_t> aEachNs() const { return each(a_ns, a_count); }
  std::optional<std::int64_t> bEachNs() const { return each(b_ns, b_count); }
  /// How much longer it takes: in total where it ran equally often (or in one trace only), of one execution otherwise.
  std::int64_t changeNs() const {
    return counts_differ ? bEachNs().value_or(0) - aEachNs().value_or(0) : b_ns.value_or(0) - a_ns.value_or(0);
  }

  static std::optional<std::int64_t> each(const std::optional<std::int64_t>& ns, const std::optional<std::int64_t>& count) {
    return ns && count && *count > 0 ? std::optional(*ns / *count) : std::nullopt;
  }
};
struct Comparison {
  std::vector<ComparedRow> added, removed;  ///< the longest first
  std::vector<ComparedRow> changed;         ///< in both, other time or count; the largest difference first
  std::int64_t counts_differ = 0;           ///< rows of them that ran a different number of times
  std::int64_t same = 0;                    ///< in both, equal
};

/// Nodes are matched by name where both traces have a graph, ops otherwise; device work by its kernels' names. O(n log n).
Comparison compareTraces(const Trace& a, const Trace& b);

}  // namespace spscope::trace
