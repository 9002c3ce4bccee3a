// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/outliers.h"

#include <algorithm>

namespace spscope::trace {

Outliers findOutliers(const Trace& trace) {
  constexpr std::int64_t kDependentLaunchNs = 10'000;
  const Events& e = trace.events;
  Outliers out;
  std::vector<std::vector<EventIndex>> streams(trace.tracks.size());
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!isDeviceWork(e.category[i])) continue;
    streams[static_cast<std::size_t>(e.track[i])].push_back(static_cast<EventIndex>(i));
    out.device_ns += e.end[i] - e.start[i];
  }
  const auto inGraph = [&](std::size_t i) {
    return e.category[i] == Category::kKernel && e.detail[i] != kNoIndex &&
           trace.launches[static_cast<std::size_t>(e.detail[i])].graph_node != 0;
  };
  for (auto& stream : streams) {
    std::stable_sort(stream.begin(), stream.end(), [&](EventIndex a, EventIndex b) {
      return e.start[static_cast<std::size_t>(a)] < e.start[static_cast<std::size_t>(b)];
    });
    for (std::size_t k = 0; k < stream.size(); ++k) {
      const auto i = static_cast<std::size_t>(stream[k]);
      const std::int64_t duration = e.end[i] - e.start[i];
      const bool flagged = (e.flags[i] & kImpossible) != 0;
      const std::size_t next = k + 1 < stream.size() ? static_cast<std::size_t>(stream[k + 1]) : i;
      const std::int64_t fits = next == i ? duration : e.start[next] - e.start[i], over = duration - fits;
      const bool runs_into = next != i && over > kDependentLaunchNs && (over > duration / 2 || e.end[i] > e.end[next]);
      if (!flagged && (!runs_into || inGraph(i))) continue;
      out.events.push_back({stream[k], duration, std::min(fits, duration), flagged});
      out.duration_ns += duration;
    }
  }
  std::stable_sort(out.events.begin(), out.events.end(), [](const Outlier& a, const Outlier& b) { return a.duration_ns > b.duration_ns; });
  if (!out.events.empty()) {
    out.left_out.assign(e.size(), false);
    for (const Outlier& o : out.events) out.left_out[static_cast<std::size_t>(o.event)] = true;
  }
  return out;
}

}  // namespace spscope::trace
