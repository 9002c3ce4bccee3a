// SPDX-License-Identifier: Apache-2.0
// The budget of `spscope check`: a small TOML file of limits.
//
//   [limits]                      # largest value allowed; counts, or bytes as a number or "24 GiB"
//   gathers = 0
//   all_to_all = 32
//   peak = "24 GiB"
//   [growth]                      # how much more than the baseline's is allowed
//   peak = "2 %"
//   saved = 0                     # the same as "0 %"
//   [proof]
//   gradients = "equal"           # the step is run and compared, as `spscope verify` does
//
// The names of limits and growths are those of measures() in check.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spscope::session {

struct BudgetRule {
  enum class Kind : std::uint8_t { kLimit, kGrowth, kProof };
  Kind kind = Kind::kLimit;
  std::string measure;       ///< "peak"; of a proof: "gradients"
  std::int64_t limit = 0;    ///< kLimit: in the measure's unit
  double growth = 0.0;       ///< kGrowth: 0.02 for "2 %"
  std::string text;          ///< the limit as it was written
  std::int64_t line = 0;     ///< in the file
};

struct Budget {
  std::string path;
  std::vector<BudgetRule> rules;  ///< in the order of the file's lines
  bool needsBaseline() const;
  bool needsProof() const;
};

/// Errors: file-missing, file-unreadable, budget-syntax (place, reason), budget-key (with what is known), budget-value,
/// budget-empty.
Result<Budget> readBudget(const std::string& path);
/// The same from text; `path` only names it.
Result<Budget> parseBudget(const std::string& path, const std::string& text);

}  // namespace spscope::session
