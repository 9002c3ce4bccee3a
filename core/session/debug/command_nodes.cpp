// SPDX-License-Identifier: Apache-2.0
// Commands about nodes: which there are, and where to stop.
#include <algorithm>

#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "core/session/debug/command_work.h"

namespace spscope::session::debug {
namespace {

Status list(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_ASSIGN(const std::int64_t count, w.takeCount(5));
  SP_TRY(w.nothingLeft());
  if (rank >= w.debugger.ranks()) return w.usage(strf("there is no rank %d", rank));
  const int of = std::max(rank, 0);
  w.out.nodes = w.debugger.around(of, count, count);
  w.out.about = strf("rank %d", of);
  const Stop now = w.debugger.where();
  const RankPlace& place = now.ranks[static_cast<std::size_t>(of)];
  if (!place.ended) w.out.marked = place.next.place;
  w.out.listed = true;
  return {};
}

Status find(Work& w) {
  SP_ASSIGN(const NodeQuery query, takeQuery(w.words));
  SP_TRY(w.nothingLeft());
  SP_ASSIGN(w.out.nodes, w.debugger.find(query));
  w.out.about = query.text();
  w.out.listed = true;
  return {};
}

Status addBreakpoint(Work& w) {
  SP_ASSIGN(Breakpoint wanted, parseBreakpoint(std::move(w.words)));
  SP_ASSIGN(Breakpoint added, w.debugger.add(std::move(wanted)));
  w.out.breakpoints = {std::move(added)};
  return {};
}

Status listBreakpoints(Work& w) {
  SP_TRY(w.nothingLeft());
  w.out.breakpoints = w.debugger.breakpoints();
  return {};
}

Status removeBreakpoint(Work& w) {
  if (w.words.empty()) return w.usage("which one?");
  const std::string which = w.take();
  SP_TRY(w.nothingLeft());
  if (which == "all") {
    w.debugger.removeAll();
  } else if (const auto id = numberIn<std::int64_t>(which); !id || !w.debugger.remove(static_cast<int>(*id))) {
    return w.usage("there is no breakpoint " + which);
  }
  w.out.breakpoints = w.debugger.breakpoints();
  return {};
}

}  // namespace

std::vector<Command> nodeCommands() {
  return {
      {{"list", "l", "[N] [rank R]", "the nodes around it"}, list},
      {{"find", "f", "WHAT", "all nodes that are so"}, find},
      {{"break", "br", "[WHAT] [if nan|inf|abs>X|zeros>SHARE|ranks|differs[>SHARE] [hit N]] [do stop|log|save PATH] [rank R]",
        "stop before such a node, or behind it where its results are so; log and save do not stop"}, addBreakpoint},
      {{"breakpoints", "", "", "all breakpoints, and how often each was met"}, listBreakpoints},
      {{"delete", "d", "N|all", "remove a breakpoint"}, removeBreakpoint},
  };
}

}  // namespace spscope::session::debug
