// SPDX-License-Identifier: Apache-2.0
#include "ui/model/debug/debug_marks.h"

#include <unordered_map>

#include "core/base/strings.h"

namespace spscope::ui {

namespace dbg = session::debug;

DebugMarks marksOf(const ir::Graph& graph, const std::vector<ListedBreakpoint>& breakpoints, const dbg::Stop* stop) {
  DebugMarks out;
  for (const ListedBreakpoint& b : breakpoints) {
    if (b.parsed.where.by == dbg::NodeQuery::By::kAny) continue;
    const auto places = dbg::placesOf(graph, b.parsed.where);
    if (!places) continue;
    for (std::size_t i = 0; i < places->size(); ++i) {
      if (!(*places)[i]) continue;
      NodeMark& mark = out[graph.order[i]];
      if (!b.enabled && mark.dot == NodeMark::Dot::kOn) continue;
      mark.dot = b.enabled ? NodeMark::Dot::kOn : NodeMark::Dot::kOff;
      mark.sign = b.parsed.action == dbg::Action::kLog ? "l" : b.parsed.action == dbg::Action::kSave ? "s" : b.parsed.condition.text().empty() ? "" : "?";
    }
  }
  if (stop == nullptr) return out;
  std::unordered_map<std::string, ir::NodeId> named;
  for (const ir::NodeId id : graph.order) named.emplace(graph.node(id).name, id);
  for (const dbg::RankPlace& r : stop->ranks) {
    if (r.ended) continue;
    const auto at = named.find(r.next.name);
    if (at == named.end()) continue;
    NodeMark& mark = out[at->second];
    mark.ranks.push_back(r.rank);
    mark.waits = mark.waits || !waitsFor(*stop, r.rank).empty();
  }
  return out;
}

std::string rangesText(const std::vector<int>& ranks) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    out.push_back(end - begin == 1 ? std::to_string(ranks[begin]) : strf("%d-%d", ranks[begin], ranks[end - 1]));
    begin = end;
  }
  return join(out, ", ");
}

std::string waitsFor(const dbg::Stop& stop, int rank) {
  const dbg::RankPlace& at = stop.ranks[static_cast<std::size_t>(rank)];
  if (at.ended || !at.collective) return {};
  std::vector<int> missing;
  for (const dbg::RankPlace& r : stop.ranks)
    if (r.ended || r.next.name != at.next.name) missing.push_back(r.rank);
  if (missing.empty()) return {};
  return (missing.size() == 1 ? "rank " : "ranks ") + rangesText(missing);
}

}  // namespace spscope::ui
