// SPDX-License-Identifier: Apache-2.0
// See mask_algebra.h. The rules of matrices; those of lines are in mask_lines.cpp.
#include "passes/sequence/mask_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/strings.h"

namespace spscope::passes {

using ir::Dims;
using ir::kNone;
using ir::MaskTerm;
using ir::Node;
using ir::ValueId;

namespace {

constexpr int kDeepest = 200;
/// What a mask adds where it bans. Smaller numbers might leave a weight behind.
constexpr double kBanned = -1e9;

bool oneOf(std::string_view base, std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), base) != names.end(); }

std::int64_t fromEnd(const ir::Value& v, std::size_t d) { return v.shape.size() < d ? 1 : v.shape[v.shape.size() - d]; }
bool variesByRow(const ir::Value& v) { return fromEnd(v, 2) != 1; }
bool variesByColumn(const ir::Value& v) { return fromEnd(v, 1) != 1; }

MaskMeaning meaning(MaskFormula f, bool finite = false) { return {std::move(f), finite}; }
MaskFormula always() { return {}; }
MaskFormula never() { return {{}}; }

template <typename F>
void forEachSide(MaskFormula& formula, F&& f) {
  for (MaskClause& clause : formula)
    for (MaskCompare& c : clause) f(c);
}

std::optional<MaskTerm::Compare> compareOf(std::string_view base) {
  if (oneOf(base, {"lt", "less", "__lt__"})) return MaskTerm::kLess;
  if (oneOf(base, {"le", "less_equal", "__le__"})) return MaskTerm::kLessEqual;
  if (oneOf(base, {"eq", "__eq__"})) return MaskTerm::kEqual;
  if (oneOf(base, {"ne", "not_equal", "__ne__"})) return MaskTerm::kNotEqual;
  if (oneOf(base, {"gt", "greater", "__gt__"})) return MaskTerm::kGreater;
  if (oneOf(base, {"ge", "greater_equal", "__ge__"})) return MaskTerm::kGreaterEqual;
  return std::nullopt;
}

}  // namespace

Error MaskReader::unknown(ValueId v, const std::string& why) const {
  const Node* n = producer(v);
  return makeError("mask-kept", (n ? n->op.str() + " (%" + n->name + ")" : "%" + value(v).name) + " " + why);
}

const Node* MaskReader::producer(ValueId v) const {
  return v == kNone || value(v).producer == kNone ? nullptr : &graph_.node(value(v).producer);
}

Result<MaskMeaning> MaskReader::read(ValueId mask) {
  return ask(mask, value(mask).dtype == ir::DType::kBool ? Question::kTruth : Question::kAdditive);
}

MaskReader::Answer MaskReader::ask(ValueId v, Question question) {
  const auto key = std::make_pair(v, question);
  if (const auto it = answers_.find(key); it != answers_.end()) return it->second;
  if (depth_ > kDeepest) return unknown(v, "stands too deep in the definition of the mask");
  ++depth_;
  Answer found = answer(v, question);
  --depth_;
  answers_.emplace(key, found);
  return found;
}

MaskReader::Answer MaskReader::answer(ValueId v, Question question) {
  if (const auto same = number(v)) {
    if (question == Question::kTruth) return meaning(*same != 0 ? always() : never());
    if (*same == 0) return meaning(always());
    if (*same <= kBanned) return meaning(never(), !std::isinf(*same));
    return unknown(v, strf("adds %g everywhere", *same));
  }
  const Node* n = producer(v);
  if (question == Question::kTruth && !ir::isFloating(value(v).dtype) && !(variesByRow(value(v)) && variesByColumn(value(v)))) {
    // A vector, made by whatever ops: it costs no more than the positions.
    const bool row = variesByRow(value(v));
    const auto one = side(v, row);
    if (!one) return unknown(v, "differs between heads");
    MaskCompare c{MaskTerm::kNotEqual, {}, {}, 0};
    (row ? c.row : c.column) = *one;
    if (one->kind == MaskSide::kVector) return meaning(bothHold({{c}}, {}));
  }
  if (n == nullptr) return unknown(v, "is read from the file, element by element");
  if (auto passed = through(*n, v, question)) return std::move(*passed);
  return question == Question::kTruth ? truthOf(*n, v) : additiveOf(*n, v);
}

/// Ops that only move elements, and conversions.
std::optional<MaskReader::Answer> MaskReader::through(const Node& n, ValueId v, Question question) {
  const std::string_view base = ir::baseName(n.op);
  const ValueId self = ir::useArg(n, "self");
  if (self == kNone) return std::nullopt;
  const ir::Value& from = value(self);
  const ir::Value& to = value(v);
  const auto rank = static_cast<std::int64_t>(to.shape.size());
  const auto wrapped = [](std::int64_t d, std::int64_t dims) { return d < 0 ? d + dims : d; };
  if (oneOf(base, {"to", "_to_copy", "type_as", "alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy"})) {
    // Of a float, zero and not zero survive; a float mask that becomes bool is not what is added.
    if (question == Question::kAdditive && !ir::isFloating(from.dtype)) return Answer(unknown(v, "adds whole numbers"));
    return ask(self, question);
  }
  const auto mapped = [&](auto&& change) -> Answer {
    Answer inner = ask(self, question);
    if (inner) forEachSide(inner->formula, change);
    return inner;
  };
  const auto onVectors = [&](auto&& change) {
    return mapped([&](MaskCompare& c) {
      if (c.row.kind == MaskSide::kVector) change(c.row.vector, true);
      if (c.column.kind == MaskSide::kVector) change(c.column.vector, false);
    });
  };
  if (oneOf(base, {"expand", "expand_as", "broadcast_to"})) {
    if (fromEnd(from, 1) == fromEnd(to, 1) && fromEnd(from, 2) == fromEnd(to, 2)) return ask(self, question);
    return std::nullopt;
  }
  if (base == "unsqueeze") {
    const std::int64_t d = wrapped(ir::intArg(n, "dim", 0), rank), end = rank - d;  // from the end, in the result
    if (end <= 2) return std::nullopt;  // one of the last two is 1 then: a vector, not a matrix
    return onVectors([&](MaskVector& x, bool) { x.steps.push_back({MaskVector::Step::kUnsqueeze, {end}}); });
  }
  if (oneOf(base, {"view", "reshape", "_unsafe_view", "squeeze", "flatten"})) {
    if (fromEnd(from, 1) != fromEnd(to, 1) || fromEnd(from, 2) != fromEnd(to, 2)) return Answer(unknown(v, "merges or splits rows and columns"));
    return onVectors([&](MaskVector& x, bool row) {
      Dims shape = to.shape;
      shape[shape.size() - (row ? 1 : 2)] = 1;
      x.steps.push_back({MaskVector::Step::kReshape, shape});
    });
  }
  const bool swaps = base == "mT" || (base == "t" && rank == 2) ||
                     (base == "transpose" && rank >= 2 &&
                      wrapped(ir::intArg(n, "dim0", 0), rank) + wrapped(ir::intArg(n, "dim1", 1), rank) == 2 * rank - 3 &&
                      std::max(wrapped(ir::intArg(n, "dim0", 0), rank), wrapped(ir::intArg(n, "dim1", 1), rank)) == rank - 1);
  if (swaps)
    return mapped([&](MaskCompare& c) {
      for (MaskSide* s : {&c.row, &c.column})
        if (s->kind == MaskSide::kVector) s->vector.steps.push_back({MaskVector::Step::kSwapLast, {}});
      // row < column + offset is column > row - offset.
      std::swap(c.row, c.column);
      c.compare = ir::mirrored(c.compare);
      c.offset = -c.offset;
    });
  if (base == "slice") {
    const std::int64_t d = wrapped(ir::intArg(n, "dim", 0), rank), end = rank - d;
    const std::int64_t size = from.shape[static_cast<std::size_t>(d)];
    std::int64_t start = ir::intArg(n, "start", 0);
    start = std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
    if (ir::intArg(n, "step", 1) != 1) return Answer(unknown(v, "takes every so many"));
    const Dims cut{end, start, start + to.shape[static_cast<std::size_t>(d)]};
    if (end > 2) return onVectors([&](MaskVector& x, bool) { x.steps.push_back({MaskVector::Step::kSlice, cut}); });
    return mapped([&](MaskCompare& c) {
      MaskSide& cut_side = end == 2 ? c.row : c.column;
      if (cut_side.kind == MaskSide::kVector) cut_side.vector.steps.push_back({MaskVector::Step::kSlice, cut});
      if (cut_side.kind == MaskSide::kIndex) c.offset += end == 2 ? -start : start;
    });
  }
  return std::nullopt;
}

MaskReader::Answer MaskReader::truthOf(const Node& n, ValueId v) {
  const std::string_view base = ir::baseName(n.op);
  const ValueId self = ir::useArg(n, "self"), other = ir::useArg(n, "other");
  const auto tooLong = [&] { return unknown(v, "joins too many conditions"); };
  const auto two = [&](ValueId a, ValueId b, auto&& join) -> Answer {
    SP_ASSIGN(const MaskMeaning left, ask(a, Question::kTruth));
    SP_ASSIGN(const MaskMeaning right, ask(b, Question::kTruth));
    std::optional<MaskFormula> out = join(left.formula, right.formula);
    if (!out) return tooLong();
    return meaning(std::move(*out));
  };
  const auto conjunction = [](const MaskFormula& a, const MaskFormula& b) { return std::optional(bothHold(a, b)); };
  const auto exceptWhere = [](const MaskFormula& a, const MaskFormula& b) -> std::optional<MaskFormula> {
    const auto not_b = neverHolds(b);
    return not_b ? std::optional(bothHold(a, *not_b)) : std::nullopt;
  };
  if (self != kNone && other != kNone) {
    const bool bools = value(self).dtype == ir::DType::kBool && value(other).dtype == ir::DType::kBool;
    if (base == "logical_and" || (bools && oneOf(base, {"__and__", "bitwise_and", "__rand__"})) || base == "mul") return two(self, other, conjunction);
    if (base == "logical_or" || (bools && oneOf(base, {"__or__", "bitwise_or", "__ror__", "add", "maximum"})))
      return two(self, other, [](const MaskFormula& a, const MaskFormula& b) { return eitherHolds(a, b); });
  }
  if (base == "logical_not" || (base == "bitwise_not" && value(self).dtype == ir::DType::kBool)) {
    SP_ASSIGN(const MaskMeaning inner, ask(self, Question::kTruth));
    auto out = neverHolds(inner.formula);
    if (!out) return tooLong();
    return meaning(std::move(*out));
  }
  if (compareOf(base)) return comparison(n, v);
  if (base == "rsub" || base == "sub") {
    // 1 - x of zeros and ones is "not".
    const bool right = base == "rsub";
    const auto one = right ? number(n, "other") : number(n, "self");
    const ValueId of = right ? self : other;
    if (one == 1.0 && of != kNone && doubleArg(n, "alpha", 1) == 1 && binary(of)) {
      SP_ASSIGN(const MaskMeaning inner, ask(of, Question::kTruth));
      auto out = neverHolds(inner.formula);
      if (!out) return tooLong();
      return meaning(std::move(*out));
    }
    return unknown(v, "subtracts");
  }
  if (base == "tril" || base == "triu") {
    SP_ASSIGN(MaskMeaning inner, ask(self, Question::kTruth));
    return band(n, std::move(inner));
  }
  if (base == "masked_fill") {
    const ValueId where = ir::useArg(n, "mask");
    const auto fill = number(n, "value");
    if (where == kNone || !fill) return unknown(v, "fills with a value that is not known");
    if (*fill == 0) return two(self, where, exceptWhere);
    return two(self, where, [](const MaskFormula& a, const MaskFormula& b) { return eitherHolds(a, b); });
  }
  if (base == "where") {
    const ValueId condition = ir::useArg(n, "condition");
    const auto a = number(n, "self"), b = number(n, "other");
    if (condition == kNone) return unknown(v, "has no condition");
    if (a && b) {
      if ((*a != 0) == (*b != 0)) return meaning(*a != 0 ? always() : never());
      SP_ASSIGN(const MaskMeaning where, ask(condition, Question::kTruth));
      if (*a != 0) return where;
      auto out = neverHolds(where.formula);
      if (!out) return tooLong();
      return meaning(std::move(*out));
    }
    if (b == 0.0 && self != kNone) return two(self, condition, conjunction);
    if (a == 0.0 && other != kNone) return two(other, condition, exceptWhere);
    return unknown(v, "chooses between two matrices");
  }
  return unknown(v, "has no rule in the algebra of masks");
}

MaskReader::Answer MaskReader::additiveOf(const Node& n, ValueId v) {
  const std::string_view base = ir::baseName(n.op);
  const ValueId self = ir::useArg(n, "self"), other = ir::useArg(n, "other");
  const auto tooLong = [&] { return unknown(v, "joins too many conditions"); };
  // Zero where `seen`, else `fill`.
  const auto adding = [&](std::optional<MaskFormula> seen, double fill) -> Answer {
    if (!seen) return tooLong();
    if (!(fill <= kBanned)) return unknown(v, strf("adds %g, which bans nothing for certain", fill));
    return meaning(std::move(*seen), !std::isinf(fill));
  };
  if (base == "add" && other != kNone && self != kNone) {
    SP_ASSIGN(const MaskMeaning a, ask(self, Question::kAdditive));
    SP_ASSIGN(const MaskMeaning b, ask(other, Question::kAdditive));
    return meaning(bothHold(a.formula, b.formula), a.finite || b.finite);
  }
  if (base == "masked_fill") {
    const auto fill = number(n, "value");
    const ValueId where = ir::useArg(n, "mask");
    if (!fill || where == kNone) return unknown(v, "fills with a value that is not known");
    SP_ASSIGN(const MaskMeaning filled, ask(where, Question::kTruth));
    if (number(self) == 0.0) return adding(neverHolds(filled.formula), *fill);
    if (const auto before = number(self); before && *fill == 0) return adding(filled.formula, *before);
    SP_ASSIGN(const MaskMeaning under, ask(self, Question::kAdditive));
    const auto kept = neverHolds(filled.formula);
    if (!kept) return tooLong();
    SP_ASSIGN(MaskMeaning out, adding(bothHold(under.formula, *kept), *fill));
    out.finite = out.finite || under.finite;
    return out;
  }
  if (base == "where") {
    const ValueId condition = ir::useArg(n, "condition");
    const auto a = number(n, "self"), b = number(n, "other");
    if (condition == kNone || !a || !b || (*a != 0 && *b != 0)) return unknown(v, "chooses between two matrices");
    SP_ASSIGN(const MaskMeaning where, ask(condition, Question::kTruth));
    if (*a == 0) return adding(where.formula, *b);
    return adding(neverHolds(where.formula), *a);
  }
  if (base == "mul") {
    // (1 - mask) * lowest: zeros and ones by a finite number.
    const auto factor = number(n, "other");
    if (!factor || std::isinf(*factor) || !binary(self)) return unknown(v, "is a product of other things than zeros and ones by a number");
    SP_ASSIGN(const MaskMeaning banned, ask(self, Question::kTruth));
    return adding(neverHolds(banned.formula), *factor);
  }
  if (base == "triu" || base == "tril") {
    const auto fill = number(self);
    if (!fill) return unknown(v, "cuts a matrix that is not the same everywhere");
    SP_ASSIGN(const MaskMeaning kept, band(n, meaning(always())));
    return adding(neverHolds(kept.formula), *fill);
  }
  return unknown(v, "has no rule in the algebra of masks");
}

MaskReader::Answer MaskReader::band(const Node& n, MaskMeaning of) {
  // tril keeps column - row <= diagonal, triu column - row >= diagonal.
  const bool lower = ir::baseName(n.op) == "tril";
  MaskCompare c{lower ? MaskTerm::kGreaterEqual : MaskTerm::kLessEqual, {MaskSide::kIndex, {}}, {MaskSide::kIndex, {}}, -ir::intArg(n, "diagonal", 0)};
  return meaning(bothHold(std::move(of.formula), {{c}}), of.finite);
}

std::optional<MaskSide> MaskReader::side(ValueId v, bool row) {
  const ir::Value& x = value(v);
  if (const auto l = line(v); l && l->slope == 1 && l->axis == (row ? 2 : 1)) return MaskSide{MaskSide::kIndex, {}};
  if (ir::isFloating(x.dtype) || ir::isComplex(x.dtype)) return std::nullopt;
  return MaskSide{MaskSide::kVector, {v, {}}};
}

std::optional<MaskReader::Sum> MaskReader::sum(ValueId v, int depth) {
  const ir::Value& x = value(v);
  if (depth > 8) return std::nullopt;
  if (const auto l = line(v); l && (l->slope == 0 || (l->slope == 1 && l->axis <= 2))) {
    Sum out;
    out.offset = l->offset;
    if (l->slope == 1 && l->axis == 2) out.row.kind = MaskSide::kIndex, out.row_sign = 1;
    if (l->slope == 1 && l->axis == 1) out.column.kind = MaskSide::kIndex, out.column_sign = 1;
    return out;
  }
  if (!(variesByRow(x) && variesByColumn(x))) {
    const bool row = variesByRow(x);
    const auto s = side(v, row);
    if (!s || s->kind != MaskSide::kVector) return std::nullopt;
    Sum out;
    (row ? out.row : out.column) = *s;
    (row ? out.row_sign : out.column_sign) = 1;
    return out;
  }
  const Node* n = producer(v);
  if (!n || ir::isFloating(x.dtype)) return std::nullopt;
  const std::string_view base = ir::baseName(n->op);
  const ValueId self = ir::useArg(*n, "self"), other = ir::useArg(*n, "other");
  const bool minus = base == "sub";
  if ((minus || base == "add") && self != kNone && ir::doubleArg(*n, "alpha", 1) == 1) {
    auto a = sum(self, depth + 1);
    std::optional<Sum> b;
    if (other != kNone) b = sum(other, depth + 1);
    else if (const auto c = wholeNumber(*n, "other")) b = Sum{{}, {}, 0, 0, *c};
    if (!a || !b) return std::nullopt;
    const int sign = minus ? -1 : 1;
    if ((a->row_sign != 0 && b->row_sign != 0) || (a->column_sign != 0 && b->column_sign != 0)) return std::nullopt;
    if (b->row_sign != 0) a->row = b->row, a->row_sign = sign * b->row_sign;
    if (b->column_sign != 0) a->column = b->column, a->column_sign = sign * b->column_sign;
    a->offset += sign * b->offset;
    return a;
  }
  if (base == "neg" && self != kNone) {
    auto a = sum(self, depth + 1);
    if (a) a->row_sign = -a->row_sign, a->column_sign = -a->column_sign, a->offset = -a->offset;
    return a;
  }
  const bool keeps = oneOf(base, {"to", "_to_copy", "alias", "clone", "contiguous", "detach"}) ||
                     (oneOf(base, {"expand", "expand_as"}) && fromEnd(value(self), 1) == fromEnd(x, 1) && fromEnd(value(self), 2) == fromEnd(x, 2));
  if (keeps && self != kNone) return sum(self, depth + 1);
  if (base == "unsqueeze" && self != kNone) {
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    const std::int64_t d = ir::intArg(*n, "dim", 0), end = rank - (d < 0 ? d + rank : d);
    if (end <= 2) return std::nullopt;
    auto a = sum(self, depth + 1);
    if (a)
      for (MaskSide* s : {&a->row, &a->column})
        if (s->kind == MaskSide::kVector) s->vector.steps.push_back({MaskVector::Step::kUnsqueeze, {end}});
    return a;
  }
  return std::nullopt;
}

MaskReader::Answer MaskReader::compareSum(const Sum& s, MaskTerm::Compare compare, ValueId at) {
  // row - column + offset <compare> 0 is row <compare> column - offset.
  MaskCompare c{compare, s.row, s.column, -s.offset};
  if (s.row_sign < 0 || (s.row_sign == 0 && s.column_sign > 0)) c.compare = ir::mirrored(compare), c.offset = s.offset;
  if (s.row_sign != 0 && s.row_sign == s.column_sign) return unknown(at, "compares the sum of two positions");
  return meaning(bothHold({{c}}, {}));
}

MaskReader::Answer MaskReader::comparison(const Node& n, ValueId v) {
  const MaskTerm::Compare compare = *compareOf(ir::baseName(n.op));
  const ValueId self = ir::useArg(n, "self"), other = ir::useArg(n, "other");
  if (self == kNone) return unknown(v, "compares nothing");
  const std::optional<double> constant = other != kNone ? number(other) : number(n, "other");
  // Zeros and ones, or whatever is asked only for being zero.
  if (constant && (*constant == 0 || (*constant == 1 && binary(self))) && (compare == MaskTerm::kEqual || compare == MaskTerm::kNotEqual) &&
      variesByRow(value(self)) && variesByColumn(value(self)) && !sum(self)) {
    SP_ASSIGN(const MaskMeaning inner, ask(self, Question::kTruth));
    if ((*constant == 0) == (compare == MaskTerm::kNotEqual)) return inner;
    auto out = neverHolds(inner.formula);
    if (!out) return unknown(v, "joins too many conditions");
    return meaning(std::move(*out));
  }
  // |a - b| < c is a - b < c and a - b > -c.
  const Node* inner = producer(self);
  if (inner && ir::baseName(inner->op) == "abs" && constant && std::floor(*constant) == *constant) {
    auto s = sum(ir::useArg(*inner, "self"));
    if (!s) return unknown(v, "compares what is no difference of positions");
    const auto limit = static_cast<std::int64_t>(*constant);
    Sum low = *s, high = *s;
    high.offset -= limit, low.offset += limit;
    SP_ASSIGN(const MaskMeaning above, compareSum(high, compare, v));
    SP_ASSIGN(const MaskMeaning below, compareSum(low, ir::mirrored(compare), v));
    if (compare == MaskTerm::kLess || compare == MaskTerm::kLessEqual) return meaning(bothHold(above.formula, below.formula));
    auto out = eitherHolds(above.formula, below.formula);
    if (!out || compare == MaskTerm::kEqual || compare == MaskTerm::kNotEqual) return unknown(v, "compares a distance");
    return meaning(std::move(*out));
  }
  auto a = sum(self);
  std::optional<Sum> b;
  if (other != kNone) b = sum(other);
  else if (constant && std::floor(*constant) == *constant && std::fabs(*constant) < 1e15) b = Sum{{}, {}, 0, 0, static_cast<std::int64_t>(*constant)};
  if (!a || !b) return unknown(v, "compares what is no sum of one number per query and one per key");
  if ((a->row_sign != 0 && b->row_sign != 0) || (a->column_sign != 0 && b->column_sign != 0))
    return unknown(v, "compares two numbers of the same query or key");
  if (b->row_sign != 0) a->row = b->row, a->row_sign = -b->row_sign;
  if (b->column_sign != 0) a->column = b->column, a->column_sign = -b->column_sign;
  a->offset -= b->offset;
  return compareSum(*a, compare, v);
}

bool MaskReader::binary(ValueId v, int depth) {
  if (value(v).dtype == ir::DType::kBool) return true;
  if (const auto same = number(v)) return *same == 0 || *same == 1;
  const Node* n = producer(v);
  if (!n || depth > 16) return false;
  const std::string_view base = ir::baseName(n->op);
  const ValueId self = ir::useArg(*n, "self");
  if (self == kNone) return false;
  if (oneOf(base, {"to", "_to_copy", "alias", "clone", "contiguous", "detach", "expand", "unsqueeze", "view", "reshape", "slice", "tril", "triu"}))
    return binary(self, depth + 1);
  if (base == "rsub") return number(*n, "other") == 1.0 && binary(self, depth + 1);
  if (base == "mul" && ir::useArg(*n, "other") != kNone) return binary(self, depth + 1) && binary(ir::useArg(*n, "other"), depth + 1);
  return false;
}

}  // namespace spscope::passes
