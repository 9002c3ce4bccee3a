// SPDX-License-Identifier: Apache-2.0
// And, or, not on the clauses of a mask (mask_algebra.h).
#include <algorithm>

#include "passes/sequence/mask_algebra.h"

namespace spscope::passes {
namespace {

constexpr std::size_t kMostTerms = 64;  ///< masks that people write have up to six

bool simplified(MaskClause& clause) {
  // A comparison of nothing with nothing is known: true makes the clause superfluous, false the comparison.
  MaskClause kept;
  for (MaskCompare& c : clause) {
    if (c.row.kind == MaskSide::kZero && c.column.kind == MaskSide::kZero) {
      if (ir::holds(c.compare, 0, c.offset)) return false;
      continue;
    }
    if (std::find(kept.begin(), kept.end(), c) == kept.end()) kept.push_back(std::move(c));
  }
  clause = std::move(kept);
  return true;
}

void add(MaskFormula& formula, MaskClause clause) {
  if (!simplified(clause) || std::find(formula.begin(), formula.end(), clause) != formula.end()) return;
  formula.push_back(std::move(clause));
}

bool tooLarge(const MaskFormula& formula) {
  std::size_t terms = 0;
  for (const MaskClause& c : formula) terms += c.size() + 1;
  return terms > kMostTerms;
}

}  // namespace

MaskFormula bothHold(MaskFormula a, const MaskFormula& b) {
  MaskFormula out;
  for (MaskClause& c : a) add(out, std::move(c));
  for (const MaskClause& c : b) add(out, c);
  return out;
}

std::optional<MaskFormula> eitherHolds(const MaskFormula& a, const MaskFormula& b) {
  MaskFormula out;
  for (const MaskClause& x : a)
    for (const MaskClause& y : b) {
      MaskClause both = x;
      both.insert(both.end(), y.begin(), y.end());
      add(out, std::move(both));
      if (tooLarge(out)) return std::nullopt;
    }
  return out;
}

std::optional<MaskFormula> neverHolds(const MaskFormula& a) {
  std::optional<MaskFormula> out = MaskFormula{{}};  // no clause is broken: never
  for (const MaskClause& clause : a) {
    MaskFormula broken;
    for (MaskCompare c : clause) {
      c.compare = ir::negated(c.compare);
      add(broken, {c});
    }
    out = eitherHolds(*out, broken);
    if (!out) return std::nullopt;
  }
  return out;
}

bool surelySeesItself(const MaskFormula& formula) {
  return std::all_of(formula.begin(), formula.end(), [](const MaskClause& clause) {
    return std::any_of(clause.begin(), clause.end(), [](const MaskCompare& c) {
      // The same index on both sides, or the same vector as row and as column cannot be told apart here: indices only.
      return c.row.kind == MaskSide::kIndex && c.column.kind == MaskSide::kIndex && ir::holds(c.compare, 0, c.offset);
    });
  });
}

}  // namespace spscope::passes
