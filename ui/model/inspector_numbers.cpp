// SPDX-License-Identifier: Apache-2.0
// The inspector's section of numbers: what a node computes on each rank, as figures, a histogram and a corner of the tensor.
#include <algorithm>

#include "core/base/bars.h"
#include "core/base/strings.h"
#include "core/session/value_map.h"
#include "ui/model/inspector_sections.h"

namespace spscope::ui {
namespace {

constexpr const char* kTitle = "Numbers";

std::string figuresOf(const exec::ValueSummary& s) {
  std::string out = strf("min %.6g · mean %.6g · max %.6g", s.min, s.mean, s.max);
  out += strf(" · NaN %lld", static_cast<long long>(s.nan));
  if (s.inf > 0) out += strf(" · infinite %lld", static_cast<long long>(s.inf));
  return s.count == 0 ? "no elements" : out;
}

void addSummary(const std::string& label, const exec::ValueSummary& s, std::vector<InspectorRow>& rows) {
  rows.push_back({label, figuresOf(s), false, {}, ir::kNone});
  if (!s.histogram.empty()) rows.push_back({label + ", spread", barsOf(s.histogram), true, {}, ir::kNone});
  const std::int64_t columns = s.slice_shape.size() == 2 ? s.slice_shape[1] : 0;
  for (std::int64_t r = 0; columns > 0 && r < s.slice_shape[0]; ++r) {
    std::vector<std::string> row;
    for (std::int64_t c = 0; c < columns; ++c) row.push_back(strf("%.5g", s.slice[static_cast<std::size_t>(r * columns + c)]));
    rows.push_back({r == 0 ? label + ", corner" : "", join(row, "  "), true, {}, ir::kNone});
  }
}

void addDifference(const session::NodeValues& v, std::vector<InspectorRow>& rows) {
  if (!v.unsharded) {
    rows.push_back({"unsharded", v.alone, false, {}, ir::kNone});
    return;
  }
  const auto share = [&](double error) { return v.difference.norm > 0 ? error / v.difference.norm : error; };
  rows.push_back({"put together", session::placementWords(v.how), false, {}, ir::kNone});
  rows.push_back({"difference", strf("%s: %.3g of the norm, largest %.3g", v.within ? "equal within the tolerance" : "DIFFERENT", share(v.difference.error), v.difference.max_abs),
                  false, {}, ir::kNone});
  if (!v.within)
    rows.push_back({"largest at", "[" + join(v.difference.worst, ", ") + strf("]: %.9g instead of %.9g", v.difference.got, v.difference.wanted), true, {}, ir::kNone});
  if (v.difference.rank_error.size() == v.ranks.size())
    for (std::size_t r = 0; r < v.ranks.size(); ++r) rows.push_back({strf("off on rank %zu", r), strf("%.3g of the norm", share(v.difference.rank_error[r])), false, {}, ir::kNone});
  addSummary("unsharded", *v.unsharded, rows);
}

}  // namespace

InspectorSection numbersSection(const InspectorScope& scope, const ir::Node& node) {
  InspectorSection out{kTitle, {}, ""};
  const Workspace& w = *scope.workspace;
  if (scope.program == nullptr) {
    out.absent = "Compile first: numbers come from a step of virtual ranks.";
    return out;
  }
  const auto& order = scope.program->order;
  if (std::find(order.begin(), order.end(), node.id) == order.end()) {
    out.absent = "The program that runs has no such node: a later pass replaced it.";
    return out;
  }
  const bool asked = w.valuesAskedFor() == node.id;
  if (asked && w.jobs().busy("values") && !w.nodeValues() && !w.valuesError()) {
    out.absent = "A step of virtual ranks runs as far as this node.";
    return out;
  }
  if (asked && w.valuesError()) out.absent = w.valuesError()->message;
  const auto values = asked ? w.nodeValues() : nullptr;
  if (values) {
    for (std::size_t r = 0; r < values->ranks.size(); ++r) addSummary(strf("rank %zu", r), values->ranks[r], out.rows);
    addDifference(*values, out.rows);
  }
  out.rows.push_back({"", values ? "Read them again" : "Run a step of virtual ranks as far as this node and look", false, {}, node.id});
  return out;
}

}  // namespace spscope::ui
