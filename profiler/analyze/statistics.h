// SPDX-License-Identifier: Apache-2.0
// Durations by name: how often, how long, how evenly.
#pragma once

#include <optional>
#include <vector>

#include "profiler/analyze/work.h"

namespace spscope::trace {

/// Of a list of numbers; of one there is no deviation. Quantiles are interpolated between neighbours, the deviation is the
/// sample's (n - 1), as pandas and numpy's default percentile have them.
struct Statistics {
  std::int64_t count = 0;
  double mean = 0, min = 0, lower_quartile = 0, median = 0, upper_quartile = 0, max = 0;
  std::optional<double> deviation;
};
/// Nothing of an empty list.
std::optional<Statistics> statisticsOf(std::vector<std::int64_t> values);

/// One name within one category.
struct NameTotal {
  StringId name = 0;
  Category category = Category::kOther;
  Work work = Work::kNone;
  std::int64_t total_ns = 0;
  std::int64_t bytes = 0, bytes_unknown = 0;  ///< sum of what is known; events without
  Statistics statistics;                      ///< of the durations, ns
};
/// Everything but instants, the largest total first. `left_out` as in breakdown(). O(n log n).
std::vector<NameTotal> totalsByName(const Trace& trace, const WorkMap& map, const std::vector<bool>& left_out = {});

}  // namespace spscope::trace
