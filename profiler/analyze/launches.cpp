// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/launches.h"

#include <algorithm>

namespace spscope::trace {

LaunchLinks linkLaunches(const Trace& trace) {
  const Events& e = trace.events;
  const std::size_t n = e.size();
  LaunchLinks out;
  out.launch.assign(n, kNoIndex);
  out.first_work.assign(n, kNoIndex);
  out.next_work.assign(n, kNoIndex);
  const auto rank = [&](EventIndex i) { return trace.tracks[static_cast<std::size_t>(e.track[static_cast<std::size_t>(i)])].rank; };
  struct Key {
    std::int32_t rank;
    std::int64_t correlation;
    EventIndex event;
  };
  const auto less = [](const Key& a, const Key& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.correlation < b.correlation;
  };
  std::vector<Key> calls;
  for (std::size_t i = 0; i < n; ++i)
    if (e.category[i] == Category::kRuntime && e.correlation[i] != 0)
      calls.push_back({rank(static_cast<EventIndex>(i)), e.correlation[i], static_cast<EventIndex>(i)});
  std::sort(calls.begin(), calls.end(), [&](const Key& a, const Key& b) {
    if (less(a, b) || less(b, a)) return less(a, b);
    const auto i = static_cast<std::size_t>(a.event), j = static_cast<std::size_t>(b.event);
    if (e.start[i] != e.start[j]) return e.start[i] < e.start[j];
    return e.end[i] != e.end[j] ? e.end[i] > e.end[j] : a.event < b.event;
  });
  for (std::size_t i = n; i-- > 0;) {
    if (!isDeviceWork(e.category[i])) continue;
    const Key key{rank(static_cast<EventIndex>(i)), e.correlation[i], 0};
    const auto it = key.correlation == 0 ? calls.end() : std::lower_bound(calls.begin(), calls.end(), key, less);
    if (it == calls.end() || less(key, *it)) {
      ++out.unlaunched;
      continue;
    }
    const auto call = static_cast<std::size_t>(it->event);
    out.launch[i] = it->event;
    out.next_work[i] = out.first_work[call];
    out.first_work[call] = static_cast<EventIndex>(i);
    if (const std::int64_t early = e.start[call] - e.start[i]; early > 0) {
      ++out.early;
      out.worst_early_ns = std::max(out.worst_early_ns, early);
    }
  }
  return out;
}

}  // namespace spscope::trace
