// SPDX-License-Identifier: Apache-2.0
#include "app/dap/variables.h"

#include <algorithm>

#include "app/commands/debug_answer.h"
#include "core/base/bars.h"
#include "core/base/strings.h"
#include "core/ir/text.h"

namespace spscope::app::dap {
namespace {

namespace dbg = session::debug;

constexpr std::int64_t kPage = 256;  // elements that are sent where the client asks for no page

std::string dims(const ir::Dims& d) { return "[" + join(d, ", ") + "]"; }

Json leaf(std::string name, std::string value) { return {{"name", std::move(name)}, {"value", std::move(value)}, {"variablesReference", 0}}; }

Json branch(std::string name, std::string value, int reference) {
  return {{"name", std::move(name)}, {"value", std::move(value)}, {"variablesReference", reference}};
}

/// [start, start + count) of `size`, as far as it is there.
std::pair<std::int64_t, std::int64_t> page(std::int64_t size, std::int64_t start, std::int64_t count) {
  const std::int64_t first = std::clamp<std::int64_t>(start, 0, size);
  return {first, count > 0 ? first + std::min(count, size - first) : size};
}

}  // namespace

void Variables::clear() {
  handles_.clear();
  bags_.clear();
}

int Variables::keep(Handle handle) {
  handles_.push_back(std::move(handle));
  return static_cast<int>(handles_.size());
}

bool Variables::knows(int rank, const std::string& name) const {
  const ir::Graph& g = debugger_.graph(rank);
  for (std::size_t v = 0; v < g.valueCount(); ++v)
    if (g.value(static_cast<ir::ValueId>(v)).name == name) return true;
  return false;
}

std::vector<std::string> Variables::listed(const Handle& h) const {
  const ir::Graph& g = debugger_.graph(h.rank);
  std::vector<std::string> out;
  if (h.kind != Kind::kLive) {
    for (const ir::Input& input : g.inputs)
      if (input.value != ir::kNone && (input.kind == ir::InputKind::kUser) == (h.kind == Kind::kInputs)) out.push_back(g.value(input.value).name);
    return out;
  }
  // Made by now, and read by a node that has not run yet or by who asked for the step.
  const dbg::RankPlace place = debugger_.where().ranks[static_cast<std::size_t>(h.rank)];
  const std::size_t now = place.ended ? g.order.size() : static_cast<std::size_t>(place.next.place);
  std::vector<bool> read(g.valueCount(), false);
  for (std::size_t i = now; i < g.order.size(); ++i) ir::forEachUse(g.node(g.order[i]), [&](const ir::Use& use) { read[static_cast<std::size_t>(use.value)] = true; });
  for (const ir::Output& o : g.outputs)
    if (o.value != ir::kNone) read[static_cast<std::size_t>(o.value)] = true;
  for (std::size_t i = 0; i < now; ++i)
    for (const ir::ValueId v : g.node(g.order[i]).outputs)
      if (v != ir::kNone && read[static_cast<std::size_t>(v)]) out.push_back(g.value(v).name);
  return out;
}

Json Variables::scopes(int rank) {
  const dbg::RankPlace place = debugger_.where().ranks[static_cast<std::size_t>(rank)];
  Json out = Json::array();
  const auto scope = [&](std::string name, Kind kind, bool expensive, const char* hint = nullptr) {
    Handle handle{kind, rank, {}, Side::kRank, {}};
    Json one = {{"name", std::move(name)}, {"variablesReference", 0}, {"expensive", expensive}};
    if (hint != nullptr) one["presentationHint"] = hint;
    if (kind == Kind::kLive || kind == Kind::kInputs || kind == Kind::kParameters) one["namedVariables"] = listed(handle).size();
    one["variablesReference"] = keep(std::move(handle));
    out.push_back(std::move(one));
  };
  const std::int64_t now = place.ended ? static_cast<std::int64_t>(debugger_.graph(rank).order.size()) : place.next.place;
  if (!place.ended) scope("Operands of %" + place.next.name, Kind::kOperands, false, "arguments");
  if (now > 0) scope("Results just computed", Kind::kResults, false, "locals");
  scope("Live values", Kind::kLive, true);
  scope("Inputs of the step", Kind::kInputs, true);
  scope("Parameters", Kind::kParameters, true);
  return out;
}

Json Variables::described(int rank, std::string shown_name, const std::string& value) {
  auto found = this->value(rank, value);
  Json out;
  if (found) {
    out = std::move(*found);
    if (shown_name != "%" + value) out["value"] = "%" + value + ": " + out["value"].get<std::string>();
  } else {
    out = leaf({}, found.error().message);
    out["evaluateName"] = "%" + value;
  }
  out["name"] = std::move(shown_name);
  return out;
}

Result<Json> Variables::value(int rank, const std::string& name) {
  SP_ASSIGN(const dbg::ValueLook look, debugger_.look(name, rank));
  const dbg::RankValue& r = look.ranks.front();
  std::string text = std::string(ir::longName(look.dtype)) + " " + dims(r.summary.shape) + " " + figuresOf(r);
  if (look.again) text += "; freed by now, computed again";
  Json out = branch("%" + look.value, std::move(text), keep({Kind::kValue, rank, look.value, Side::kRank, {}}));
  out["type"] = std::string(ir::longName(look.dtype)) + dims(r.summary.shape) + ", " + look.placement;
  out["evaluateName"] = "%" + look.value;
  return out;
}

Result<Json> Variables::children(std::int64_t reference, std::int64_t start, std::int64_t count) {
  if (reference < 1 || reference > static_cast<std::int64_t>(handles_.size()))
    return makeError("dap-argument", strf("variables: there is no variablesReference %lld: they end when a rank moves", static_cast<long long>(reference)), Outcome::kUsage);
  const Handle handle = handles_[static_cast<std::size_t>(reference - 1)];
  switch (handle.kind) {
    case Kind::kOperands: return operands(handle);
    case Kind::kResults: return results(handle);
    case Kind::kLive:
    case Kind::kInputs:
    case Kind::kParameters: return named(handle, start, count);
    case Kind::kValue: return figures(handle);
    case Kind::kElements: return elements(handle, start, count);
    case Kind::kDifference: return difference(handle);
    case Kind::kWhy: return why(handle);
  }
  return Json::array();
}

Result<Json> Variables::operands(const Handle& h) {
  const ir::Graph& g = debugger_.graph(h.rank);
  const dbg::RankPlace place = debugger_.where().ranks[static_cast<std::size_t>(h.rank)];
  Json out = Json::array();
  if (place.ended) return out;
  for (const ir::Argument& a : g.node(g.order[static_cast<std::size_t>(place.next.place)]).args) {
    const std::string& name = a.name.str();
    if (const auto* use = std::get_if<ir::Use>(&a.value); use != nullptr && use->value != ir::kNone) {
      out.push_back(described(h.rank, name, g.value(use->value).name));
    } else if (const auto* list = std::get_if<ir::UseList>(&a.value)) {
      for (std::size_t i = 0; i < list->size(); ++i)
        if ((*list)[i].value != ir::kNone) out.push_back(described(h.rank, strf("%s[%zu]", name.c_str(), i), g.value((*list)[i].value).name));
    } else {
      out.push_back(leaf(name, ir::attributeText(g, a.value)));
    }
  }
  return out;
}

Result<Json> Variables::results(const Handle& h) {
  const ir::Graph& g = debugger_.graph(h.rank);
  const dbg::RankPlace place = debugger_.where().ranks[static_cast<std::size_t>(h.rank)];
  const std::size_t now = place.ended ? g.order.size() : static_cast<std::size_t>(place.next.place);
  Json out = Json::array();
  if (now == 0) return out;
  for (const ir::ValueId v : g.node(g.order[now - 1]).outputs)
    if (v != ir::kNone) out.push_back(described(h.rank, "%" + g.value(v).name, g.value(v).name));
  return out;
}

Result<Json> Variables::named(const Handle& h, std::int64_t start, std::int64_t count) {
  const std::vector<std::string> names = listed(h);
  const auto [first, last] = page(static_cast<std::int64_t>(names.size()), start, count);
  Json out = Json::array();
  for (std::int64_t i = first; i < last; ++i) out.push_back(described(h.rank, "%" + names[static_cast<std::size_t>(i)], names[static_cast<std::size_t>(i)]));
  return out;
}

Result<Json> Variables::figures(const Handle& h) {
  SP_ASSIGN(const dbg::ValueLook look, debugger_.look(h.value, h.rank));
  const dbg::RankValue& r = look.ranks.front();
  Json out = Json::array();
  out.push_back(leaf("shape", dims(r.summary.shape)));
  out.push_back(leaf("whole shape", dims(look.shape)));
  out.push_back(leaf("type", std::string(ir::longName(look.dtype))));
  out.push_back(leaf("placement", look.placement));
  out.push_back(leaf("made by", look.node.op + (look.node.source.empty() ? "" : ", " + look.node.source) + (look.node.module.empty() ? "" : ", " + look.node.module)));
  if (r.scan.count > 0) {
    out.push_back(leaf("min", formatDouble(r.summary.min)));
    out.push_back(leaf("mean", formatDouble(r.summary.mean)));
    out.push_back(leaf("max", formatDouble(r.summary.max)));
  }
  out.push_back(leaf("NaN", std::to_string(r.scan.nan)));
  out.push_back(leaf("infinite", std::to_string(r.scan.inf)));
  out.push_back(leaf("zeros", std::to_string(r.scan.zeros)));
  if (!r.scan.strange.empty()) out.push_back(leaf("not finite at", dims(r.scan.strange.front())));
  if (!r.summary.histogram.empty()) out.push_back(leaf("spread", "|" + barsOf(r.summary.histogram) + "|"));
  const auto elements = [&](std::string name, Side side, const ir::Dims& shape) {
    Json one = branch(std::move(name), dims(shape), keep({Kind::kElements, h.rank, h.value, side, {}}));
    one["indexedVariables"] = shape.empty() ? 1 : shape.front();
    out.push_back(std::move(one));
  };
  elements("elements", Side::kRank, r.summary.shape);
  elements("put together", Side::kWhole, look.shape);
  elements("unsharded", Side::kUnsharded, look.shape);
  out.push_back(branch("difference from unsharded", "", keep({Kind::kDifference, h.rank, h.value, Side::kRank, {}})));
  out.push_back(branch("why", "", keep({Kind::kWhy, h.rank, h.value, Side::kRank, {}})));
  for (int other = 0; other < debugger_.ranks(); ++other)
    if (other != h.rank) out.push_back(branch(strf("rank %d", other), "", keep({Kind::kValue, other, h.value, Side::kRank, {}})));
  return out;
}

Result<const exec::TensorBag*> Variables::bag(int rank, const std::string& value, Side side) {
  const std::string key = strf("%d %d ", static_cast<int>(side), side == Side::kRank ? rank : 0) + value;
  if (const auto known = bags_.find(key); known != bags_.end()) return &known->second;
  exec::TensorBag found;
  if (side == Side::kRank) {
    SP_ASSIGN(auto parts, debugger_.parts(value, rank));
    found = std::move(parts.of_rank[static_cast<std::size_t>(rank)]);
  } else {
    SP_ASSIGN(found, side == Side::kWhole ? debugger_.whole(value) : debugger_.unsharded(value));
  }
  return &bags_.emplace(key, std::move(found)).first->second;
}

Result<Json> Variables::elements(const Handle& h, std::int64_t start, std::int64_t count) {
  SP_ASSIGN(const exec::TensorBag* const tensor, bag(h.rank, h.value, h.side));
  const ir::Dims shape = tensor->entry(0).shape;
  const std::size_t depth = h.index.size();
  Json out = Json::array();
  const std::int64_t size = depth < shape.size() ? shape[depth] : 1;
  const auto [first, last] = page(size, start, count > 0 ? count : kPage);
  const auto indexed = [&](std::int64_t i) {
    ir::Dims index = h.index;
    index.push_back(i);
    return index;
  };
  if (depth + 1 < shape.size()) {
    for (std::int64_t i = first; i < last; ++i) {
      Json one = branch(strf("[%lld]", static_cast<long long>(i)), dims(ir::Dims(shape.begin() + static_cast<std::ptrdiff_t>(depth) + 1, shape.end())),
                        keep({Kind::kElements, h.rank, h.value, h.side, indexed(i)}));
      one["indexedVariables"] = shape[depth + 1];
      out.push_back(std::move(one));
    }
  } else if (first < last) {
    std::vector<exec::Range> ranges;
    for (const std::int64_t i : h.index) ranges.push_back({i, i + 1});
    if (!shape.empty()) ranges.push_back({first, last});
    SP_ASSIGN(const exec::ValueWindow window, exec::windowOf(*tensor, ranges, std::max<std::int64_t>(kPage, last - first)));
    for (std::size_t i = 0; i < window.values.size(); ++i) {
      Json one = leaf(shape.empty() ? "value" : strf("[%lld]", static_cast<long long>(first) + static_cast<long long>(i)), formatDouble(window.values[i]));
      if (h.side == Side::kRank && !shape.empty()) one["evaluateName"] = "%" + h.value + "[" + join(indexed(first + static_cast<std::int64_t>(i)), ",") + "]";
      out.push_back(std::move(one));
    }
  }
  return out;
}

Result<Json> Variables::difference(const Handle& h) {
  SP_ASSIGN(const dbg::Comparison c, debugger_.compare(h.value));
  Json out = Json::array();
  if (!c.alone.empty()) {
    out.push_back(leaf("no comparison", c.alone));
    return out;
  }
  out.push_back(leaf("verdict", c.within ? c.rel == 0.0 ? "equal" : "equal within the tolerance" : "different"));
  out.push_back(leaf("share of its norm", formatDouble(c.rel)));
  out.push_back(leaf("allowed", formatDouble(c.allowed)));
  out.push_back(leaf("put together", c.placement));
  out.push_back(leaf("unsharded node", "%" + c.reference_node));
  if (c.rel > 0) {
    out.push_back(leaf("largest difference", formatDouble(c.difference.max_abs)));
    out.push_back(leaf("at", dims(c.difference.worst)));
    out.push_back(leaf("got", formatDouble(c.difference.got)));
    out.push_back(leaf("wanted", formatDouble(c.difference.wanted)));
  }
  std::vector<std::string> off;
  for (const int r : c.off) off.push_back(std::to_string(r));
  if (!off.empty()) out.push_back(leaf("off on rank", join(off, ", ")));
  return out;
}

Result<Json> Variables::why(const Handle& h) {
  SP_ASSIGN(const std::vector<dbg::WhyRow> rows, debugger_.why(h.value));
  Json out = Json::array();
  for (const dbg::WhyRow& row : rows) out.push_back(leaf(row.question, row.answer + (row.source.empty() ? "" : " (" + row.source + ")")));
  return out;
}

}  // namespace spscope::app::dap
