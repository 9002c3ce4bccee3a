// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/work.h"

#include <array>
#include <map>

namespace spscope::trace {

std::string_view nameOf(Work work) {
  static constexpr std::array<std::string_view, 4> kNames{"none", "compute", "communication", "memory"};
  return kNames[static_cast<std::size_t>(work)];
}

bool isCommunicationName(std::string_view kernel) {
  return kernel.starts_with("nccl") || kernel.starts_with("rccl") || kernel.starts_with("hccl") ||
         kernel.find("ncclKernel") != std::string_view::npos || kernel.find("ncclDevKernel") != std::string_view::npos;
}

WorkMap classifyWork(const Trace& trace) {
  const Events& e = trace.events;
  const std::size_t n = e.size();
  WorkMap map;
  map.work.assign(n, Work::kNone);
  map.lane.assign(n, -1);
  std::vector<bool> has_device(trace.ranks.size(), false);
  for (std::size_t i = 0; i < n; ++i)
    if (isDeviceWork(e.category[i])) has_device[static_cast<std::size_t>(trace.tracks[static_cast<std::size_t>(e.track[i])].rank)] = true;

  // A name is looked at once, however many kernels bear it.
  std::vector<std::int8_t> communicates(trace.strings.size(), -1);
  const auto named = [&](StringId name) {
    std::int8_t& known = communicates[name];
    if (known < 0) known = isCommunicationName(trace.strings.text(name)) ? 1 : 0;
    return known == 1;
  };
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> ids;  // sorted: lanes by rank, then device
  for (std::size_t i = 0; i < n; ++i) {
    const Track& track = trace.tracks[static_cast<std::size_t>(e.track[i])];
    const bool device = has_device[static_cast<std::size_t>(track.rank)];
    switch (e.category[i]) {
      case Category::kKernel: map.work[i] = named(e.name[i]) ? Work::kCommunication : Work::kCompute; break;
      case Category::kMemcpy:
      case Category::kMemset: map.work[i] = Work::kMemory; break;
      case Category::kOperator: map.work[i] = device ? Work::kNone : Work::kCompute; break;
      case Category::kCollective:
      case Category::kWait: map.work[i] = device ? Work::kNone : Work::kCommunication; break;
      default: break;
    }
    if (map.work[i] != Work::kNone) ids.try_emplace({track.rank, device ? track.device : kUnknown}, 0);
  }
  for (const Collective& c : trace.collectives)
    if (c.event != kNoIndex && e.category[static_cast<std::size_t>(c.event)] == Category::kKernel)
      map.work[static_cast<std::size_t>(c.event)] = Work::kCommunication;
  for (auto& [key, id] : ids) {
    id = static_cast<std::int32_t>(map.lanes.size());
    map.lanes.push_back({.rank = key.first, .device = key.second, .host = !has_device[static_cast<std::size_t>(key.first)]});
  }
  std::vector<std::int32_t> lane_of_track(trace.tracks.size(), -1);
  for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
    const Track& track = trace.tracks[t];
    const bool device = has_device[static_cast<std::size_t>(track.rank)];
    if (const auto it = ids.find({track.rank, device ? track.device : kUnknown}); it != ids.end()) lane_of_track[t] = it->second;
  }
  for (std::size_t i = 0; i < n; ++i)
    if (map.work[i] != Work::kNone) map.lane[i] = lane_of_track[static_cast<std::size_t>(e.track[i])];
  return map;
}

std::string kernelsUnknown(const Trace& trace, const std::vector<EventIndex>& events) {
  const Events& e = trace.events;
  bool device = false, kernel = false;
  for (const EventIndex i : events) {
    const auto at = static_cast<std::size_t>(i);
    device = device || isDeviceWork(e.category[at]);
    if (e.category[at] != Category::kKernel) continue;
    kernel = true;
    if (e.name[at] == 0) return "names of kernels are not in the file, so communication cannot be told from compute";
  }
  return device && !kernel && trace.properties.contains(kNoKernelTable) ? "the file has no table of kernels" : std::string();
}

std::vector<std::vector<EventIndex>> eventsByLane(const WorkMap& map) {
  std::vector<std::vector<EventIndex>> out(map.lanes.size());
  for (std::size_t i = 0; i < map.lane.size(); ++i)
    if (map.lane[i] >= 0) out[static_cast<std::size_t>(map.lane[i])].push_back(static_cast<EventIndex>(i));
  return out;
}

}  // namespace spscope::trace
