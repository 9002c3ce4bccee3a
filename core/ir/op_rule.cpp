// SPDX-License-Identifier: Apache-2.0
#include "core/ir/op_rule.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/strings.h"

namespace spscope::ir {
namespace {

const std::string kRest = "...";

bool contains(const std::vector<std::string>& list, std::string_view name) { return std::find(list.begin(), list.end(), name) != list.end(); }

bool isName(std::string_view word) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !word.empty() && letter(word.front()) &&
         std::all_of(word.begin(), word.end(), [&](char c) { return letter(c) || c == '_' || (c >= '0' && c <= '9'); });
}

Error badDims(std::string message) { return makeError("rule-dims", std::move(message), Outcome::kUsage); }

Result<DimNames> parseTensor(std::string_view text) {
  DimNames out;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    if (word != "_" && word != kRest && !isName(word)) return badDims("'" + word + "' is no name of a dimension");
    if (word == kRest && !out.empty()) return badDims("... stands for leading dimensions: it comes first");
    if (word != "_" && contains(out, word)) return badDims("a tensor has the dimension " + word + " twice");
    out.push_back(word);
  }
  return out;
}

Result<std::vector<DimNames>> parseTensors(std::string_view text) {
  std::vector<DimNames> out;
  for (const std::string& tensor : split(text, ',')) {
    SP_ASSIGN(DimNames names, parseTensor(tensor));
    out.push_back(std::move(names));
  }
  return out;
}

/// Names of a tensor with `rank` dims; nullopt where the rule has another number of them. The dimensions that `...`
/// stands for are counted from the last, so that they meet those of tensors with fewer.
std::optional<DimNames> written(const DimNames& names, std::size_t rank) {
  const bool rest = !names.empty() && names.front() == kRest;
  const std::size_t fixed = names.size() - (rest ? 1 : 0);
  if (rest ? rank < fixed : rank != fixed) return std::nullopt;
  DimNames out;
  for (std::size_t i = rank - fixed; i-- > 0;) out.push_back(strf("...%zu", i));
  out.insert(out.end(), names.begin() + (rest ? 1 : 0), names.end());
  return out;
}

}  // namespace

std::string OpRule::shownName() const {
  const std::string& text = op.str();
  const std::size_t dot = text.find('.');
  std::string out = text.substr(0, dot) + "::" + text.substr(dot + 1);
  if (out.ends_with(".default")) out.resize(out.size() - std::string_view(".default").size());
  return out;
}

bool OpRule::isCuttable(std::string_view name) const {
  if (name.starts_with(kRest)) name = kRest;
  return name != "_" && !contains(whole, name) && !contains(ordered, name);
}

int BoundRule::dimOf(const DimNames& names, std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? -1 : static_cast<int>(it - names.begin());
}

Result<OpRule> parseDims(std::string_view dims) {
  const std::size_t arrow = dims.find("->");
  if (arrow == std::string_view::npos) return badDims("no -> between the operands and the results");
  OpRule out;
  out.dims = std::string(dims);
  SP_ASSIGN(out.operands, parseTensors(dims.substr(0, arrow)));
  SP_ASSIGN(out.results, parseTensors(dims.substr(arrow + 2)));
  return out;
}

Status checkRule(const OpRule& rule) {
  std::set<std::string> operands;
  for (const DimNames& names : rule.operands) operands.insert(names.begin(), names.end());
  for (const auto* list : {&rule.whole, &rule.ordered, &rule.sum})
    for (const std::string& name : *list)
      if (name == "_" || operands.count(name) == 0) return badDims("no operand has a dimension " + name);
  for (const std::string& name : operands) {
    if (!rule.isCuttable(name)) {
      if (contains(rule.sum, name)) return badDims(name + " cannot be whole and add up");
      continue;
    }
    const auto has = [&](const DimNames& names) { return contains(names, name); };
    const bool all = std::all_of(rule.results.begin(), rule.results.end(), has);
    if (contains(rule.sum, name)) {
      if (all) return badDims("all results have the dimension " + name + ": nothing adds up");
    } else if (!all) {
      return badDims("a result lacks the dimension " + name + ": say that it is whole, or that its blocks add up (sum)");
    }
  }
  return {};
}

Result<BoundRule> bind(const OpRule& rule, const Graph& graph, const Node& node) {
  const auto fail = [&](std::string message) {
    Error e = makeError("rule-mismatch", "the rule \"" + rule.dims + "\" of " + rule.shownName() + " does not fit: " + std::move(message));
    e.node = "%" + node.name;
    e.source = rule.place;
    return e;
  };
  BoundRule out;
  std::map<std::string, std::int64_t> sizes;
  const auto take = [&](const DimNames& names, ValueId v, const char* what, std::vector<DimNames>& into) -> Status {
    const Dims& shape = graph.value(v).shape;
    const auto bound = written(names, shape.size());
    if (!bound) return fail(strf("%s %zu has %zu dimensions", what, into.size() + 1, shape.size()));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if ((*bound)[d] == "_" || shape[d] == 1) continue;
      const auto [it, fresh] = sizes.try_emplace((*bound)[d], shape[d]);
      if (!fresh && it->second != shape[d])
        return fail(strf("%s is %lld and %lld", (*bound)[d].c_str(), static_cast<long long>(it->second), static_cast<long long>(shape[d])));
    }
    into.push_back(*bound);
    return {};
  };
  std::vector<ValueId> operands;
  forEachUse(node, [&](const Use& use) { operands.push_back(use.value); });
  if (operands.size() != rule.operands.size()) return fail(strf("the op has %zu tensors as operands", operands.size()));
  for (std::size_t i = 0; i < operands.size(); ++i) SP_TRY(take(rule.operands[i], operands[i], "operand", out.operands));
  if (node.outputs.size() != rule.results.size()) return fail(strf("the op has %zu results", node.outputs.size()));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNone) SP_TRY(take(rule.results[i], node.outputs[i], "result", out.results));
    else out.results.emplace_back();
  }
  return out;
}

const OpRule* OpRules::find(Symbol op) const {
  const auto it = std::find_if(rules.begin(), rules.end(), [&](const OpRule& r) { return r.op == op; });
  return it == rules.end() ? nullptr : &*it;
}

}  // namespace spscope::ir
