// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/breakdown.h"

#include <algorithm>

#include "profiler/analyze/launches.h"

namespace spscope::trace {
namespace {

struct Parts {
  std::vector<Interval> compute, communication, memory;
};

/// On the host an operator may wait for a collective inside itself: that is no computing. What other threads compute
/// meanwhile is.
Intervals hostCompute(const Trace& trace, const std::vector<EventIndex>& events, const std::vector<bool>& left_out) {
  const Events& e = trace.events;
  std::vector<std::vector<Interval>> operators(trace.tracks.size()), waits(trace.tracks.size());
  for (const EventIndex i : events) {
    const auto at = static_cast<std::size_t>(i), track = static_cast<std::size_t>(e.track[at]);
    if (!left_out.empty() && left_out[at]) continue;
    if (e.category[at] == Category::kOperator) operators[track].push_back({e.start[at], e.end[at]});
    if (e.category[at] == Category::kWait) waits[track].push_back({e.start[at], e.end[at]});
  }
  std::vector<Interval> all;
  for (std::size_t t = 0; t < operators.size(); ++t) {
    if (operators[t].empty()) continue;
    const Intervals computing = difference(unionOf(std::move(operators[t])), unionOf(std::move(waits[t])));
    all.insert(all.end(), computing.begin(), computing.end());
  }
  return unionOf(std::move(all));
}

/// The idle time of a device, split at the launch of the work that ends each gap.
IdleReasons whyIdle(const Trace& trace, const LaunchLinks& links, const std::vector<EventIndex>& events,
                    const Intervals& idle, const std::vector<bool>& left_out) {
  const Events& e = trace.events;
  // Of the work that starts just when a gap ends, the one whose launch came last explains it.
  std::vector<EventIndex> order;
  for (const EventIndex i : events)
    if (left_out.empty() || !left_out[static_cast<std::size_t>(i)]) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](EventIndex a, EventIndex b) { return e.start[static_cast<std::size_t>(a)] < e.start[static_cast<std::size_t>(b)]; });
  IdleReasons why;
  std::size_t next = 0;
  for (const Interval& gap : idle) {
    while (next < order.size() && e.start[static_cast<std::size_t>(order[next])] < gap.end) ++next;
    std::int64_t launched = kUnknown;
    for (; next < order.size() && e.start[static_cast<std::size_t>(order[next])] == gap.end; ++next)
      if (const EventIndex call = links.launch[static_cast<std::size_t>(order[next])]; call != kNoIndex)
        launched = std::max(launched, e.start[static_cast<std::size_t>(call)]);
    if (launched == kUnknown) {
      why.unknown_ns += gap.end - gap.start;
    } else if (launched <= gap.start) {
      why.queued_ns += gap.end - gap.start;
    } else {
      launched = std::min(launched, gap.end);  // skew between the clocks of host and device
      why.host_ns += launched - gap.start;
      why.launch_ns += gap.end - launched;
    }
  }
  return why;
}

Breakdown ofLane(const Trace& trace, const WorkMap& map, const LaunchLinks& links, const Lane& lane,
                 const std::vector<EventIndex>& events, const std::vector<bool>& left_out) {
  const Events& e = trace.events;
  Breakdown row;
  row.lane = lane;
  Parts parts;
  std::int64_t start = std::numeric_limits<std::int64_t>::max(), end = std::numeric_limits<std::int64_t>::min();
  for (const EventIndex i : events) {
    const auto at = static_cast<std::size_t>(i);
    if (!left_out.empty() && left_out[at]) continue;
    const Interval when{e.start[at], e.end[at]};
    start = std::min(start, when.start), end = std::max(end, when.end);
    ++row.events;
    if (map.work[at] == Work::kCompute && !lane.host) parts.compute.push_back(when);
    if (map.work[at] == Work::kMemory) parts.memory.push_back(when);
    if (map.work[at] == Work::kCommunication) {
      parts.communication.push_back(when);
      if (e.category[at] != Category::kWait) ++row.communication_events;
    }
  }
  if (row.events == 0) {
    row.absent = "everything was left out";
    return row;
  }
  if (row.absent = kernelsUnknown(trace, events); !row.absent.empty()) return row;
  const Intervals compute = lane.host ? hostCompute(trace, events, left_out) : unionOf(std::move(parts.compute));
  const Intervals communication = unionOf(std::move(parts.communication));
  const Intervals memory = unionOf(std::move(parts.memory));
  row.start_ns = start, row.end_ns = end, row.span_ns = end - start;
  row.compute_ns = lengthOf(compute), row.communication_ns = lengthOf(communication), row.memory_ns = lengthOf(memory);
  row.exposed_communication = difference(communication, compute);
  row.exposed_communication_ns = lengthOf(row.exposed_communication);
  const Intervals exposed_memory = difference(difference(memory, compute), communication);
  row.exposed_memory_ns = lengthOf(exposed_memory);
  row.overlapped_communication_ns = row.communication_ns - row.exposed_communication_ns;
  if (row.communication_ns > 0)
    row.overlap = static_cast<double>(row.overlapped_communication_ns) / static_cast<double>(row.communication_ns);
  std::vector<Interval> busy = compute;
  busy.insert(busy.end(), communication.begin(), communication.end());
  busy.insert(busy.end(), memory.begin(), memory.end());
  const Intervals idle = difference({{start, end}}, unionOf(std::move(busy)));
  row.idle_ns = lengthOf(idle);
  if (lane.host) row.idle_why.host_ns = row.idle_ns;
  else row.idle_why = whyIdle(trace, links, events, idle, left_out);
  return row;
}

}  // namespace

std::vector<Breakdown> breakdown(const Trace& trace, const WorkMap& map, const std::vector<bool>& left_out) {
  const auto lanes = eventsByLane(map);
  const LaunchLinks links = linkLaunches(trace);
  std::vector<Breakdown> rows;
  std::size_t next = 0;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    if (next == map.lanes.size() || map.lanes[next].rank != rank) {
      Breakdown& row = rows.emplace_back();
      row.lane = {.rank = rank, .host = true};
      row.absent = "neither device work nor operators were recorded";
      continue;
    }
    for (; next < map.lanes.size() && map.lanes[next].rank == rank; ++next)
      rows.push_back(ofLane(trace, map, links, map.lanes[next], lanes[next], left_out));
  }
  return rows;
}

}  // namespace spscope::trace
