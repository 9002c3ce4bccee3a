// SPDX-License-Identifier: Apache-2.0
#include "core/ir/mask_rule.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::ir {

bool holds(MaskTerm::Compare compare, std::int64_t a, std::int64_t b) {
  switch (compare) {
    case MaskTerm::kLess: return a < b;
    case MaskTerm::kLessEqual: return a <= b;
    case MaskTerm::kEqual: return a == b;
    case MaskTerm::kNotEqual: return a != b;
    case MaskTerm::kGreater: return a > b;
    case MaskTerm::kGreaterEqual: return a >= b;
  }
  return false;
}

MaskTerm::Compare negated(MaskTerm::Compare compare) {
  switch (compare) {
    case MaskTerm::kLess: return MaskTerm::kGreaterEqual;
    case MaskTerm::kLessEqual: return MaskTerm::kGreater;
    case MaskTerm::kEqual: return MaskTerm::kNotEqual;
    case MaskTerm::kNotEqual: return MaskTerm::kEqual;
    case MaskTerm::kGreater: return MaskTerm::kLessEqual;
    case MaskTerm::kGreaterEqual: return MaskTerm::kLess;
  }
  return compare;
}

MaskTerm::Compare mirrored(MaskTerm::Compare compare) {
  switch (compare) {
    case MaskTerm::kLess: return MaskTerm::kGreater;
    case MaskTerm::kLessEqual: return MaskTerm::kGreaterEqual;
    case MaskTerm::kGreater: return MaskTerm::kLess;
    case MaskTerm::kGreaterEqual: return MaskTerm::kLessEqual;
    default: return compare;
  }
}

Dims encodeMask(const MaskRule& rule) {
  Dims out;
  for (const MaskTerm& t : rule)
    for (const std::int64_t n : {t.clause, static_cast<std::int64_t>(t.compare), t.row, t.column, t.offset}) out.push_back(n);
  return out;
}

std::optional<MaskRule> decodeMask(const Dims& numbers, std::int64_t rows, std::int64_t columns) {
  if (numbers.size() % 5 != 0) return std::nullopt;
  MaskRule out;
  std::int64_t clause = 0;
  for (std::size_t i = 0; i < numbers.size(); i += 5) {
    const std::int64_t compare = numbers[i + 1], row = numbers[i + 2], column = numbers[i + 3], offset = numbers[i + 4];
    const bool next = i == 0 ? numbers[i] == 0 : numbers[i] == clause || numbers[i] == clause + 1;
    constexpr std::int64_t kFarthest = std::int64_t{1} << 60;  // sums with positions stay numbers
    if (!next || compare < 0 || compare > MaskTerm::kGreaterEqual || row < MaskTerm::kIndex || row >= rows || column < MaskTerm::kIndex ||
        column >= columns || offset < -kFarthest || offset > kFarthest)
      return std::nullopt;
    clause = numbers[i];
    out.push_back({clause, static_cast<MaskTerm::Compare>(compare), row, column, offset});
  }
  return out;
}

std::string describeMask(const MaskRule& rule) {
  std::vector<std::string> kinds;
  for (std::size_t begin = 0; begin < rule.size();) {
    std::size_t end = begin;
    while (end < rule.size() && rule[end].clause == rule[begin].clause) ++end;
    const MaskTerm& t = rule[begin];
    const bool both = t.row != MaskTerm::kZero && t.column != MaskTerm::kZero;
    const bool up = t.compare == MaskTerm::kGreater || t.compare == MaskTerm::kGreaterEqual;
    const bool down = t.compare == MaskTerm::kLess || t.compare == MaskTerm::kLessEqual;
    std::string kind;
    if (end - begin > 1) kind = strf("one of %zu", end - begin);
    else if (!both) kind = "padding";
    else if (up) kind = t.fixed() && t.offset + (t.compare == MaskTerm::kGreater) != 0 ? "band" : "causal";
    else if (down) kind = t.fixed() ? strf("window of %lld", static_cast<long long>(t.offset + (t.compare == MaskTerm::kLessEqual))) : "window";
    else if (t.compare == MaskTerm::kEqual) kind = "document";
    else kind = "other";
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    begin = end;
  }
  return kinds.empty() ? "none" : join(kinds, ", ");
}

}  // namespace spscope::ir
