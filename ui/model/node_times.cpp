// SPDX-License-Identifier: Apache-2.0
#include "ui/model/node_times.h"

#include "profiler/analyze/nodes.h"

namespace spscope::ui {
namespace {

ir::NodeId idOf(const trace::Trace& t, trace::NodeIndex index) {
  if (index == trace::kNoIndex) return ir::kNone;
  const std::int64_t id = t.nodes[static_cast<std::size_t>(index)].id;
  return id == trace::kUnknown ? ir::kNone : static_cast<ir::NodeId>(id);
}

void addKnown(std::int64_t& to, std::int64_t ns) {
  if (ns == trace::kUnknown) return;
  to = (to == trace::kUnknown ? 0 : to) + ns;
}

}  // namespace

NodeTimes nodeTimes(const TraceDocument& document, const CancelToken& cancel) {
  const trace::Trace& t = document.trace;
  NodeTimes out;
  if (const auto it = t.properties.find("plan_hash"); it != t.properties.end()) out.plan_hash = it->second;
  const trace::WorkMap work = trace::classifyWork(t);
  const trace::Attribution attribution = trace::attribute(t);

  // Exposed: the parts of a node's communication that lie in its lane's exposed intervals. A node runs once a step, so
  // its pieces hardly overlap; they are united all the same.
  std::vector<std::unordered_map<ir::NodeId, std::vector<trace::Interval>>> pieces(t.ranks.size());
  for (std::size_t e = 0; e < t.events.size(); ++e) {
    if (work.work[e] != trace::Work::kCommunication) continue;
    const ir::NodeId id = idOf(t, attribution.node[e]);
    const std::int32_t rank = t.tracks[static_cast<std::size_t>(t.events.track[e])].rank;
    if (id != ir::kNone) pieces[static_cast<std::size_t>(rank)][id].push_back({t.events.start[e], t.events.end[e]});
  }

  for (std::size_t rank = 0; rank < t.ranks.size() && !cancel.cancelled(); ++rank) {
    std::vector<bool> left_out(t.events.size());
    for (std::size_t e = 0; e < left_out.size(); ++e)
      left_out[e] = t.tracks[static_cast<std::size_t>(t.events.track[e])].rank != static_cast<std::int32_t>(rank);
    trace::Intervals exposed;
    for (const trace::Breakdown& b : document.breakdown)
      if (b.lane.rank == static_cast<std::int32_t>(rank)) exposed.insert(exposed.end(), b.exposed_communication.begin(), b.exposed_communication.end());
    exposed = trace::unionOf(std::move(exposed));
    for (const trace::NodeTime& row : trace::timeByNode(t, work, left_out)) {
      const ir::NodeId id = idOf(t, row.node);
      if (id == ir::kNone || row.count == 0) continue;
      std::vector<RankNodeTime>& rows = out.of[id];
      const std::int64_t number = t.ranks[rank].number == trace::kUnknown ? static_cast<std::int64_t>(rank) : t.ranks[rank].number;
      // Ranks with different programs have rows of their own in the trace for one id.
      if (rows.empty() || rows.back().rank != number) rows.emplace_back().rank = number;
      RankNodeTime& of = rows.back();
      of.count += row.count;
      of.total_ns += row.total_ns;
      addKnown(of.device_ns, row.device_ns);
      addKnown(of.communication_ns, row.communication_ns);
      addKnown(of.wait_ns, row.wait_ns);
      if (const auto it = pieces[rank].find(id); it != pieces[rank].end())
        of.exposed_ns = trace::lengthOf(trace::intersection(trace::unionOf(it->second), exposed));
    }
  }
  return out;
}

}  // namespace spscope::ui
