// SPDX-License-Identifier: Apache-2.0
// Lines and numbers of mask_algebra.h: values that are a x index + c along one dimension, whatever the data.
#include <algorithm>
#include <cmath>

#include "passes/sequence/mask_algebra.h"

namespace spscope::passes {

using ir::Dims;
using ir::kNone;
using ir::Node;
using ir::ValueId;

namespace {

bool oneOf(std::string_view base, std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), base) != names.end(); }

std::int64_t wrap(std::int64_t d, std::int64_t rank) { return d < 0 ? d + rank : d; }

/// Whole numbers up to where indices of tensors end fit.
bool holdsIndices(ir::DType t) { return t == ir::DType::kI64 || t == ir::DType::kI32; }

constexpr std::int64_t kFar = std::int64_t{1} << 50;

}  // namespace

std::optional<double> MaskReader::number(ValueId v) {
  if (v == kNone) return std::nullopt;
  if (const auto l = line(v)) return l->slope == 0 ? std::optional(static_cast<double>(l->offset)) : std::nullopt;
  // Numbers that are no integers: what a float mask adds.
  for (int depth = 0; depth < 16; ++depth) {
    const Node* n = producer(v);
    if (!n) return std::nullopt;
    const std::string_view base = ir::baseName(n->op);
    if (oneOf(base, {"full", "full_like", "new_full"})) return number(*n, "fill_value");
    if (base == "scalar_tensor") return number(*n, "s");
    const bool keeps = oneOf(base, {"to", "_to_copy", "alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "expand", "unsqueeze", "view",
                                    "reshape", "squeeze", "slice", "type_as", "expand_as"});
    if (!keeps || !ir::isFloating(value(v).dtype)) return std::nullopt;
    v = ir::useArg(*n, "self");
    if (v == kNone) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> MaskReader::number(const Node& node, Symbol argument) {
  const ir::Attribute* a = node.find(argument);
  if (!a) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(a)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(a)) return *d;
  if (const auto* b = std::get_if<bool>(a)) return *b ? 1.0 : 0.0;
  if (const auto* use = std::get_if<ir::Use>(a)) return number(use->value);
  return std::nullopt;
}

std::optional<std::int64_t> MaskReader::wholeNumber(const Node& node, Symbol argument) {
  const auto x = number(node, argument);
  if (!x || std::floor(*x) != *x || std::fabs(*x) > static_cast<double>(kFar)) return std::nullopt;
  return static_cast<std::int64_t>(*x);
}

std::optional<MaskReader::Line> MaskReader::line(ValueId v) {
  if (v == kNone) return std::nullopt;
  if (const auto it = lines_.find(v); it != lines_.end()) return it->second;
  const Node* n = producer(v);
  std::optional<Line> found;
  constexpr int kDeepest = 200;
  if (n && n->outputs.size() == 1 && !ir::isComplex(value(v).dtype) && depth_ < kDeepest) {
    ++depth_;
    found = lineOf(*n, v);
    --depth_;
  }
  if (found) {
    const ir::Value& x = value(v);
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    if (found->slope != 0 && (found->axis > rank || x.shape[static_cast<std::size_t>(rank - found->axis)] == 1)) found->slope = 0;
    if (found->slope == 0) found->axis = 0;
    if (x.dtype == ir::DType::kBool && found->slope == 0) found->offset = found->offset != 0;
    if (std::llabs(found->offset) > kFar || std::llabs(found->slope) > kFar) found.reset();
    else if (found->slope != 0 && !holdsIndices(x.dtype)) found.reset();
  }
  return lines_[v] = found;
}

std::optional<MaskReader::Line> MaskReader::lineOf(const Node& n, ValueId v) {
  const std::string_view base = ir::baseName(n.op);
  const ir::Value& out = value(v);
  const auto rank = static_cast<std::int64_t>(out.shape.size());
  const auto constant = [](std::int64_t c) { return Line{0, 0, c}; };
  const auto whole = [&](std::optional<double> x) -> std::optional<Line> {
    if (!x || std::floor(*x) != *x || std::fabs(*x) > static_cast<double>(kFar)) return std::nullopt;
    return constant(static_cast<std::int64_t>(*x));
  };
  if (base == "arange") {
    const auto step = n.find("step") ? wholeNumber(n, "step") : std::optional<std::int64_t>(1);
    const auto start = n.find("start") ? wholeNumber(n, "start") : std::optional<std::int64_t>(0);
    if (!step || !start) return std::nullopt;
    return Line{1, *step, *start};
  }
  if (oneOf(base, {"ones", "ones_like", "new_ones"})) return constant(1);
  if (oneOf(base, {"zeros", "zeros_like", "new_zeros"})) return constant(0);
  if (oneOf(base, {"full", "full_like", "new_full"})) return whole(number(n, "fill_value"));
  if (base == "scalar_tensor") return whole(number(n, "s"));

  const ValueId self = ir::useArg(n, "self"), other = ir::useArg(n, "other");
  if (self == kNone) return std::nullopt;
  const ir::Value& from = value(self);
  const auto from_rank = static_cast<std::int64_t>(from.shape.size());
  const std::optional<Line> x = line(self);
  if (!x) return std::nullopt;
  const auto size = [&](const ir::Value& of, const Line& l) { return l.axis == 0 ? std::int64_t{1} : of.shape[of.shape.size() - static_cast<std::size_t>(l.axis)]; };

  if (oneOf(base, {"to", "_to_copy", "type_as", "alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "expand", "expand_as", "broadcast_to"}))
    return x;
  if (base == "unsqueeze") {
    Line l = *x;
    if (l.axis >= rank - wrap(ir::intArg(n, "dim", 0), rank)) ++l.axis;
    return l;
  }
  if (oneOf(base, {"view", "reshape", "_unsafe_view", "squeeze", "flatten"})) {
    if (x->slope == 0) return x;
    // Only dimensions of 1 come and go: the line's is the same one among the others.
    int at = -1, seen = 0;
    Dims kept_from, kept_to;
    for (std::size_t d = from.shape.size(); d-- > 0;)
      if (from.shape[d] != 1) {
        kept_from.push_back(from.shape[d]);
        if (static_cast<int>(from.shape.size() - d) == x->axis) at = seen;
        ++seen;
      }
    Line l = *x;
    seen = 0;
    for (std::size_t d = out.shape.size(); d-- > 0;)
      if (out.shape[d] != 1) {
        kept_to.push_back(out.shape[d]);
        if (seen == at) l.axis = static_cast<int>(out.shape.size() - d);
        ++seen;
      }
    if (kept_from != kept_to) return std::nullopt;
    return l;
  }
  if (base == "slice" || base == "select") {
    const std::int64_t dim = wrap(ir::intArg(n, "dim", 0), from_rank), end = from_rank - dim;
    const std::int64_t length = from.shape[static_cast<std::size_t>(dim)];
    Line l = *x;
    if (base == "select") {
      const std::int64_t index = wrap(ir::intArg(n, "index", 0), length);
      if (l.axis == end) return constant(l.offset + l.slope * index);
      if (l.axis > end) --l.axis;
      return l;
    }
    if (l.axis == end) {
      const std::int64_t start = std::clamp<std::int64_t>(wrap(ir::intArg(n, "start", 0), length), 0, length);
      l.offset += l.slope * start;
      l.slope *= ir::intArg(n, "step", 1);
    }
    return l;
  }
  if (oneOf(base, {"add", "sub", "rsub"}) && ir::doubleArg(n, "alpha", 1) == 1) {
    std::optional<Line> y = other != kNone ? line(other) : whole(number(n, "other"));
    if (!y || (x->slope != 0 && y->slope != 0 && x->axis != y->axis)) return std::nullopt;
    Line l = base == "rsub" ? *y : *x;
    const Line& r = base == "rsub" ? *x : *y;
    const int sign = base == "add" ? 1 : -1;
    if (l.slope == 0) l.axis = r.axis;
    l.slope += sign * r.slope, l.offset += sign * r.offset;
    return l;
  }
  if (base == "mul") {
    std::optional<Line> y = other != kNone ? line(other) : whole(number(n, "other"));
    if (!y || (x->slope != 0 && y->slope != 0)) return std::nullopt;
    const Line& l = x->slope != 0 ? *x : *y;
    const std::int64_t c = x->slope != 0 ? y->offset : x->offset;
    if (std::llabs(c) > (std::int64_t{1} << 20) || std::llabs(l.offset) > (std::int64_t{1} << 40)) return std::nullopt;
    return Line{l.axis, l.slope * c, l.offset * c};
  }
  if (base == "index") {
    const ir::Attribute* indices = n.find("indices");
    const auto* list = indices ? std::get_if<ir::UseList>(indices) : nullptr;
    if (x->slope == 0) return x;
    if (!list || static_cast<std::int64_t>(list->size()) != from_rank) return std::nullopt;
    for (const ir::Use& use : *list)
      if (use.value == kNone) return std::nullopt;
    const auto index = line((*list)[static_cast<std::size_t>(from_rank - x->axis)].value);
    if (!index || index->offset < 0 || index->slope < 0) return std::nullopt;
    return Line{index->axis, x->slope * index->slope, x->offset + x->slope * index->offset};
  }
  if (base == "diff") {
    // A number in front that continues the line leaves its slope everywhere.
    const std::int64_t end = from_rank - wrap(ir::intArg(n, "dim", -1), from_rank);
    if (ir::intArg(n, "n", 1) != 1 || ir::useArg(n, "append") != kNone) return std::nullopt;
    const std::int64_t slope = x->axis == end ? x->slope : 0;
    if (x->slope != 0 && x->axis != end) return constant(0);  // along another dimension nothing changes
    if (const ValueId prepend = ir::useArg(n, "prepend"); prepend != kNone) {
      const auto p = line(prepend);
      if (!p || p->slope != 0 || value(prepend).shape.empty() || x->offset - p->offset != slope) return std::nullopt;
      if (value(prepend).shape[value(prepend).shape.size() - static_cast<std::size_t>(end)] != 1) return std::nullopt;
    }
    return constant(slope);
  }
  if (base == "cumsum" && x->slope == 0 && x->offset == 0) return x;
  if (x->slope == 0) {
    const std::optional<Line> y = other != kNone ? line(other) : whole(number(n, "other"));
    const bool bools = from.dtype == ir::DType::kBool && (other == kNone || value(other).dtype == ir::DType::kBool);
    if (base == "logical_not" || (base == "bitwise_not" && bools)) return constant(x->offset == 0);
    if (y && y->slope == 0) {
      if (base == "logical_and" || (bools && oneOf(base, {"__and__", "bitwise_and"}))) return constant(x->offset != 0 && y->offset != 0);
      if (base == "logical_or" || (bools && oneOf(base, {"__or__", "bitwise_or"}))) return constant(x->offset != 0 || y->offset != 0);
    }
  }
  static const std::pair<std::string_view, ir::MaskTerm::Compare> kCompares[] = {
      {"lt", ir::MaskTerm::kLess},  {"le", ir::MaskTerm::kLessEqual}, {"eq", ir::MaskTerm::kEqual},
      {"ne", ir::MaskTerm::kNotEqual}, {"gt", ir::MaskTerm::kGreater},   {"ge", ir::MaskTerm::kGreaterEqual}};
  for (const auto& [name, compare] : kCompares) {
    if (base != name) continue;
    const std::optional<Line> y = other != kNone ? line(other) : whole(number(n, "other"));
    if (!y) return std::nullopt;
    const auto ends = [&](const Line& l, std::int64_t length) { return std::minmax({l.offset, l.offset + l.slope * (length - 1)}); };
    const auto [a_low, a_high] = ends(*x, size(from, *x));
    const auto [b_low, b_high] = ends(*y, other != kNone ? size(value(other), *y) : 1);
    // Decided where all four corners agree and, for equality, nothing lies between.
    const bool first = ir::holds(compare, a_low, b_high), last = ir::holds(compare, a_high, b_low);
    if (first != last) return std::nullopt;
    const bool order = compare != ir::MaskTerm::kEqual && compare != ir::MaskTerm::kNotEqual;
    if (!order && !(a_high < b_low || b_high < a_low || (a_low == a_high && b_low == b_high))) return std::nullopt;
    return constant(first);
  }
  return std::nullopt;
}

}  // namespace spscope::passes
