// SPDX-License-Identifier: Apache-2.0
// Figures of a part of a timeline: sums over a span, statistics and a histogram of one name.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/statistics.h"
#include "ui/model/timeline/timeline_index.h"

namespace spscope::ui {

struct SumRow {
  std::string name;
  trace::Category category = trace::Category::kOther;
  Paint paint = Paint::kOther;   ///< of its longest event
  std::int64_t total_ns = 0;     ///< of what lies within the span; an event inside another counts in both
  std::int64_t count = 0;        ///< events that lie in the span at least in part
};
struct SpanSums {
  std::int64_t events = 0;
  std::vector<SumRow> by_category, by_name;  ///< the longest first
};
/// Of all tracks, from `begin` up to `end`, ns since the trace's first. An event without length counts where it is.
SpanSums sumsOf(const TimelineIndex& index, std::int64_t begin, std::int64_t end);

struct HistogramBin {
  double low = 0, high = 0;  ///< ns, from low up to high (the last one: high included)
  std::int64_t count = 0;
};
/// `bins` of equal width on a logarithmic axis from the least to the largest, 0 counted as 1; one bin where all are equal.
std::vector<HistogramBin> histogramOf(const std::vector<std::int64_t>& values, int bins);

struct NameStatistics {
  std::int64_t total_ns = 0;
  trace::Statistics durations;         ///< ns
  std::vector<HistogramBin> histogram;
};
/// Of all events of all ranks that share this one's name and category.
NameStatistics statisticsOfName(const TimelineIndex& index, trace::EventIndex event);

}  // namespace spscope::ui
