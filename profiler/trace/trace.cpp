// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/trace.h"

#include <algorithm>
#include <numeric>

namespace spscope::trace {

std::string_view nameOf(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames{
      "operator", "range", "device-range", "python", "runtime",  "synchronize", "kernel",
      "memcpy",   "memset", "collective",  "wait",   "overhead", "instant",     "other"};
  return kNames[static_cast<std::size_t>(category)];
}

std::string_view nameOf(Phase phase) {
  static constexpr std::array<std::string_view, 5> kNames{"", "forward", "backward", "recompute", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

void Events::reserve(std::size_t count) {
  start.reserve(count), end.reserve(count), correlation.reserve(count), external.reserve(count), bytes.reserve(count);
  name.reserve(count), track.reserve(count), node.reserve(count), detail.reserve(count);
  category.reserve(count), flags.reserve(count);
}

EventIndex Trace::add(const Event& e) {
  events.start.push_back(e.start), events.end.push_back(e.end);
  events.correlation.push_back(e.correlation), events.external.push_back(e.external), events.bytes.push_back(e.bytes);
  events.name.push_back(e.name), events.track.push_back(e.track), events.node.push_back(e.node);
  events.detail.push_back(e.detail), events.category.push_back(e.category), events.flags.push_back(e.flags);
  return static_cast<EventIndex>(events.size()) - 1;
}

Event Trace::event(EventIndex index) const {
  const auto i = static_cast<std::size_t>(index);
  return {.start = events.start[i], .end = events.end[i], .correlation = events.correlation[i],
          .external = events.external[i], .bytes = events.bytes[i], .name = events.name[i], .track = events.track[i],
          .node = events.node[i], .detail = events.detail[i], .category = events.category[i], .flags = events.flags[i]};
}

TrackIndex Trace::thread(std::int32_t rank, std::int64_t pid, std::int64_t tid) {
  const auto [it, fresh] = track_ids_.try_emplace({0, rank, pid, tid, 0}, static_cast<TrackIndex>(tracks.size()));
  if (fresh) tracks.push_back({.rank = rank, .kind = TrackKind::kThread, .pid = pid, .tid = tid});
  return it->second;
}

TrackIndex Trace::stream(std::int32_t rank, std::int64_t device, std::int64_t context, std::int64_t stream) {
  const auto [it, fresh] =
      track_ids_.try_emplace({1, rank, device, context, stream}, static_cast<TrackIndex>(tracks.size()));
  if (fresh)
    tracks.push_back({.rank = rank, .kind = TrackKind::kStream, .device = device, .context = context, .stream = stream});
  return it->second;
}

std::vector<EventIndex> eventsByStart(const Trace& trace) {
  std::vector<EventIndex> order(trace.events.size());
  std::iota(order.begin(), order.end(), 0);
  const auto& start = trace.events.start;
  const auto& end = trace.events.end;
  std::stable_sort(order.begin(), order.end(), [&](EventIndex a, EventIndex b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return start[i] != start[j] ? start[i] < start[j] : end[i] > end[j];
  });
  return order;
}

}  // namespace spscope::trace
