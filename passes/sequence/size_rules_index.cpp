// SPDX-License-Identifier: Apache-2.0
// Sizes through look-ups (embedding, index, gather, scatter), and the largest values that integer results can have:
// whether a table of fixed length is long enough for the positions read from it.
#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "core/ir/op_traits.h"
#include "passes/sequence/rules.h"
#include "passes/sequence/size_rules.h"

namespace spscope::passes {

using ir::kNone;
using ir::Node;
using ir::ValueId;

// --- look-ups -------------------------------------------------------------------------------------------------------

void SizeRules::readTable(const Node& n, ValueId table, const AtomList& rows, ValueId index) {
  const auto& bound = bounds_[static_cast<std::size_t>(index)];
  if (bound) reads_.push_back({n.id, table, rows, *bound});
}

void SizeRules::embedding(const Node& n) {
  const ValueId w = ir::useArg(n, "weight"), index = ir::useArg(n, "indices");
  if (w == kNone || index == kNone) return unknown(n);
  std::vector<AtomList> out = dims(index);
  out.push_back(dims(w)[1]);
  readTable(n, w, dims(w)[0], index);
  set(n, 0, std::move(out));
}

void SizeRules::indexBy(const Node& n) {
  const ValueId x = ir::useArg(n, "self");
  const ir::Attribute* given = n.find("indices");
  const auto* list = given ? std::get_if<ir::UseList>(given) : nullptr;
  if (x == kNone || !list) return unknown(n);
  std::vector<ValueId> tensors;
  std::vector<std::size_t> at;
  for (std::size_t d = 0; d < list->size(); ++d) {
    if ((*list)[d].value == kNone) continue;
    const ir::DType type = graph_.value((*list)[d].value).dtype;
    if (type == ir::DType::kBool || type == ir::DType::kU8) return unknown(n);  // as many entries as are true
    tensors.push_back((*list)[d].value);
    at.push_back(d);
    readTable(n, x, dims(x)[d], tensors.back());
  }
  if (tensors.empty()) return unknown(n);
  const bool adjacent = at.back() - at.front() + 1 == at.size();
  int index_rank = 0;
  for (ValueId t : tensors) index_rank = std::max(index_rank, rank(t));
  ir::Dims index_shape(static_cast<std::size_t>(index_rank), 1);
  for (ValueId t : tensors)
    for (int d = 0; d < rank(t); ++d) {
      std::int64_t& size = index_shape[static_cast<std::size_t>(d + index_rank - rank(t))];
      if (size == 1) size = shape(t)[static_cast<std::size_t>(d)];
    }
  std::vector<AtomList> index(index_shape.size()), rest, out;
  broadcast(n, tensors, index_shape, &index);
  std::size_t before = 0;
  for (std::size_t d = 0; d < dims(x).size(); ++d) {
    if (std::find(at.begin(), at.end(), d) != at.end()) continue;
    rest.push_back(dims(x)[d]);
    if (adjacent && d < at.front()) ++before;
  }
  out.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(before));
  out.insert(out.end(), index.begin(), index.end());
  out.insert(out.end(), rest.begin() + static_cast<std::ptrdiff_t>(before), rest.end());
  const std::string_view base = ir::baseName(n.op);
  if (base.rfind("index_put", 0) == 0 || base == "_unsafe_index_put") {
    if (const ValueId values = ir::useArg(n, "values"); values != kNone)
      for (int i = 1; i <= std::min<int>(rank(values), static_cast<int>(out.size())); ++i) {
        const AtomList& to = out[out.size() - static_cast<std::size_t>(i)];
        const AtomList& from = dims(values)[static_cast<std::size_t>(rank(values) - i)];
        if (system_.oldSize(from) == system_.oldSize(to)) system_.unify(to, from, n.id);
      }
    set(n, 0, dims(x));
    return;
  }
  set(n, 0, std::move(out));
}

void SizeRules::gather(const Node& n) {
  const ValueId x = ir::useArg(n, "self"), index = ir::useArg(n, "index");
  if (x == kNone || index == kNone) return unknown(n);
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(x)));
  if (ir::baseName(n.op) == "index_select") {
    std::vector<AtomList> out = dims(x);
    readTable(n, x, dims(x)[d], index);
    out[d] = rank(index) == 1 ? dims(index)[0] : AtomList{};
    set(n, 0, std::move(out));
    return;
  }
  for (std::size_t k = 0; k < dims(x).size(); ++k)
    if (k != d && shape(x)[k] == shape(index)[k]) system_.unify(dims(x)[k], dims(index)[k], n.id);
  set(n, 0, dims(index));
}

void SizeRules::scatter(const Node& n) {
  const ValueId x = ir::useArg(n, "self"), index = ir::useArg(n, "index"), src = ir::useArg(n, "src");
  if (x == kNone) return unknown(n);
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(x)));
  for (ValueId v : {index, src}) {
    if (v == kNone || rank(v) != rank(x)) continue;
    for (std::size_t k = 0; k < dims(x).size(); ++k)
      if (k != d && shape(x)[k] == shape(v)[k]) system_.unify(dims(x)[k], dims(v)[k], n.id);
  }
  if (index != kNone && src != kNone && shape(index) == shape(src)) 
    for (std::size_t k = 0; k < dims(src).size(); ++k) system_.unify(dims(index)[k], dims(src)[k], n.id);
  set(n, 0, dims(x));
}

// --- largest and smallest values ------------------------------------------------------------------------------------

namespace {

std::optional<LinearSize> plus(const LinearSize& a, const LinearSize& b, int sign) {
  if (a.atom != kNone && b.atom != kNone) return std::nullopt;
  LinearSize out = a.atom != kNone ? a : LinearSize{b.atom, b.sign * sign, 0};
  out.add = a.add + sign * b.add;
  return out;
}

bool isConstant(const LinearSize& x, std::int64_t n) { return x.atom == kNone && x.add == n; }

}  // namespace

void SizeRules::assumePositions(ValueId input) {
  if (dims(input).empty() || dims(input).back().empty()) return;
  ValueBound b;
  b.high = {dims(input).back()[0], 1, -1};
  b.assumed = true;
  bounds_[static_cast<std::size_t>(input)] = b;
}

void SizeRules::bounds(const Node& n) {
  if (n.outputs.size() != 1 || n.outputs[0] == kNone) return;
  const ValueId out = n.outputs[0];
  if (ir::isFloating(graph_.value(out).dtype)) return;
  auto& result = bounds_[static_cast<std::size_t>(out)];
  std::string_view base = ir::baseName(n.op);
  if (base.size() > 1 && base.back() == '_' && ir::isMutating(n.op)) base.remove_suffix(1);
  const std::vector<ValueId> ops = operands(n);
  const auto of = [&](std::size_t i) { return i < ops.size() ? bounds_[static_cast<std::size_t>(ops[i])] : std::nullopt; };
  const auto between = [](std::int64_t low, std::int64_t high) { return ValueBound{{kNone, 1, low}, {kNone, 1, high}, false, {}}; };
  if (base == "arange") {
    const std::int64_t start = ir::intArg(n, "start", 0);
    if (ir::intArg(n, "step", 1) == 1 && !dims(out)[0].empty())
      result = ValueBound{{kNone, 1, start}, {dims(out)[0][0], 1, start - 1}, false, {}};
    return;
  }
  if (base == "ones" || base == "new_ones" || base == "ones_like") {
    result = between(1, 1);
    return;
  }
  if (base == "zeros" || base == "new_zeros" || base == "zeros_like") {
    result = between(0, 0);
    return;
  }
  if (graph_.value(out).dtype == ir::DType::kBool) {
    result = between(0, 1);
    return;
  }
  static const std::set<std::string_view> keeps = {
      "view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "expand", "repeat", "transpose",
      "permute", "t", "slice", "select", "to", "_to_copy", "type_as", "alias", "clone", "contiguous", "detach", "flip",
      "roll", "lift_fresh_copy", "int", "long"};
  if (keeps.count(base)) {
    result = of(0);
    return;
  }
  if ((base == "add" || base == "sub") && of(0) && ir::intArg(n, "alpha", 1) == 1) {
    const int sign = base == "add" ? 1 : -1;
    const ir::Attribute* other = n.find("other");
    if (ops.size() == 1 && other && std::holds_alternative<std::int64_t>(*other)) {
      const std::int64_t by = std::get<std::int64_t>(*other);
      result = of(0);
      result->low.add += sign * by;
      result->high.add += sign * by;
      if (by != 0) result->shifts.emplace_back(n.id, by);
    } else if (ops.size() == 2 && of(1)) {
      const auto low = plus(of(0)->low, sign > 0 ? of(1)->low : of(1)->high, sign);
      const auto high = plus(of(0)->high, sign > 0 ? of(1)->high : of(1)->low, sign);
      if (!low || !high) return;
      ValueBound b{*low, *high, of(0)->assumed || of(1)->assumed, of(0)->shifts};
      b.shifts.insert(b.shifts.end(), of(1)->shifts.begin(), of(1)->shifts.end());
      result = std::move(b);
    }
    return;
  }
  if (base == "clamp" && of(0)) {
    const ir::Attribute* low = n.find("min");
    const ir::Attribute* high = n.find("max");
    result = of(0);
    if (low && std::holds_alternative<std::int64_t>(*low)) result->low = {kNone, 1, std::get<std::int64_t>(*low)};
    if (high && std::holds_alternative<std::int64_t>(*high)) result->high = {kNone, 1, std::get<std::int64_t>(*high)};
    return;
  }
  if (base == "mul" && ops.size() == 2) {  // by something that is 0 or 1
    for (std::size_t i : {std::size_t{0}, std::size_t{1}})
      if (of(i) && of(1 - i) && isConstant(of(i)->high, 1) && of(i)->low.atom == kNone && of(i)->low.add >= 0 &&
          of(1 - i)->low.atom == kNone) {
        result = of(1 - i);
        result->low.add = std::min<std::int64_t>(result->low.add, of(i)->low.add == 1 ? result->low.add : 0);
      }
    return;
  }
  if (base == "cumsum" && of(0) && isConstant(of(0)->high, 1) && of(0)->low.atom == kNone && of(0)->low.add >= 0) {
    const AtomList& along = dims(ops[0])[static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(ops[0])))];
    if (along.size() == 1) result = ValueBound{{kNone, 1, 0}, {along[0], 1, 0}, false, {}};
  }
}

void SizeRules::checkReads(std::int64_t length, DiagnosticSink& diagnostics) {
  for (const TableRead& read : reads_) {
    const std::int64_t low = sizeOf(read.bound.low, true), high = sizeOf(read.bound.high, true);
    const std::int64_t rows = system_.newSize(read.rows), old_rows = system_.oldSize(read.rows);
    const AtomList range = one(read.bound.high.atom != kNone ? read.bound.high.atom : read.bound.low.atom);
    const Length which = system_.lengthOf(range);
    if (which == Length::kSequence && length > 0)
      for (const auto& [at, by] : read.bound.shifts)
        if (by == length || by == -length || by == length - 1)
          system_.refuse({at, which, by, 0, strf("positions are moved by %lld, which may be the length, before a table is read",
                                                 static_cast<long long>(by))});
    const bool loose = sizeOf(read.bound.low, false) < 0 || sizeOf(read.bound.high, false) >= old_rows;  // known too little
    if (loose || (low >= 0 && high < rows)) continue;
    std::string why = system_.reasonOf(read.rows);
    if (why.empty()) why = strf("the table has %lld rows", static_cast<long long>(rows));
    const Node& n = graph_.node(read.at);
    if (read.bound.assumed) {
      diagnostics.warn("position-table-short",
                       strf("%s: positions up to %lld would be out of range", why.c_str(), static_cast<long long>(high)), n.name,
                       n.location ? n.location->source : std::string());
    } else {
      system_.refuse({read.at, which, old_rows, high < rows ? 0 : high + 1,
                      low < 0 ? why + strf(" and would be read at %lld", static_cast<long long>(low)) : why});
    }
  }
}

}  // namespace spscope::passes
