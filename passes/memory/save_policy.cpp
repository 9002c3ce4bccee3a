// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/save_policy.h"

#include <charconv>
#include <string>

namespace spscope::passes {
namespace {

Error refusal(std::string message) {
  Error error = makeError("setting-save", std::move(message), Outcome::kUsage);
  error.legal = "--save all, sac, min-cut, layer-inputs or budget=F with F from 0 (least memory) to 1 (as all)";
  return error;
}

}  // namespace

Result<SavePolicy> parseSavePolicy(std::string_view text) {
  using Kind = SavePolicy::Kind;
  if (text == "all") return SavePolicy{Kind::kAll, 1};
  if (text == "sac") return SavePolicy{Kind::kSac, 1};
  if (text == "min-cut") return SavePolicy{Kind::kMinCut, 1};
  if (text == "layer-inputs") return SavePolicy{Kind::kLayerInputs, 1};
  const std::string shown = "--save " + std::string(text) + ": ";
  constexpr std::string_view kBudget = "budget";
  if (text.substr(0, kBudget.size()) != kBudget) return refusal(shown + "no memory policy has this name");
  if (text.size() == kBudget.size() || text[kBudget.size()] != '=') return refusal(shown + "a budget is given as budget=0.5");
  const std::string_view number = text.substr(kBudget.size() + 1);
  double budget = 0;
  const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), budget);
  if (failed != std::errc() || end != number.data() + number.size())
    return refusal(shown + "'" + std::string(number) + "' is no number");
  // Written so that a NaN, which from_chars reads, is outside too.
  if (!(budget >= 0 && budget <= 1)) return refusal(shown + "a budget is a share from 0 to 1");
  return SavePolicy{Kind::kBudget, budget};
}

}  // namespace spscope::passes
