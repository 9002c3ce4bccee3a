// SPDX-License-Identifier: Apache-2.0
#include "ui/model/debug/look_page.h"

#include <algorithm>

#include "core/base/strings.h"
#include "ui/model/debug/debug_marks.h"

namespace spscope::ui {

namespace dbg = session::debug;

namespace {

std::string dims(const ir::Dims& d) { return "[" + join(d, ", ") + "]"; }

InspectorRow row(std::string label, std::string text, bool code = false) {
  InspectorRow out;
  out.label = std::move(label);
  out.text = std::move(text);
  out.code = code;
  return out;
}

std::string cellsText(const double* values, std::int64_t columns) {
  std::vector<std::string> cells;
  for (std::int64_t c = 0; c < columns; ++c) cells.push_back(strf("%9.4g", values[c]));
  return join(cells, " ");
}

/// As lines of a matrix; the last dimension is that of its columns.
void addCells(const ir::Dims& shape, const std::vector<double>& values, const std::string& label, std::vector<InspectorRow>& rows) {
  constexpr std::int64_t kColumns = 8, kRows = 32;
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  const std::int64_t all = columns == 0 ? 0 : static_cast<std::int64_t>(values.size()) / columns;
  for (std::int64_t r = 0; r < std::min(all, kRows); ++r)
    rows.push_back(row(r == 0 ? label : "", cellsText(values.data() + r * columns, std::min(columns, kColumns)) + (columns > kColumns ? " …" : ""), true));
  if (all > kRows) rows.push_back(row("", strf("and %lld rows more", static_cast<long long>(all - kRows))));
}

InspectorSection figuresSection(const NodeLook& look, const LookedValue& v) {
  InspectorSection out{"On each rank", {}, ""};
  if (!v.look) return out;
  for (const dbg::RankValue& r : v.look->ranks) {
    if (look.asked.rank >= 0 && r.rank != look.asked.rank) continue;
    const exec::ValueSummary& s = r.summary;
    std::string text = dims(s.shape);
    if (s.count == 0) text += " · no elements";
    else if (s.count == s.nan + s.inf) text += " · nothing finite";
    else text += strf(" · min %.5g · mean %.5g · max %.5g", s.min, s.mean, s.max);
    if (s.count > 0 && r.scan.zeros > 0) text += strf(" · zeros %.3g %%", 100.0 * static_cast<double>(r.scan.zeros) / static_cast<double>(s.count));
    if (s.nan > 0) text += strf(" · NaN %lld", static_cast<long long>(s.nan));
    if (s.inf > 0) text += strf(" · infinite %lld", static_cast<long long>(s.inf));
    out.rows.push_back(row(strf("rank %d", r.rank), std::move(text)));
    if (!r.scan.strange.empty()) out.rows.push_back(row("", "first that is not finite at " + dims(r.scan.strange.front())));
  }
  return out;
}

InspectorSection differenceSection(const NodeLook& look) {
  InspectorSection out{"Against the unsharded step", {}, ""};
  if (!look.comparison) {
    out.absent = look.not_compared;
    return out;
  }
  const dbg::Comparison& c = *look.comparison;
  if (!c.alone.empty()) {
    out.absent = c.alone;
    return out;
  }
  out.rows.push_back(row("verdict", (c.within ? c.rel == 0.0 ? std::string("equal to the last bit") : strf("equal within the tolerance: %.3g of its norm", c.rel) : strf("DIFFERENT: %.3g of its norm", c.rel)) +
                                        (c.allowed > 0 ? strf(", allowed %.3g", c.allowed) : "")));
  if (!c.reference_node.empty()) out.rows.push_back(row("held against", "%" + c.reference_node, true));
  out.rows.push_back(row("put together", c.placement));
  if (!c.off.empty()) out.rows.push_back(row("off on", (c.off.size() == 1 ? "rank " : "ranks ") + rangesText(c.off)));
  if (c.rel > 0)
    out.rows.push_back(row("largest at", dims(c.difference.worst) + strf(": %.9g, unsharded %.9g", c.difference.got, c.difference.wanted), true));
  return out;
}

InspectorSection cellsSection(const NodeLook& look, const LookedValue& v) {
  InspectorSection out{look.asked.window.empty() ? "Beginning" : "Window [" + look.asked.window + "]", {}, ""};
  if (!look.asked.window.empty()) {
    out.absent = look.window_problem;
    if (look.window) {
      if (look.window->rank < 0) out.title += ", put together";
      else out.title += strf(", rank %d", look.window->rank);
      addCells(look.window->cells.shape, look.window->cells.values, "", out.rows);
    }
    return out;
  }
  if (!v.look) return out;
  for (const dbg::RankValue& r : v.look->ranks)
    if (look.asked.rank < 0 ? r.rank < 4 : r.rank == look.asked.rank) addCells(r.summary.slice_shape, r.summary.slice, strf("rank %d", r.rank), out.rows);
  return out;
}

}  // namespace

ValueRow valueRow(const NodeLook& look, std::size_t place) {
  const LookedValue& v = look.values[place];
  ValueRow out;
  out.name = "%" + v.name;
  out.role = v.role;
  out.shape = v.shape;
  switch (v.there) {
    case LookedValue::There::kNotYet: out.figures = "not computed yet"; break;
    case LookedValue::There::kOnItsWay: out.figures = "on its way"; break;
    case LookedValue::There::kGone: out.figures = "freed by now"; break;
    case LookedValue::There::kLive: break;
  }
  out.quiet = !v.look;
  if (!v.look) {
    out.figures = v.shape + (out.figures.empty() ? "" : ", " + out.figures);
    return out;
  }
  out.figures = figuresText(*v.look) + (v.look->again ? " (again)" : "");
  for (const dbg::RankValue& r : v.look->ranks) out.bad = out.bad || r.summary.nan > 0 || r.summary.inf > 0;
  if (static_cast<int>(place) == look.chosen && look.comparison && look.comparison->alone.empty()) {
    out.bad = out.bad || !look.comparison->within;
    out.figures = (look.comparison->within ? "= " : "≠ ") + out.figures;
  }
  return out;
}

InspectorPage valuePage(const NodeLook& look) {
  InspectorPage out;
  if (look.chosen < 0) {
    out.hint = "It reads and makes no tensors.";
    return out;
  }
  const LookedValue& v = look.values[static_cast<std::size_t>(look.chosen)];
  out.title = "%" + v.name;
  InspectorSection what{"Value", {}, ""};
  what.rows.push_back(row("whole", v.shape, true));
  if (v.look) what.rows.push_back(row("placement", v.look->placement));
  if (look.again) what.rows.push_back(row("freed by now", "it was computed again for this look, on other ranks; these have not moved"));
  if (!look.absent.empty()) what.rows.push_back(row("now", look.absent));
  if (!look.absent.empty() && look.may_be_computed) {
    InspectorRow again = row("", "Compute it again: the step runs on other ranks as far as it");
    again.act = "again";
    what.rows.push_back(std::move(again));
  }
  out.sections.push_back(std::move(what));
  if (!v.look) return out;
  out.sections.push_back(differenceSection(look));
  out.sections.push_back(figuresSection(look, v));
  out.sections.push_back(cellsSection(look, v));
  return out;
}

InspectorPage whyPage(const NodeLook& look) {
  InspectorPage out;
  out.title = look.node.empty() ? look.asked.value : look.node;
  InspectorSection section{"Why", {}, ""};
  for (const dbg::WhyRow& w : look.why) section.rows.push_back(row(w.question, w.answer + (w.source.empty() ? "" : "  — " + w.source)));
  if (look.why.empty()) section.absent = "Nothing is recorded of it.";
  out.sections.push_back(std::move(section));
  return out;
}

}  // namespace spscope::ui
