// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/queue.h"

#include <algorithm>

#include "profiler/analyze/launches.h"

namespace spscope::trace {

std::vector<std::int64_t> queueOf(const std::vector<std::int64_t>& launches, const std::vector<std::int64_t>& starts) {
  std::vector<std::pair<std::int64_t, int>> changes;
  changes.reserve(launches.size() + starts.size());
  for (const std::int64_t t : launches) changes.emplace_back(t, 0);
  for (const std::int64_t t : starts) changes.emplace_back(t, 1);
  std::sort(changes.begin(), changes.end());
  std::vector<std::int64_t> lengths;
  lengths.reserve(changes.size());
  std::int64_t length = 0;
  for (const auto& [time, starting] : changes) lengths.push_back(length += starting ? -1 : 1);
  return lengths;
}

std::vector<QueueLength> queueLengths(const Trace& trace) {
  const Events& e = trace.events;
  const LaunchLinks links = linkLaunches(trace);
  struct Times {
    bool any = false;
    std::vector<std::int64_t> launches, starts;
  };
  std::vector<Times> streams(trace.tracks.size());
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!isDeviceWork(e.category[i])) continue;
    Times& times = streams[static_cast<std::size_t>(e.track[i])];
    times.any = true;
    if (links.launch[i] == kNoIndex) continue;
    // Work that starts before its launch by the clocks was launched when it started, at the latest.
    times.launches.push_back(std::min(e.start[static_cast<std::size_t>(links.launch[i])], e.start[i]));
    times.starts.push_back(e.start[i]);
  }
  std::vector<QueueLength> out;
  for (std::size_t t = 0; t < streams.size(); ++t) {
    if (!streams[t].any) continue;
    out.push_back({.stream = static_cast<TrackIndex>(t), .launched = static_cast<std::int64_t>(streams[t].starts.size()),
                   .length = statisticsOf(queueOf(streams[t].launches, streams[t].starts))});
  }
  return out;
}

}  // namespace spscope::trace
