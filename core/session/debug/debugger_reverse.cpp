// SPDX-License-Identifier: Apache-2.0
// Back to the last breakpoint.
#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "core/session/debug/debugger.h"

namespace spscope::session::debug {
namespace {

/// What a breakpoint met, and after how many moves the ranks stood there.
struct Last {
  std::size_t moves = 0;
  int breakpoint = 0, rank = -1;
  std::string node, why;
};

}  // namespace

Result<Stop> Debugger::backToBreakpoint() {
  const std::size_t made = tape_.moves();
  std::vector<Places> trail;
  for (std::size_t i = 0; i < made; ++i) trail.push_back(tape_.before(i));
  trail.push_back(tape_.places());
  std::optional<Last> last;
  // Those without a condition on values follow from where the ranks stood.
  for (std::size_t index = made; !last && index-- > 1;) {
    for (std::size_t i = 0; !last && i < breakpoints_.size(); ++i) {
      const Breakpoint& b = breakpoints_[i];
      if (b.condition.onValues() || b.action != Action::kStop) continue;
      for (int r = 0; r < ranks() && !last; ++r) {
        const std::size_t s = side_of_[static_cast<std::size_t>(r)], at = trail[index][static_cast<std::size_t>(r)];
        if ((b.rank >= 0 && b.rank != r) || at == trail[index - 1][static_cast<std::size_t>(r)] || at >= marks_[i][s].size() || !marks_[i][s][at]) continue;
        const std::string& name = graph(r).node(graph(r).order[at]).name;
        last = Last{index, b.id, r, name, "%" + name + " is next"};
      }
    }
  }
  // The others are asked on the way from the beginning, which is run again as it was.
  const bool values = std::any_of(breakpoints_.begin(), breakpoints_.end(), [](const Breakpoint& b) { return b.condition.onValues() && b.action == Action::kStop; });
  if (values && made > 1) {
    open_.clear();
    SP_TRY(tape_.backTo(0));
    for (std::size_t move = 0; move + 1 < made; ++move) {
      const Places& before = trail[move];
      int alone = -1, changed = 0;
      for (int r = 0; r < ranks(); ++r)
        if (before[static_cast<std::size_t>(r)] != trail[move + 1][static_cast<std::size_t>(r)]) alone = r, ++changed;
      SP_TRY(changed == 1 ? tape_.move(alone) : tape_.move());
      request_.report("looking for the last breakpoint", static_cast<std::int64_t>(move), static_cast<std::int64_t>(made));
      SP_ASSIGN(const auto met, metNow(before));
      if (met && (!last || move + 1 >= last->moves)) last = Last{move + 1, met->first, met->second.rank, met->second.node, met->second.why};
    }
    open_.clear();
  }
  if (!last) {
    SP_ASSIGN(Stop stop, back(static_cast<std::int64_t>(made)));
    stop.moves = -static_cast<std::int64_t>(made);
    stop.message = "no breakpoint before: this is the beginning of the step";
    return stop;
  }
  if (tape_.moves() > last->moves) SP_TRY(tape_.backTo(last->moves));
  Stop stop = stopAt(StopReason::kBreakpoint, static_cast<std::int64_t>(last->moves) - static_cast<std::int64_t>(made), strf("breakpoint %d: ", last->breakpoint) + last->why);
  stop.breakpoint = last->breakpoint;
  stop.rank = last->rank;
  stop.node = last->node;
  return stop;
}

Result<std::optional<std::pair<int, Debugger::Met>>> Debugger::metNow(const Places& before) {
  std::optional<std::pair<int, Met>> out;
  for (int r = 0; r < ranks(); ++r) {
    const std::size_t s = side_of_[static_cast<std::size_t>(r)], at = before[static_cast<std::size_t>(r)];
    if (at == tape_.places()[static_cast<std::size_t>(r)] || !after_[s][at]) continue;
    const ir::Node& node = graph(r).node(graph(r).order[at]);
    if (ir::isStart(node.op)) continue;
    for (std::size_t i = 0; i < breakpoints_.size(); ++i) {
      const Breakpoint& b = breakpoints_[i];
      if (!b.condition.onValues() || b.action != Action::kStop || !marks_[i][s][at] || (b.rank >= 0 && b.rank != r && !b.condition.acrossRanks())) continue;
      for (const ir::ValueId v : node.outputs) {
        if (v == ir::kNone) continue;
        SP_ASSIGN(auto why, b.condition.acrossRanks() ? metAcrossRanks(b.condition, r, v, before) : met(b.condition, r, v));
        if (!why) continue;
        why->node = node.name;
        out = {b.id, std::move(*why)};
      }
    }
  }
  return out;
}

}  // namespace spscope::session::debug
