// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace spscope::trace {

std::optional<Statistics> statisticsOf(std::vector<std::int64_t> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  Statistics s;
  const auto n = static_cast<double>(values.size());
  s.count = static_cast<std::int64_t>(values.size());
  // Differences from the least: squares of absolute times would not fit.
  double sum = 0, squares = 0;
  for (const std::int64_t v : values) sum += static_cast<double>(v - values.front());
  const double mean = sum / n;
  for (const std::int64_t v : values) squares += std::pow(static_cast<double>(v - values.front()) - mean, 2);
  const auto quantile = [&](double q) {
    const double at = q * (n - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return static_cast<double>(values[below]) + (at - std::floor(at)) * static_cast<double>(values[above] - values[below]);
  };
  s.mean = mean + static_cast<double>(values.front());
  s.min = static_cast<double>(values.front()), s.max = static_cast<double>(values.back());
  s.lower_quartile = quantile(0.25), s.median = quantile(0.5), s.upper_quartile = quantile(0.75);
  if (values.size() > 1) s.deviation = std::sqrt(squares / (n - 1));
  return s;
}

std::vector<NameTotal> totalsByName(const Trace& trace, const WorkMap& map, const std::vector<bool>& left_out) {
  const Events& e = trace.events;
  std::vector<EventIndex> order;
  for (std::size_t i = 0; i < e.size(); ++i)
    if (e.category[i] != Category::kInstant && (left_out.empty() || !left_out[i])) order.push_back(static_cast<EventIndex>(i));
  const auto key = [&](EventIndex i) { return std::pair{e.name[static_cast<std::size_t>(i)], e.category[static_cast<std::size_t>(i)]}; };
  std::sort(order.begin(), order.end(), [&](EventIndex a, EventIndex b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  std::vector<NameTotal> out;
  std::vector<std::int64_t> durations;
  for (std::size_t i = 0; i < order.size();) {
    NameTotal total;
    std::tie(total.name, total.category) = key(order[i]);
    total.work = map.work[static_cast<std::size_t>(order[i])];
    durations.clear();
    const auto first = key(order[i]);
    for (; i < order.size() && key(order[i]) == first; ++i) {
      const auto at = static_cast<std::size_t>(order[i]);
      durations.push_back(e.end[at] - e.start[at]);
      if (e.bytes[at] == kUnknown) ++total.bytes_unknown;
      else total.bytes += e.bytes[at];
    }
    total.total_ns = std::accumulate(durations.begin(), durations.end(), std::int64_t{0});
    total.statistics = *statisticsOf(durations);
    out.push_back(total);
  }
  std::stable_sort(out.begin(), out.end(), [](const NameTotal& a, const NameTotal& b) { return a.total_ns > b.total_ns; });
  return out;
}

}  // namespace spscope::trace
