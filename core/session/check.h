// SPDX-License-Identifier: Apache-2.0
// The check request: a compiled step against a budget and against the figures of an earlier one. A gate for CI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/session/check_budget.h"
#include "core/session/verify.h"

namespace spscope::session {

/// Where a measure comes from: the node that adds most to it, or one of those that it counts.
struct MeasurePlace {
  std::string node, source, reason;
};

/// A figure of a compiled step that a budget may limit; of the rank with the highest predicted peak.
struct Measure {
  std::string name;     ///< as in the budget
  std::string meaning;  ///< for help and docs
  bool bytes = false;   ///< else a count
  std::int64_t (*value)(const CompileOutcome&) = nullptr;
  std::vector<MeasurePlace> (*places)(const CompileOutcome&) = nullptr;  ///< worst first; may be empty
};
const std::vector<Measure>& measures();

/// The figures of an earlier check or compile.
struct Baseline {
  std::string path;
  std::vector<std::pair<std::string, std::int64_t>> values;      ///< by measure; those that the file holds
  std::vector<std::pair<std::string, std::string>> settings;    ///< "sp": "4", ...
};
/// Reads the JSON object of `spscope check --json`. Errors: file-missing, file-unreadable, baseline-unreadable.
Result<Baseline> readBaseline(const std::string& path);

struct RuleResult {
  std::string name;    ///< "peak", "peak growth", "gradients"
  std::string limit, value;  ///< for people: "24.0 GiB", "+2 % of 20.0 GiB = 20.4 GiB"
  std::optional<std::int64_t> limit_number, value_number;  ///< counts or bytes
  bool ok = false;
  std::vector<MeasurePlace> places;  ///< of a broken rule, worst first
  std::int64_t line = 0;       ///< of the budget
};

/// The rule of a proof, held against what verify found.
RuleResult judgeProof(const BudgetRule& rule, const VerifyOutcome& proof);

struct CheckRequest {
  passes::Settings settings;
  Budget budget;
  std::optional<Baseline> baseline;
  bool allow_replicated = false;
  DataRequest data;   ///< for a proof
  OpenRequest open;
};

struct CheckOutcome {
  CompileOutcome compiled;
  std::vector<RuleResult> rules;
  std::vector<std::pair<std::string, std::string>> settings;  ///< that a later check compares itself with
  bool ok = false;
};

/// Errors: those of compile and, where the budget asks for a proof, of verify; nothing-sharded; baseline-missing (the budget
/// limits growth), baseline-other (made with other settings), baseline-unreadable (a measure is not in it).
Result<CheckOutcome> check(const Model& model, const CheckRequest& what, const Request& request);

}  // namespace spscope::session
