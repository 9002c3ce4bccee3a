// SPDX-License-Identifier: Apache-2.0
#include "app/commands/debug_whatif.h"

#include <algorithm>
#include <set>

#include "core/base/strings.h"

namespace spscope::app {
namespace {

using namespace session::debug;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kListed = 8;

std::string count(std::int64_t n) { return std::to_string(n); }

std::string change(std::int64_t now, std::int64_t then, std::string (*text)(std::int64_t)) {
  if (now == then) return "the same";
  return (then > now ? "+" : "-") + text(std::abs(then - now)) + (now != 0 ? strf(" (%+.1f %%)", 100.0 * static_cast<double>(then - now) / static_cast<double>(now)) : "");
}

std::string ofKind(const WhatIfFigures& f, const std::string& kind) {
  for (const passes::CollectiveTotal& t : f.by_kind)
    if (t.kind == kind) return count(t.count) + ", " + formatBytes(t.bytes);
  return "0";
}

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> some;
  for (const std::string& name : names)
    if (some.size() < kListed) some.push_back("%" + name);
  return names.empty() ? "none" : join(some, ", ") + (names.size() > kListed ? strf(" and %zu more", names.size() - kListed) : "");
}

Json figuresJson(const WhatIfFigures& f) {
  Json kinds = Json::array();
  for (const passes::CollectiveTotal& t : f.by_kind) kinds.push_back({{"kind", t.kind}, {"count", t.count}, {"bytes", t.bytes}});
  return {{"peak_bytes", f.peak_bytes}, {"saved_bytes", f.saved_bytes}, {"comm_bytes", f.comm_bytes}, {"recompute_flops", f.recompute_flops}, {"recompute_nodes", f.recompute_nodes},
          {"collectives", f.collectives}, {"gathers", f.gathers}, {"nodes", f.nodes}, {"by_kind", kinds}, {"placement", f.placement}, {"kept", f.kept}};
}

}  // namespace

void whatIfPage(Page& page, const WhatIf& w) {
  page.line("what if " + w.question + (w.marked.empty() ? "" : ", marked on %" + w.marked + " of the model" + (w.source.empty() ? "" : ", " + w.source)));
  if (w.refused) {
    page.line("it cannot be compiled so: " + w.refused->format());
    return;
  }
  Rows rows{{"", "now", "then", "change"}};
  const auto bytes = [&](const char* what, std::int64_t now, std::int64_t then) { rows.push_back({what, formatBytes(now), formatBytes(then), change(now, then, formatBytes)}); };
  const auto number = [&](const char* what, std::int64_t now, std::int64_t then) { rows.push_back({what, count(now), count(then), change(now, then, count)}); };
  bytes("predicted peak of a rank", w.now.peak_bytes, w.then.peak_bytes);
  bytes("kept for the backward", w.now.saved_bytes, w.then.saved_bytes);
  bytes("sent by a rank", w.now.comm_bytes, w.then.comm_bytes);
  number("collectives", w.now.collectives, w.then.collectives);
  std::set<std::string> kinds;
  for (const WhatIfFigures* f : {&w.now, &w.then})
    for (const passes::CollectiveTotal& t : f->by_kind) kinds.insert(t.kind);
  for (const std::string& kind : kinds)
    if (ofKind(w.now, kind) != ofKind(w.then, kind)) rows.push_back({"  " + kind, ofKind(w.now, kind), ofKind(w.then, kind), ""});
  number("gathers", w.now.gathers, w.then.gathers);
  number("nodes made again", w.now.recompute_nodes, w.then.recompute_nodes);
  number("flops of them", w.now.recompute_flops, w.then.recompute_flops);
  number("nodes", w.now.nodes, w.then.nodes);
  page.table(std::move(rows));
  if (!w.now.placement.empty()) page.line(w.now.placement == w.then.placement ? "placed as now: " + w.now.placement : "placed now: " + w.now.placement + "; then: " + (w.then.placement.empty() ? "it is gone" : w.then.placement));
  if (!w.now.kept.empty() || !w.then.kept.empty())
    page.line(w.now.kept == w.then.kept ? "kept as now, " + w.now.kept : "now " + (w.now.kept.empty() ? "it is not made by the forward" : w.now.kept) + "; then " + (w.then.kept.empty() ? "it is not made by the forward" : w.then.kept));
  if (w.added.empty() && w.removed.empty()) page.line("the same nodes");
  else page.line("nodes added: " + listed(w.added) + "; gone: " + listed(w.removed));
}

Json whatIfJson(const WhatIf& w) {
  Json out = {{"question", w.question}, {"marked", w.marked}, {"source", w.source}, {"refused", w.refused ? errorObject(*w.refused) : Json()}};
  out["now"] = figuresJson(w.now);
  out["then"] = w.refused ? Json() : figuresJson(w.then);
  out["added"] = w.added;
  out["removed"] = w.removed;
  return out;
}

}  // namespace spscope::app
