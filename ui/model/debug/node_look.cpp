// SPDX-License-Identifier: Apache-2.0
#include "ui/model/debug/node_look.h"

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "core/ir/pending.h"
#include "ui/model/graph/graph_source.h"

namespace spscope::ui {

namespace dbg = session::debug;

namespace {

using There = LookedValue::There;

LookedValue valueOf(const dbg::Debugger& debugger, const ir::Graph& g, ir::ValueId id, std::string role, bool result) {
  const ir::Value& v = g.value(id);
  LookedValue out;
  out.name = v.name;
  out.role = std::move(role);
  out.result = result;
  out.producer = v.producer;
  out.floating = ir::isFloating(v.dtype);
  out.shape = shapeText(g, v);
  const auto there = debugger.there(v.name);
  out.there = !there || *there == dbg::Debugger::There::kNotYet ? There::kNotYet : *there == dbg::Debugger::There::kLive ? There::kLive : There::kGone;
  if (v.producer != ir::kNone && ir::isStart(g.node(v.producer).op)) out.there = There::kOnItsWay;
  return out;
}

std::vector<LookedValue> valuesOf(const dbg::Debugger& debugger, const ir::Graph& g, const ir::Node& node) {
  std::vector<LookedValue> out;
  std::vector<ir::ValueId> seen;
  const auto add = [&](ir::ValueId id, std::string role, bool result) {
    if (id == ir::kNone || std::find(seen.begin(), seen.end(), id) != seen.end()) return;
    seen.push_back(id);
    out.push_back(valueOf(debugger, g, id, std::move(role), result));
  };
  for (const ir::Argument& argument : node.args) {
    if (const auto* use = std::get_if<ir::Use>(&argument.value)) add(use->value, argument.name.str(), false);
    if (const auto* list = std::get_if<ir::UseList>(&argument.value))
      for (std::size_t i = 0; i < list->size(); ++i) add((*list)[i].value, argument.name.str() + "[" + std::to_string(i) + "]", false);
  }
  const auto results = std::count_if(node.outputs.begin(), node.outputs.end(), [](ir::ValueId v) { return v != ir::kNone; });
  for (std::size_t i = 0; i < node.outputs.size(); ++i) add(node.outputs[i], results > 1 ? "result " + std::to_string(i) : "result", true);
  return out;
}

/// The one that a person asked for; else the first result, or, before the node has run, what was computed for it.
int chosenOf(const NodeLook& look) {
  const auto first = [&](auto&& wanted) {
    const auto at = std::find_if(look.values.begin(), look.values.end(), wanted);
    return at == look.values.end() ? -1 : static_cast<int>(at - look.values.begin());
  };
  int place = look.asked.value.empty() ? -1 : first([&](const LookedValue& v) { return v.name == look.asked.value; });
  if (place < 0) place = first([](const LookedValue& v) { return v.result && (v.there == There::kLive || v.there == There::kGone); });
  if (place < 0) place = first([](const LookedValue& v) { return !v.result && v.floating && v.producer != ir::kNone && v.there != There::kOnItsWay; });
  return place < 0 && !look.values.empty() ? 0 : place;
}

void readChosen(dbg::Debugger& debugger, NodeLook& out) {
  LookedValue& v = out.values[static_cast<std::size_t>(out.chosen)];
  switch (v.there) {
    case There::kNotYet: out.absent = "not computed yet"; return;
    case There::kOnItsWay: out.absent = "a buffer on its way between ranks: look at what the wait for it gives"; return;
    case There::kGone:
      out.may_be_computed = true;
      if (!out.asked.again) {
        out.absent = "freed by now";
        return;
      }
      break;
    case There::kLive: break;
  }
  auto look = debugger.look(v.name);
  if (!look) {
    out.absent = look.error().message;
    out.may_be_computed = false;
    return;
  }
  v.look = std::move(*look);
  out.again = v.look->again;
  const std::string of_rank = out.asked.rank < 0 ? "" : " rank " + std::to_string(out.asked.rank);
  dbg::Answer heat = dbg::execute(debugger, "heat %" + v.name + of_rank);
  // Where the parts do not make a whole (they lie in another shape), rank 0's is drawn.
  if (heat.error && out.asked.rank < 0) heat = dbg::execute(debugger, "heat %" + v.name + " rank 0");
  out.heat = std::move(heat.heat);
  if (!out.asked.window.empty()) {
    dbg::Answer window = dbg::execute(debugger, (out.asked.rank < 0 ? "gather %" : "print %") + v.name + " " + out.asked.window + of_rank);
    if (window.error) out.window_problem = window.error->message;
    out.window = std::move(window.window);
  }
  if (!out.asked.compare) {
    out.not_compared = "not asked for";
    return;
  }
  auto comparison = debugger.compare(v.name);
  if (comparison) out.comparison = std::move(*comparison);
  else out.not_compared = comparison.error().message;
}

}  // namespace

std::string figuresText(const dbg::ValueLook& look) {
  double least = INFINITY, most = -INFINITY, sum = 0.0;
  std::int64_t finite = 0, nan = 0, inf = 0;
  for (const dbg::RankValue& r : look.ranks) {
    const exec::ValueSummary& s = r.summary;
    const std::int64_t n = s.count - s.nan - s.inf;
    nan += s.nan;
    inf += s.inf;
    if (n <= 0) continue;
    least = std::min(least, s.min);
    most = std::max(most, s.max);
    sum += s.mean * static_cast<double>(n);
    finite += n;
  }
  std::string out = finite == 0 ? std::string(nan + inf == 0 ? "no elements" : "nothing finite") : strf("%.4g … %.4g, mean %.4g", least, most, sum / static_cast<double>(finite));
  if (nan > 0) out += strf(", NaN %lld", static_cast<long long>(nan));
  if (inf > 0) out += strf(", infinite %lld", static_cast<long long>(inf));
  return out;
}

Result<NodeLook> lookAt(dbg::Debugger& debugger, const LookRequest& what, const CancelToken& stop, std::int64_t scanned) {
  NodeLook out;
  out.asked = what;
  const ir::Graph& g = debugger.graph(0);
  if (what.node != ir::kNone) {
    const ir::Node& node = g.node(what.node);
    out.node = node.name;
    out.op = node.op.str();
    out.values = valuesOf(debugger, g, node);
    if (auto why = debugger.why(node.name); why) out.why = std::move(*why);
  } else {
    for (const ir::Input& input : g.inputs)
      if (g.value(input.value).name == what.value) out.values.push_back(valueOf(debugger, g, input.value, "input", true));
    if (auto why = debugger.why(what.value); why) out.why = std::move(*why);
  }
  out.chosen = chosenOf(out);
  SP_TRY(stop.check());
  if (out.chosen >= 0) readChosen(debugger, out);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    LookedValue& v = out.values[i];
    SP_TRY(stop.check());
    if (static_cast<int>(i) == out.chosen || v.there != There::kLive) continue;
    std::int64_t elements = 0;
    if (const auto parts = debugger.parts(v.name); parts)
      for (const exec::TensorBag& bag : parts->of_rank) elements += bag.size() > 0 ? ir::numel(bag.entry(0).shape) : 0;
    if (elements > scanned) continue;
    if (auto look = debugger.look(v.name); look) v.look = std::move(*look);
  }
  return out;
}

}  // namespace spscope::ui
