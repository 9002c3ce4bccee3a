// SPDX-License-Identifier: Apache-2.0
#include "app/commands/debug_answer.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/commands/bisect_report.h"
#include "app/commands/debug_trouble.h"
#include "app/commands/debug_whatif.h"
#include "core/base/bars.h"
#include "core/base/strings.h"
#include "core/session/value_map.h"

namespace spscope::app {
namespace {

using namespace session::debug;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kListed = 60;

std::string dims(const ir::Dims& d) { return "[" + join(d, ", ") + "]"; }
std::string count(std::int64_t n) { return std::to_string(n); }
std::string placeText(const NodeName& n) { return n.source + (n.source.empty() || n.module.empty() ? "" : ", ") + n.module; }

std::string ranksText(const std::vector<int>& ranks) {
  std::vector<std::string> out;
  for (const int r : ranks) out.push_back(std::to_string(r));
  return join(out, ", ");
}

void stopPage(Page& page, const Stop& s) {
  for (const std::string& line : s.log) page.line(line);
  if (!s.message.empty()) page.line(s.message);
  Rows rows{{"rank", "next", "op", "phase", "source"}};
  // Ranks that stand at one node are one line.
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  std::vector<const RankPlace*> one;
  for (const RankPlace& r : s.ranks) {
    const std::string key = r.ended ? "" : r.next.name;
    const auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == key; });
    if (at != groups.end()) {
      at->second.push_back(r.rank);
      continue;
    }
    groups.push_back({key, {r.rank}});
    one.push_back(&r);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const RankPlace& r = *one[i];
    if (r.ended) rows.push_back({ranksText(groups[i].second), "the end of the step", "", "", ""});
    else rows.push_back({ranksText(groups[i].second), "%" + r.next.name, r.next.op, r.next.phase, placeText(r.next)});
  }
  page.table(std::move(rows));
}

}  // namespace

std::string figuresOf(const RankValue& v) {
  if (v.scan.count == 0) return "no elements";
  std::string out = strf("min %.6g, mean %.6g, max %.6g, zeros %.3g %%", v.summary.min, v.summary.mean, v.summary.max,
                         100.0 * static_cast<double>(v.scan.zeros) / static_cast<double>(v.scan.count));
  if (v.scan.nan > 0) out += ", NaN " + count(v.scan.nan);
  if (v.scan.inf > 0) out += ", infinite " + count(v.scan.inf);
  if (!v.scan.strange.empty()) out += ", first at " + dims(v.scan.strange.front());
  return out;
}

namespace {

void cellsPage(Page& page, const exec::ValueWindow& w) {
  const std::int64_t columns = w.shape.empty() ? 1 : w.shape.back();
  const std::int64_t rows = columns == 0 ? 0 : static_cast<std::int64_t>(w.values.size()) / columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<std::string> cells;
    for (std::int64_t c = 0; c < columns; ++c) cells.push_back(strf("%10.5g", w.values[static_cast<std::size_t>(r * columns + c)]));
    page.line(join(cells, " "));
  }
  if (rows == 0) page.line("no elements");
}

void valuePage(Page& page, const ValueLook& v) {
  page.line("%" + v.value + " = " + v.node.op + ", " + v.placement + (v.again ? "; freed by now, computed again" : ""));
  if (!v.node.source.empty() || !v.node.module.empty()) page.line(placeText(v.node));
  page.line("whole: " + dims(v.shape) + " " + std::string(ir::longName(v.dtype)));
  for (const RankValue& r : v.ranks) {
    page.line(strf("rank %d: ", r.rank) + dims(r.summary.shape) + " " + figuresOf(r));
    if (!r.summary.histogram.empty()) page.line("  |" + barsOf(r.summary.histogram) + "|");
    const std::int64_t columns = r.summary.slice_shape.size() == 2 ? r.summary.slice_shape[1] : 0;
    for (std::int64_t row = 0; columns > 0 && row < r.summary.slice_shape[0]; ++row) {
      std::vector<std::string> cells;
      for (std::int64_t c = 0; c < columns; ++c) cells.push_back(strf("%10.5g", r.summary.slice[static_cast<std::size_t>(row * columns + c)]));
      page.line("  " + join(cells, " "));
    }
  }
}

void heatPage(Page& page, const Answer::Window& h) {
  const exec::ValueWindow& w = h.cells;
  double top = 0.0;
  for (const double x : w.values) top = std::isfinite(x) ? std::max(top, x) : top;
  page.line(h.value + (h.rank < 0 ? ", whole" : strf(", rank %d", h.rank)) + strf(": largest magnitudes, up to %.5g; ! is no number", top) + (h.again ? "; computed again" : ""));
  static constexpr std::string_view kShades = " .:-=+*#%@";
  const std::int64_t columns = w.shape.size() == 2 ? w.shape[1] : 0;
  for (std::int64_t r = 0; columns > 0 && r < w.shape[0]; ++r) {
    std::string line = "|";
    for (std::int64_t c = 0; c < columns; ++c) {
      const double x = w.values[static_cast<std::size_t>(r * columns + c)];
      line += !std::isfinite(x) ? '!' : kShades[top > 0 ? static_cast<std::size_t>(std::min(9.0, std::ceil(9.0 * x / top))) : 0];
    }
    page.line(line + "|");
  }
}

void comparisonPage(Page& page, const Comparison& c) {
  const std::string with = c.with >= 0 ? strf("rank %d", c.with) : c.twin.empty() ? "unsharded" : "there";
  if (!c.alone.empty()) {
    page.line("%" + c.value + ": " + c.alone);
    return;
  }
  page.line("%" + c.value + (c.with < 0 ? ", " + c.placement + ", against " + (c.twin.empty() ? "unsharded" : c.twin + ":") + " %" + c.reference_node : strf(" of rank %d against rank %d", c.rank, c.with)) +
            (c.again ? "; freed by now, computed again" : ""));
  page.line(strf("%s: %.3g of its norm", c.within ? c.rel == 0.0 ? "EQUAL" : "EQUAL within the tolerance" : "DIFFERENT", c.rel) + (c.allowed > 0 ? strf(" (allowed %.3g)", c.allowed) : ""));
  if (c.rel > 0)
    page.line(strf("largest difference %.6g at ", c.difference.max_abs) + dims(c.difference.worst) + ": " + formatDouble(c.difference.got) + ", " + with + " " + formatDouble(c.difference.wanted));
  if (!c.off.empty() && c.with < 0) page.line("off on " + std::string(c.off.size() == 1 ? "rank " : "ranks ") + ranksText(c.off));
}

void wrongPage(Page& page, const session::ValueComparison& w) {
  if (!w.first) {
    page.line(strf("nothing is wrong: %lld values and all results equal the unsharded ones", static_cast<long long>(w.compared)));
    return;
  }
  const session::FirstDifference& d = *w.first;
  page.line("first wrong: %" + d.node + " (" + d.op + ") on " + (d.ranks.size() == 1 ? "rank " : "ranks ") + ranksText(d.ranks) + ", made by " + d.pass);
  if (!d.source.empty() || !d.module.empty()) page.line(d.source + (d.module.empty() ? "" : ", " + d.module));
  page.line((d.parameter.empty() ? "%" + d.value : d.parameter) + strf(": %.3g of its norm, ", d.rel) + formatDouble(d.got) + " instead of " + formatDouble(d.wanted) + " at " + dims(d.index));
  if (!d.remark.empty()) page.line(d.remark);
}

void breakpointsPage(Page& page, const std::vector<Breakpoint>& all) {
  if (all.empty()) {
    page.line("no breakpoints");
    return;
  }
  Rows rows{{"breakpoint", "met", "at"}};
  for (const Breakpoint& b : all) rows.push_back({count(b.id), count(b.hits), b.text()});
  page.table(std::move(rows));
}

void nodesPage(Page& page, const Answer& a) {
  Rows rows{{"", "place", "node", "op", "phase", "source"}};
  for (const NodeName& n : a.nodes) {
    if (rows.size() > kListed) break;
    rows.push_back({a.marked == n.place ? ">" : "", count(n.place), "%" + n.name, n.op, n.phase, placeText(n)});
  }
  page.table(std::move(rows));
  if (a.nodes.size() > kListed) page.line(strf("and %zu more", a.nodes.size() - kListed));
}

Json nodeJson(const NodeName& n) {
  return {{"node", n.name}, {"op", n.op}, {"module", n.module}, {"source", n.source}, {"phase", n.phase}, {"place", n.place}};
}

void stopJson(Json& json, const Stop& s) {
  json["reason"] = std::string(reasonWord(s.reason));
  json["breakpoint"] = s.breakpoint > 0 ? Json(s.breakpoint) : Json();
  json["rank"] = s.rank >= 0 ? Json(s.rank) : Json();
  json["node"] = s.node;
  json["message"] = s.message;
  json["moves"] = s.moves;
  json["made"] = s.made;
  json["log"] = s.log;
  json["stopped"] = Json::array();
  for (const RankPlace& r : s.ranks) {
    Json one = {{"rank", r.rank}, {"node", r.ended ? Json() : Json(r.next.name)}, {"reason", std::string(reasonWord(r.ended ? StopReason::kEnd : s.reason))}};
    if (!r.ended) {
      one["collective"] = r.collective;
      const Json name = nodeJson(r.next);
      for (const auto& [key, value] : name.items())
        if (key != "node") one[key] = value;
    }
    json["stopped"].push_back(std::move(one));
  }
}

Json valueJson(const ValueLook& v) {
  Json out = nodeJson(v.node);
  out["value"] = v.value;
  out["rank"] = v.ranks.size() == 1 ? Json(v.ranks.front().rank) : Json();
  out["shape"] = v.shape;
  out["dtype"] = std::string(ir::longName(v.dtype));
  out["placement"] = v.placement;
  out["computed_again"] = v.again;
  double least = INFINITY, most = -INFINITY;
  std::int64_t nan = 0, inf = 0;
  Json ranks = Json::array();
  for (const RankValue& r : v.ranks) {
    const exec::ValueSummary& s = r.summary;
    if (s.count > s.nan + s.inf) least = std::min(least, s.min), most = std::max(most, s.max);
    nan += s.nan;
    inf += s.inf;
    ranks.push_back({{"rank", r.rank}, {"shape", s.shape}, {"min", s.min}, {"mean", s.mean}, {"max", s.max}, {"nan", s.nan}, {"inf", s.inf}, {"zeros", r.scan.zeros},
                     {"count", r.scan.count}, {"not_finite_at", r.scan.strange}, {"histogram", s.histogram}, {"slice_shape", s.slice_shape}, {"slice", s.slice}});
  }
  out["min"] = least <= most ? Json(least) : Json();
  out["max"] = least <= most ? Json(most) : Json();
  out["nan"] = nan;
  out["inf"] = inf;
  out["ranks"] = std::move(ranks);
  return out;
}

Json windowJson(const Answer::Window& w) {
  return {{"value", w.value}, {"rank", w.rank >= 0 ? Json(w.rank) : Json()}, {"computed_again", w.again}, {"shape", w.cells.shape}, {"values", w.cells.values}};
}

Json comparisonJson(const Comparison& c) {
  Json out = {{"value", c.value}, {"rank", c.rank >= 0 ? Json(c.rank) : Json()}, {"with", c.with >= 0 ? Json(c.with) : Json(c.twin.empty() ? "unsharded" : c.twin)}, {"computed_again", c.again}};
  if (!c.alone.empty()) {
    out["alone"] = c.alone;
    return out;
  }
  const exec::ValueDifference& d = c.difference;
  const Json more = {{"unsharded_node", c.reference_node}, {"placement", c.placement}, {"equal", c.within}, {"rel", c.rel}, {"allowed", c.allowed}, {"max_abs", d.max_abs},
                     {"index", d.worst}, {"got", d.got}, {"wanted", d.wanted}, {"off", c.off}};
  for (const auto& [key, value] : more.items()) out[key] = value;
  return out;
}

}  // namespace

Json differenceJson(const std::optional<session::FirstDifference>& difference) {
  if (!difference) return {};
  const session::FirstDifference& d = *difference;
  return {{"node", d.node},       {"source", d.source},       {"rank", d.ranks.front()}, {"pass", d.pass},
          {"value", d.value},     {"op", d.op},               {"phase", std::string(phaseWord(d.phase))}, {"module", d.module},
          {"ranks", d.ranks},     {"placement", d.placement}, {"result", d.parameter},   {"unsharded_node", d.reference_node},
          {"rel", d.rel},         {"max_abs", d.max_abs},     {"max_rel", d.max_rel},    {"shape", d.shape},
          {"index", d.index},     {"got", d.got},             {"wanted", d.wanted},      {"remark", d.remark},
          {"not_compared", d.not_compared}};
}

Json plantedJson(const std::vector<passes::Fault>& faults) {
  Json out = Json::array();
  for (const passes::Fault& f : faults) {
    Json row = {{"fault", f.text()}, {"kind", std::string(passes::infoOf(f.kind).name)}, {"pass", f.pass}, {"at", f.node}, {"node", f.planted}};
    row["rank"] = f.rank < 0 ? Json() : Json(f.rank);
    out.push_back(std::move(row));
  }
  return out;
}

Page debugPage(const Answer& a) {
  Page page;
  if (a.error) page.line(a.error->format());
  if (a.stop) stopPage(page, *a.stop);
  if (a.value) valuePage(page, *a.value);
  if (a.window) {
    page.line(a.window->value + (a.window->rank < 0 ? ", put together: " : strf(", rank %d: ", a.window->rank)) + dims(a.window->cells.shape) +
              (a.window->again ? "; freed by now, computed again" : ""));
    cellsPage(page, a.window->cells);
  }
  if (a.heat) heatPage(page, *a.heat);
  if (a.comparison) comparisonPage(page, *a.comparison);
  if (a.wrong) wrongPage(page, *a.wrong);
  if (a.trouble) troublePage(page, *a.trouble);
  if (a.curve) curvePage(page, *a.curve);
  if (a.bisection) bisectPage(page, *a.bisection);
  if (a.spikes) spikesPage(page, *a.spikes);
  if (a.what_if) whatIfPage(page, *a.what_if);
  if (!a.why.empty()) {
    Rows rows{{a.about, "", "said by"}};
    for (const WhyRow& r : a.why) rows.push_back({r.question, r.answer, r.source});
    page.table(std::move(rows));
  }
  if (a.listed) nodesPage(page, a);
  if (a.breakpoints) breakpointsPage(page, *a.breakpoints);
  if (!a.help.empty()) {
    Rows rows{{"command", "", "does"}};
    for (const CommandInfo& c : a.help) rows.push_back({c.name + (c.alias.empty() ? "" : ", " + c.alias), c.takes, c.summary});
    page.table(std::move(rows));
  }
  if (!a.said.empty()) page.line(a.said);
  return page;
}

Json debugJson(const Answer& a) {
  Json out = {{"line", a.line}, {"command", a.command}};
  if (a.error) out["error"] = errorObject(*a.error);
  if (a.stop) stopJson(out, *a.stop);
  if (a.value) out["value"] = valueJson(*a.value);
  if (a.window) out["window"] = windowJson(*a.window);
  if (a.heat) out["heat"] = windowJson(*a.heat);
  if (a.comparison) out["difference"] = comparisonJson(*a.comparison);
  if (a.wrong) {
    out["first_wrong"] = differenceJson(a.wrong->first);
    out["compared"] = a.wrong->compared;
    out["equal"] = a.wrong->equal;
  }
  if (a.trouble) out["trouble"] = troubleJson(*a.trouble);
  if (a.curve) out["curve"] = curveJson(*a.curve);
  if (a.bisection) out["bisect"] = bisectJson(*a.bisection);
  if (a.spikes) out["spikes"] = spikesJson(*a.spikes);
  if (a.what_if) out["what_if"] = whatIfJson(*a.what_if);
  if (!a.about.empty()) out["about"] = a.about;
  if (!a.why.empty()) {
    out["why"] = Json::array();
    for (const WhyRow& r : a.why) out["why"].push_back({{"question", r.question}, {"answer", r.answer}, {"source", r.source}});
  }
  if (a.listed) {
    out["nodes"] = Json::array();
    for (const NodeName& n : a.nodes) out["nodes"].push_back(nodeJson(n));
  }
  if (a.breakpoints) {
    out["breakpoints"] = Json::array();
    for (const Breakpoint& b : *a.breakpoints) out["breakpoints"].push_back({{"id", b.id}, {"at", b.text()}, {"met", b.hits}});
  }
  if (!a.help.empty()) {
    out["help"] = Json::array();
    for (const CommandInfo& c : a.help) out["help"].push_back({{"name", c.name}, {"alias", c.alias}, {"takes", c.takes}, {"summary", c.summary}});
  }
  if (!a.said.empty()) out["said"] = a.said;
  return out;
}

}  // namespace spscope::app
