// SPDX-License-Identifier: Apache-2.0
#include "ui/model/timeline/timeline_sums.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace spscope::ui {

using namespace trace;

namespace {

struct Sum {
  std::int64_t total = 0, count = 0, longest = -1;
  Paint paint = Paint::kOther;
  void add(std::int64_t ns, Paint of) {
    total += ns, ++count;
    if (ns > longest) longest = ns, paint = of;
  }
};

void sort(std::vector<SumRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const SumRow& a, const SumRow& b) { return a.total_ns > b.total_ns; });
}

}  // namespace

SpanSums sumsOf(const TimelineIndex& index, std::int64_t begin, std::int64_t end) {
  const Events& e = index.trace().events;
  std::map<Category, Sum> categories;
  std::map<std::pair<Category, StringId>, Sum> names;
  SpanSums out;
  for (const TimelineTrack& track : index.tracks()) {
    if (track.shows != TrackShows::kEvents) continue;
    for (const EventRow& row : track.rows) {
      const auto [first, last] = row.between(begin, end);
      for (std::size_t i = first; i < last; ++i) {
        const auto id = static_cast<std::size_t>(row.id(i));
        const std::int64_t ns = std::min(end, row.end(i)) - std::max(begin, row.start(i));
        categories[e.category[id]].add(ns, row.paint(i));
        names[{e.category[id], e.name[id]}].add(ns, row.paint(i));
        ++out.events;
      }
    }
  }
  for (const auto& [category, sum] : categories)
    out.by_category.push_back({std::string(nameOf(category)), category, sum.paint, sum.total, sum.count});
  for (const auto& [key, sum] : names)
    out.by_name.push_back({std::string(index.trace().strings.text(key.second)), key.first, sum.paint, sum.total, sum.count});
  sort(out.by_category), sort(out.by_name);
  return out;
}

std::vector<HistogramBin> histogramOf(const std::vector<std::int64_t>& values, int bins) {
  if (values.empty() || bins < 1) return {};
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const double low = std::log(static_cast<double>(std::max<std::int64_t>(1, *least)));
  const double high = std::log(static_cast<double>(std::max<std::int64_t>(1, *largest)));
  if (high <= low) return {{std::exp(low), std::exp(high), static_cast<std::int64_t>(values.size())}};
  std::vector<HistogramBin> out(static_cast<std::size_t>(bins));
  const double width = (high - low) / bins;
  for (int b = 0; b < bins; ++b) out[static_cast<std::size_t>(b)] = {std::exp(low + b * width), std::exp(low + (b + 1) * width), 0};
  for (const std::int64_t v : values) {
    const double at = (std::log(static_cast<double>(std::max<std::int64_t>(1, v))) - low) / width;
    ++out[static_cast<std::size_t>(std::clamp(static_cast<int>(at), 0, bins - 1))].count;
  }
  return out;
}

NameStatistics statisticsOfName(const TimelineIndex& index, EventIndex event) {
  const Events& e = index.trace().events;
  const auto at = static_cast<std::size_t>(event);
  std::vector<std::int64_t> durations;
  NameStatistics out;
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (e.name[i] != e.name[at] || e.category[i] != e.category[at]) continue;
    durations.push_back(e.end[i] - e.start[i]);
    out.total_ns += durations.back();
  }
  out.histogram = histogramOf(durations, 24);
  out.durations = *statisticsOf(std::move(durations));
  return out;
}

}  // namespace spscope::ui
