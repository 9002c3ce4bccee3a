// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/nodes.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "profiler/analyze/launches.h"

namespace spscope::trace {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// Calls visit(event, innermost op that is open on its thread or kNoIndex) in the order of time, thread by thread.
template <typename Visit>
void eachOnThreads(const Trace& trace, Category outer, const Visit& visit) {
  const Events& e = trace.events;
  std::vector<std::vector<EventIndex>> threads(trace.tracks.size());
  for (const EventIndex i : eventsByStart(trace))
    if (trace.tracks[at(e.track[at(i)])].kind != TrackKind::kStream) threads[at(e.track[at(i)])].push_back(i);
  std::vector<EventIndex> open;
  for (const auto& thread : threads) {
    open.clear();
    for (const EventIndex i : thread) {
      while (!open.empty() && e.end[at(open.back())] <= e.start[at(i)] && e.end[at(open.back())] < e.end[at(i)]) open.pop_back();
      visit(i, open.empty() ? kNoIndex : open.back());
      if (e.category[at(i)] == outer) open.push_back(i);
    }
  }
}

void add(std::int64_t& sum, std::int64_t value) { sum = sum == kUnknown ? value : sum + value; }

}  // namespace

std::string_view plainOpName(std::string_view name) {
  for (const std::string_view number : {", seq = ", ", op_id = "})
    if (const std::size_t found = name.find(number); found != std::string_view::npos) name = name.substr(0, found);
  return name;
}

Attribution attribute(const Trace& trace) {
  const Events& e = trace.events;
  Attribution out;
  out.node = e.node;
  out.op.assign(e.size(), 0);
  const bool ops = std::find(e.category.begin(), e.category.end(), Category::kOperator) != e.category.end();
  const Category outer = ops ? Category::kOperator : Category::kRange;
  struct Op {
    std::int32_t rank;
    std::int64_t external;
    EventIndex event;
    bool operator<(const Op& o) const { return rank != o.rank ? rank < o.rank : external != o.external ? external < o.external : event < o.event; }
  };
  std::vector<Op> by_external;
  eachOnThreads(trace, outer, [&](EventIndex i, EventIndex inside) {
    if (e.category[at(i)] == outer) out.op[at(i)] = e.name[at(i)];
    else if (inside != kNoIndex) out.op[at(i)] = e.name[at(inside)];
    if (out.node[at(i)] == kNoIndex && inside != kNoIndex) out.node[at(i)] = e.node[at(inside)];
    if (e.category[at(i)] == Category::kOperator && e.external[at(i)] != 0)
      by_external.push_back({trace.tracks[at(e.track[at(i)])].rank, e.external[at(i)], i});
  });
  std::sort(by_external.begin(), by_external.end());
  const LaunchLinks links = linkLaunches(trace);
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!isDeviceWork(e.category[i])) continue;
    EventIndex cause = kNoIndex;
    if (e.external[i] != 0) {
      const Op key{trace.tracks[at(e.track[i])].rank, e.external[i], 0};
      const auto it = std::lower_bound(by_external.begin(), by_external.end(), key);
      if (it != by_external.end() && it->rank == key.rank && it->external == key.external) cause = it->event;
    }
    if (cause == kNoIndex) cause = links.launch[i];
    if (cause == kNoIndex) continue;
    out.op[i] = out.op[at(cause)];
    if (out.node[i] == kNoIndex) out.node[i] = out.node[at(cause)];
  }
  return out;
}

std::vector<NodeTime> timeByNode(const Trace& trace, const WorkMap& map, const std::vector<bool>& left_out) {
  const Events& e = trace.events;
  const Attribution cause = attribute(trace);
  std::vector<std::int64_t> inner(e.size(), 0);  // of each op: the ops inside it
  eachOnThreads(trace, Category::kOperator, [&](EventIndex i, EventIndex inside) {
    if (e.category[at(i)] == Category::kOperator && inside != kNoIndex)
      inner[at(inside)] += std::min(e.end[at(i)], e.end[at(inside)]) - e.start[at(i)];
  });
  // Names that differ only in numbers are one op.
  std::unordered_map<std::string_view, StringId> plain;
  std::vector<StringId> same(trace.strings.size(), 0);
  const auto opOf = [&](std::size_t i) {
    const StringId name = cause.op[i];
    if (name != 0 && same[name] == 0) same[name] = plain.try_emplace(plainOpName(trace.strings.text(name)), name).first->second;
    return same[name];
  };
  struct Row : NodeTime {
    std::int64_t ops = 0, works = 0, waits = 0;
  };
  std::vector<Row> of_node(trace.nodes.size());
  std::map<StringId, Row> of_name;
  for (std::size_t i = 0; i < e.size(); ++i) {
    const Category c = e.category[i];
    const bool device = isDeviceWork(c);
    if (!device && c != Category::kOperator && c != Category::kCollective && c != Category::kWait) continue;
    if (!left_out.empty() && left_out[i]) continue;
    const NodeIndex node = cause.node[i];
    Row& row = node != kNoIndex ? of_node[at(node)] : of_name[opOf(i)];
    const std::int64_t ns = e.end[i] - e.start[i];
    if (device) add(row.device_ns, ns), ++row.works;
    if (c == Category::kOperator) add(row.host_ns, std::max<std::int64_t>(ns - inner[i], 0)), ++row.ops;
    if (c == Category::kWait) add(row.wait_ns, ns), ++row.waits;
    if (c == Category::kCollective || (device && map.work[i] == Work::kCommunication)) add(row.communication_ns, ns);
    const bool moves = c == Category::kMemcpy || c == Category::kMemset || c == Category::kCollective || map.work[i] == Work::kCommunication;
    if (e.bytes[i] != kUnknown) add(row.bytes, e.bytes[i]);
    else if (moves && c != Category::kWait) ++row.bytes_unknown;
  }
  const bool has_device = std::any_of(map.lanes.begin(), map.lanes.end(), [](const Lane& lane) { return !lane.host; });
  std::vector<NodeTime> out;
  const auto take = [&](Row& row) {
    row.count = row.ops ? row.ops : row.works ? row.works : row.waits;
    if (has_device) row.total_ns = row.device_ns == kUnknown ? 0 : row.device_ns;
    else row.total_ns = row.host_ns != kUnknown ? row.host_ns : row.wait_ns != kUnknown ? row.wait_ns : 0;
    out.push_back(row);
  };
  for (std::size_t n = 0; n < of_node.size(); ++n) {
    Row& row = of_node[n];
    if (row.ops + row.works + row.waits == 0 && row.communication_ns == kUnknown) continue;
    row.node = static_cast<NodeIndex>(n), row.name = trace.nodes[n].name;
    take(row);
  }
  for (auto& [name, row] : of_name) row.name = name, take(row);
  std::stable_sort(out.begin(), out.end(), [](const NodeTime& a, const NodeTime& b) { return a.total_ns > b.total_ns; });
  return out;
}

std::vector<GroupTime> timeBy(const Trace& trace, const std::vector<NodeTime>& nodes, NodeKey key) {
  std::map<std::string, GroupTime> groups;
  for (const NodeTime& row : nodes) {
    std::string text;
    if (row.node == kNoIndex) {
      if (key == NodeKey::kOp) text = plainOpName(trace.strings.text(row.name));
    } else {
      const GraphNode& n = trace.nodes[at(row.node)];
      text = key == NodeKey::kPhase ? nameOf(n.phase) : trace.strings.text(key == NodeKey::kOp ? n.op : key == NodeKey::kModule ? n.module : n.stage);
    }
    GroupTime& group = groups[text];
    group.key = text;
    group.total_ns += row.total_ns, group.count += row.count, ++group.nodes;
    if (row.bytes != kUnknown) group.bytes += row.bytes;
    group.bytes_unknown += row.bytes_unknown;
  }
  std::vector<GroupTime> out;
  for (auto& [text, group] : groups) out.push_back(std::move(group));
  std::stable_sort(out.begin(), out.end(), [](const GroupTime& a, const GroupTime& b) { return a.total_ns > b.total_ns; });
  return out;
}

std::vector<RooflineRow> roofline(const Trace& trace, const std::vector<NodeTime>& nodes, const Peak& peak) {
  std::vector<RooflineRow> out;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeTime& n = nodes[i];
    if (n.node == kNoIndex || n.total_ns <= 0 || trace.nodes[at(n.node)].flops <= 0) continue;
    RooflineRow row;
    row.row = i;
    const double flops = static_cast<double>(trace.nodes[at(n.node)].flops) * static_cast<double>(n.count);
    row.flops_per_second = flops / (static_cast<double>(n.total_ns) * 1e-9);
    if (n.bytes != kUnknown && n.bytes > 0 && n.bytes_unknown == 0) row.intensity = flops / static_cast<double>(n.bytes);
    double roof = peak.flops_per_second;
    if (row.intensity && peak.bytes_per_second > 0 && *row.intensity * peak.bytes_per_second < roof)
      roof = *row.intensity * peak.bytes_per_second, row.memory_bound = true;
    if (roof > 0) row.of_roofline = row.flops_per_second / roof;
    out.push_back(row);
  }
  return out;
}

}  // namespace spscope::trace
