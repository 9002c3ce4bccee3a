// SPDX-License-Identifier: Apache-2.0
#include "core/session/check_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/base/strings.h"
#include "core/session/check.h"
#include "core/session/toml_place.h"

namespace spscope::session {
namespace {

std::string written(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  std::ostringstream out;
  out << toml::node_view(node);
  return out.str();
}

/// "24 GiB" -> {24, "GiB"}; a number without a unit has an empty one. False where there is no number.
bool numberAndUnit(const std::string& text, double& number, std::string& unit) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  if (!(in >> number) || !std::isfinite(number)) return false;
  in >> unit;
  std::string rest;
  return !(in >> rest);
}

Result<std::int64_t> parseLimit(const toml::node& node, const Measure& measure, const std::string& path) {
  if (const auto* n = node.as_integer(); n && n->get() >= 0) return n->get();
  double number = 0;
  std::string unit;
  if (measure.bytes && node.is_string() && numberAndUnit(written(node), number, unit) && number >= 0) {
    static const std::vector<std::pair<std::string, double>> kUnits{{"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
    for (const auto& [name, bytes] : kUnits)
      if (unit == name && number * bytes < 9e18) return static_cast<std::int64_t>(std::floor(number * bytes));
  }
  Error e = errorAtToml("budget-value", strf("%s = %s is no limit", measure.name.c_str(), written(node).c_str()), path, node.source());
  e.legal = measure.bytes ? "a number of bytes, or a text like \"24 GiB\" (B, KiB, MiB, GiB, TiB)" : "a whole number from 0 on";
  return e;
}

Result<double> parseGrowth(const toml::node& node, const std::string& path) {
  double number = 0;
  std::string unit;
  if (node.is_string() && numberAndUnit(written(node), number, unit) && unit == "%" && number >= 0) return number / 100;
  if (const auto* n = node.as_integer(); n && n->get() == 0) return 0.0;
  Error e = errorAtToml("budget-value", strf("%s is no growth", written(node).c_str()), path, node.source());
  e.legal = "a text like \"2 %\"";
  return e;
}

const Measure* measureNamed(std::string_view name) {
  const auto& all = measures();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Measure& m) { return m.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Error unknownKey(const std::string& what, std::string_view key, std::vector<std::string> known, const std::string& path, const toml::source_region& where) {
  Error e = errorAtToml("budget-key", strf("no %s is called '%s'", what.c_str(), std::string(key).c_str()), path, where);
  if (const std::string near = nearest(key, known); !near.empty()) e.message += strf("; did you mean %s?", near.c_str());
  e.legal = join(known, ", ");
  return e;
}

std::vector<std::string> measureNames() {
  std::vector<std::string> out;
  for (const Measure& m : measures()) out.push_back(m.name);
  return out;
}

Result<BudgetRule> parseRule(const std::string& table, const toml::key& key, const toml::node& node, const std::string& path) {
  BudgetRule rule;
  rule.measure = std::string(key.str());
  rule.text = written(node);
  rule.line = key.source().begin.line;
  if (table == "proof") {
    rule.kind = BudgetRule::Kind::kProof;
    if (rule.measure != "gradients") return unknownKey("proof", key.str(), {"gradients"}, path, key.source());
    if (rule.text != "equal") {
      Error e = errorAtToml("budget-value", "gradients = " + rule.text + " is no proof", path, node.source());
      e.legal = "\"equal\"";
      return e;
    }
    return rule;
  }
  const Measure* measure = measureNamed(key.str());
  if (measure == nullptr) return unknownKey("measure", key.str(), measureNames(), path, key.source());
  if (table == "growth") {
    rule.kind = BudgetRule::Kind::kGrowth;
    SP_ASSIGN(rule.growth, parseGrowth(node, path));
  } else {
    SP_ASSIGN(rule.limit, parseLimit(node, *measure, path));
  }
  return rule;
}

}  // namespace

bool Budget::needsBaseline() const {
  return std::any_of(rules.begin(), rules.end(), [](const BudgetRule& r) { return r.kind == BudgetRule::Kind::kGrowth; });
}

bool Budget::needsProof() const {
  return std::any_of(rules.begin(), rules.end(), [](const BudgetRule& r) { return r.kind == BudgetRule::Kind::kProof; });
}

Result<Budget> readBudget(const std::string& path) {
  SP_ASSIGN(const std::string text, smallToml("budget-syntax", path, "a budget"));
  return parseBudget(path, text);
}

Result<Budget> parseBudget(const std::string& path, const std::string& text) {
  SP_ASSIGN(const toml::table tables, parsedToml("budget-syntax", path, text));
  Budget out;
  out.path = path;
  for (const auto& [name, node] : tables) {
    const std::string table(name.str());
    if (table != "limits" && table != "growth" && table != "proof") return unknownKey("part of a budget", table, {"limits", "growth", "proof"}, path, name.source());
    if (!node.is_table()) return errorAtToml("budget-value", table + " is a table: write [" + table + "]", path, node.source());
    for (const auto& [key, value] : *node.as_table()) {
      SP_ASSIGN(BudgetRule rule, parseRule(table, key, value, path));
      out.rules.push_back(std::move(rule));
    }
  }
  if (out.rules.empty()) return makeError("budget-empty", path + " holds no rule: everything would pass", Outcome::kUsage);
  std::stable_sort(out.rules.begin(), out.rules.end(), [](const BudgetRule& a, const BudgetRule& b) { return a.line < b.line; });
  return out;
}

}  // namespace spscope::session
