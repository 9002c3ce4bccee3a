// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/lanes.h"

#include <set>
#include <utility>

namespace spscope::trace {
namespace {

/// The open events of one track.
class Lanes {
 public:
  LanePlace place(std::int64_t start, std::int64_t end) {
    while (!open_.empty() && open_.begin()->first <= start) {
      const std::int32_t lane = open_.begin()->second;
      open_.erase(open_.begin());
      auto& ends = ends_[static_cast<std::size_t>(lane)];
      while (!ends.empty() && ends.back() <= start) ends.pop_back();
      if (ends.empty()) free_.insert(lane);
      else open_.emplace(ends.back(), lane);
    }
    std::int32_t lane = 0;
    if (const auto enclosing = open_.lower_bound({end, 0}); enclosing != open_.end()) {
      lane = enclosing->second;
      open_.erase(enclosing);
    } else if (!free_.empty()) {
      lane = *free_.begin();
      free_.erase(free_.begin());
    } else {
      lane = static_cast<std::int32_t>(ends_.size());
      ends_.emplace_back();
    }
    auto& ends = ends_[static_cast<std::size_t>(lane)];
    const auto depth = static_cast<std::int32_t>(ends.size());
    ends.push_back(end);
    open_.emplace(end, lane);
    return {.lane = lane, .depth = depth, .split = lane > 0 && depth == 0};
  }

  std::int32_t size() const { return static_cast<std::int32_t>(ends_.size()); }

 private:
  std::vector<std::vector<std::int64_t>> ends_;             // of each lane, outermost first
  std::set<std::pair<std::int64_t, std::int32_t>> open_;    // innermost end, lane
  std::set<std::int32_t> free_;
};

}  // namespace

std::vector<LanePlace> lanesOf(const Trace& trace, std::span<const EventIndex> order) {
  std::vector<Lanes> tracks(trace.tracks.size()), waits(trace.tracks.size());
  const auto isWait = [&](std::size_t event, std::size_t track) {
    return trace.events.category[event] == Category::kSynchronize && trace.tracks[track].kind == TrackKind::kStream;
  };
  std::vector<LanePlace> out;
  out.reserve(order.size());
  for (const EventIndex index : order) {
    const auto i = static_cast<std::size_t>(index), track = static_cast<std::size_t>(trace.events.track[i]);
    out.push_back((isWait(i, track) ? waits : tracks)[track].place(trace.events.start[i], trace.events.end[i]));
  }
  for (std::size_t n = 0; n < order.size(); ++n) {
    const auto i = static_cast<std::size_t>(order[n]), track = static_cast<std::size_t>(trace.events.track[i]);
    if (isWait(i, track)) out[n].lane += tracks[track].size();
  }
  return out;
}

}  // namespace spscope::trace
