// SPDX-License-Identifier: Apache-2.0
#include "app/commands/debug_trouble.h"

#include <algorithm>
#include <cmath>

#include "core/base/bars.h"
#include "core/base/strings.h"
#include "core/hang/verdict.h"

namespace spscope::app {
namespace {

using namespace session::debug;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kListed = 12;
constexpr std::size_t kColumns = 60;

std::string dims(const ir::Dims& d) { return "[" + join(d, ", ") + "]"; }
std::string placeText(const NodeName& n) { return n.source + (n.source.empty() || n.module.empty() ? "" : ", ") + n.module; }
std::string percent(std::int64_t part, std::int64_t of) { return of == 0 ? "-" : strf("%.3g %%", 100.0 * static_cast<double>(part) / static_cast<double>(of)); }
/// JSON has no infinity.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"); }

Json nodeJson(const NodeName& n) { return {{"node", n.name}, {"op", n.op}, {"module", n.module}, {"source", n.source}, {"phase", n.phase}, {"place", n.place}}; }

/// The logarithm of the largest error in each of the columns, from one rounding up.
std::string sparkline(const ErrorCurve& c) {
  const std::size_t columns = std::min(kColumns, c.points.size());
  std::vector<double> tops(columns, 0.0);
  for (std::size_t i = 0; i < c.points.size(); ++i) {
    double& top = tops[i * columns / c.points.size()];
    top = std::max(top, c.points[i].error);
  }
  const double most = *std::max_element(tops.begin(), tops.end());
  const double least = std::max(c.roundoff / 16.0, 1e-300), span = std::log10(std::min(most, 1e30) / least);
  std::vector<std::int64_t> heights;
  for (const double x : tops) heights.push_back(x <= least || span <= 0.0 ? (x > 0.0 ? 1 : 0) : 1 + std::llround(99.0 * std::min(1.0, std::log10(std::min(x, 1e30) / least) / span)));
  return barsOf(heights);
}

}  // namespace

void troublePage(Page& page, const TroubleReport& report) {
  if (!report.first) {
    page.line(strf("no trouble: %lld values were looked at, none is NaN", static_cast<long long>(report.values)) +
              (report.masks > 0 ? strf("; %lld hold infinities, all of masks", static_cast<long long>(report.masks)) : " or infinite"));
    return;
  }
  const Trouble& t = *report.first;
  page.line(strf("first %s: %%%s (%s) on %s", t.is_nan ? "NaN" : "infinity", t.node.name.c_str(), t.node.op.c_str(), hang::ranksText(t.ranks).c_str()) +
            (t.pass.empty() ? "" : ", made by " + t.pass));
  if (const std::string place = placeText(t.node); !place.empty()) page.line(place);
  page.line("why: " + t.why);
  page.line(strf("%%%s (%s): %lld of %lld elements are NaN, %lld infinite; the first at ", t.value.c_str(), std::string(ir::longName(t.dtype)).c_str(), static_cast<long long>(t.nan),
                 static_cast<long long>(t.count), static_cast<long long>(t.inf)) +
            dims(t.index) + ": " + formatDouble(t.got) + (t.exact ? ", in float64 " + formatDouble(*t.exact) : ""));
  if (t.operands.empty()) return;
  Rows rows{{"reads", "value", "shape", "there", "min", "max", "NaN", "infinite"}};
  for (const TroubleOperand& o : t.operands)
    rows.push_back({o.argument, "%" + o.value, std::string(ir::shortName(o.dtype)) + " " + dims(o.shape), o.there ? formatDouble(*o.there) : "-", strf("%.6g", o.min), strf("%.6g", o.max),
                    std::to_string(o.nan), std::to_string(o.inf)});
  page.table(std::move(rows));
}

Json troubleJson(const TroubleReport& report) {
  Json out = {{"values", report.values}, {"masks", report.masks}, {"first", Json()}};
  if (!report.first) return out;
  const Trouble& t = *report.first;
  Json first = nodeJson(t.node);
  const Json more = {{"value", t.value}, {"input", t.input}, {"rank", t.ranks.front()}, {"ranks", t.ranks}, {"pass", t.pass}, {"dtype", std::string(ir::longName(t.dtype))},
                     {"kind", t.is_nan ? "nan" : "inf"}, {"nan", t.nan}, {"inf", t.inf}, {"count", t.count}, {"index", t.index}, {"got", number(t.got)},
                     {"exact", t.exact ? number(*t.exact) : Json()}, {"why", t.why}};
  for (const auto& [key, value] : more.items()) first[key] = value;
  first["operands"] = Json::array();
  for (const TroubleOperand& o : t.operands)
    first["operands"].push_back({{"argument", o.argument}, {"value", o.value}, {"dtype", std::string(ir::longName(o.dtype))}, {"shape", o.shape}, {"there", o.there ? number(*o.there) : Json()},
                                 {"min", o.min}, {"max", o.max}, {"nan", o.nan}, {"inf", o.inf}});
  out["first"] = std::move(first);
  return out;
}

void curvePage(Page& page, const ErrorCurve& c) {
  if (c.points.empty()) {
    page.line("there is nothing to compare: the step in float64 has none of these values");
    return;
  }
  const auto worst = std::max_element(c.points.begin(), c.points.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.error < b.error; });
  page.line(strf("error against float64 of %zu values; one rounding of %s is %.3g", c.points.size(), std::string(ir::longName(c.working)).c_str(), c.roundoff));
  page.line("|" + sparkline(c) + "| from the beginning of the step to its end, by powers of ten");
  page.line(strf("largest: %.3g at %%%s; at the end %.3g", worst->error, worst->value.c_str(), c.points.back().error));
  if (c.losers.empty()) page.line("no op loses digits: none is off by more than a few roundings and by twice as much as what it was given");
  else {
    Rows rows{{"loses digits", "op", "error of operands", "of the result", "times", "cancels to", "phase", "source"}};
    for (const std::size_t i : c.losers) {
      if (rows.size() > kListed) break;
      const CurvePoint& p = c.points[i];
      rows.push_back({"%" + p.value, p.node.op, strf("%.3g", p.before), strf("%.3g", p.error), strf("%.3g", p.growth), p.cancels < 0.1 ? strf("%.3g", p.cancels) : "-", p.node.phase, placeText(p.node)});
    }
    page.table(std::move(rows));
    if (c.losers.size() > kListed) page.line(strf("and %zu more", c.losers.size() - kListed));
  }
  if (!c.out_of_range.empty()) {
    Rows rows{{"leaves the range of its type", "type", "op", "saturated", "became zero", "fewer digits", "source"}};
    for (const std::size_t i : c.out_of_range) {
      if (rows.size() > kListed) break;
      const CurvePoint& p = c.points[i];
      rows.push_back({"%" + p.value, std::string(ir::longName(p.dtype)), p.node.op, percent(p.saturated, p.elements), percent(p.flushed, p.elements), percent(p.subnormal, p.elements), placeText(p.node)});
    }
    page.table(std::move(rows));
    if (c.out_of_range.size() > kListed) page.line(strf("and %zu more", c.out_of_range.size() - kListed));
  }
  for (const RankOutOfLine& r : c.out_of_line)
    page.line(strf("rank %d is out of line from %%%s on: its part is off by %.3g, the others' by %.3g", r.rank, r.node.c_str(), r.error, r.others));
}

Json curveJson(const ErrorCurve& c) {
  Json out = {{"dtype", std::string(ir::longName(c.working))}, {"roundoff", c.roundoff}, {"without_counterpart", c.alone}};
  out["points"] = Json::array();
  for (const CurvePoint& p : c.points) {
    Json one = nodeJson(p.node);
    Json ranks = Json::array();
    for (const double x : p.rank_error) ranks.push_back(number(x));
    const Json more = {{"value", p.value}, {"dtype", std::string(ir::longName(p.dtype))}, {"placement", p.placement}, {"error", number(p.error)}, {"error_before", number(p.before)},
                       {"growth", number(p.growth)}, {"cancels_to", p.cancels}, {"rank_error", ranks}, {"elements", p.elements}, {"saturated", p.saturated}, {"flushed", p.flushed},
                       {"subnormal", p.subnormal}};
    for (const auto& [key, value] : more.items()) one[key] = value;
    out["points"].push_back(std::move(one));
  }
  out["losers"] = c.losers;
  out["out_of_range"] = c.out_of_range;
  out["out_of_line"] = Json::array();
  for (const RankOutOfLine& r : c.out_of_line) out["out_of_line"].push_back({{"rank", r.rank}, {"node", r.node}, {"value", r.value}, {"error", number(r.error)}, {"others", number(r.others)}});
  return out;
}

void spikesPage(Page& page, const SpikeReport& report) {
  Rows rows{{"step", "loss", "gradient norm", "above usual: loss", "gradient", "batch"}};
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const SpikeStep& s = report.steps[i];
    rows.push_back({std::to_string(i), strf("%.6g", s.loss), strf("%.4g", s.gradient_norm), strf("%.1f", s.loss_score), strf("%.1f", s.norm_score), s.batch});
  }
  page.table(std::move(rows));
  if (report.spikes.empty()) page.line(strf("no step stands out by more than %g usual deviations", kJump));
  for (const Spike& s : report.spikes) {
    const SpikeStep& step = report.steps[static_cast<std::size_t>(s.step)];
    std::vector<std::string> what;
    if (s.in_loss) what.push_back(strf("loss %.6g (usually %.6g)", step.loss, s.usual_loss));
    if (s.in_gradient) what.push_back(strf("gradient norm %.4g (usually %.4g)", step.gradient_norm, s.usual_norm));
    page.line(strf("step %lld: ", static_cast<long long>(s.step)) + join(what, ", ") + "; batch: " + step.batch);
    if (!s.node) {
      page.line("  no node has more than twice its usual magnitude there");
      continue;
    }
    page.line(strf("  from %%%s (%s) on: %.4g at most, usually %.4g", s.node->name.c_str(), s.node->op.c_str(), s.largest, s.usual) + (placeText(*s.node).empty() ? "" : ", " + placeText(*s.node)));
    if (!s.index.empty())
      page.line("  its largest element is at " + dims(s.index) + (s.rank >= 0 ? strf(" of rank %d's part", s.rank) : "") +
                (s.row >= 0 || s.position >= 0 ? ": " + join(std::vector<std::string>{s.row >= 0 ? strf("row %lld", static_cast<long long>(s.row)) : "some row",
                                                                                     s.position >= 0 ? strf("position %lld of the sequence", static_cast<long long>(s.position)) : "no one position"}, ", ") : ""));
  }
}

Json spikesJson(const SpikeReport& report) {
  Json out = {{"steps", Json::array()}, {"spikes", Json::array()}};
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const SpikeStep& s = report.steps[i];
    out["steps"].push_back({{"step", i}, {"loss", number(s.loss)}, {"gradient_norm", number(s.gradient_norm)}, {"loss_score", number(s.loss_score)}, {"gradient_score", number(s.norm_score)}, {"batch", s.batch}});
  }
  for (const Spike& s : report.spikes) {
    Json one = {{"step", s.step}, {"in_loss", s.in_loss}, {"in_gradient", s.in_gradient}, {"usual_loss", s.usual_loss}, {"usual_gradient_norm", s.usual_norm},
                {"batch", report.steps[static_cast<std::size_t>(s.step)].batch}, {"at", s.node ? nodeJson(*s.node) : Json()}, {"value", s.value}, {"largest", number(s.largest)},
                {"usual", number(s.usual)}, {"index", s.index}, {"rank", s.rank >= 0 ? Json(s.rank) : Json()}, {"row", s.row >= 0 ? Json(s.row) : Json()},
                {"position", s.position >= 0 ? Json(s.position) : Json()}};
    out["spikes"].push_back(std::move(one));
  }
  return out;
}

}  // namespace spscope::app
