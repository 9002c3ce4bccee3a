// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/host_time.h"

#include <algorithm>

namespace spscope::trace {
namespace {

std::vector<Stretch> flatten(const Events& e, const std::vector<EventIndex>& by_start) {
  std::vector<Stretch> out;
  std::vector<EventIndex> open;
  std::int64_t cursor = std::numeric_limits<std::int64_t>::min();
  const auto upTo = [&](std::int64_t time) {  // the innermost open event runs until then
    if (time > cursor) out.push_back({std::max(cursor, e.start[static_cast<std::size_t>(open.back())]), time, open.back()});
    cursor = std::max(cursor, time);
  };
  const auto close = [&] {
    upTo(e.end[static_cast<std::size_t>(open.back())]);
    open.pop_back();
  };
  for (const EventIndex i : by_start) {
    const std::int64_t start = e.start[static_cast<std::size_t>(i)];
    while (!open.empty() && e.end[static_cast<std::size_t>(open.back())] <= start) close();
    if (!open.empty()) upTo(start);
    cursor = std::max(cursor, start);
    open.push_back(i);
  }
  while (!open.empty()) close();
  std::erase_if(out, [](const Stretch& s) { return s.end <= s.start; });
  return out;
}

}  // namespace

std::vector<std::vector<Stretch>> hostTime(const Trace& trace) {
  const Events& e = trace.events;
  std::vector<bool> waited_apart(e.size(), false);
  for (const Collective& c : trace.collectives)
    if (c.event != kNoIndex && c.wait != kNoIndex) waited_apart[static_cast<std::size_t>(c.event)] = true;
  std::vector<std::vector<EventIndex>> by_track(trace.tracks.size());
  for (std::size_t i = 0; i < e.size(); ++i) {
    switch (e.category[i]) {
      case Category::kOperator:
      case Category::kPython:
      case Category::kRuntime:
      case Category::kSynchronize:
      case Category::kWait:
      case Category::kOverhead: break;
      case Category::kCollective:
        if (waited_apart[i]) continue;
        break;
      default: continue;
    }
    if (trace.tracks[static_cast<std::size_t>(e.track[i])].kind != TrackKind::kStream)
      by_track[static_cast<std::size_t>(e.track[i])].push_back(static_cast<EventIndex>(i));
  }
  std::vector<std::vector<Stretch>> out(trace.tracks.size());
  for (std::size_t t = 0; t < by_track.size(); ++t) {
    std::stable_sort(by_track[t].begin(), by_track[t].end(), [&](EventIndex a, EventIndex b) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      return e.start[i] != e.start[j] ? e.start[i] < e.start[j] : e.end[i] > e.end[j];
    });
    out[t] = flatten(e, by_track[t]);
  }
  return out;
}

}  // namespace spscope::trace
