// SPDX-License-Identifier: Apache-2.0
// Placement rules that a user states for ops which the built-in table does not know: which dimensions of operands and
// results are the same one, and what may be cut. Read by core/session/rule_file, put to the test by core/torch/rule_check,
// followed by passes/sequence/rules_declared.
//
// "b s h d, s d -> b s h d": an operand's dimensions are names, the same name is the same dimension. `_` is a dimension of
// its own that is never cut, `...` stands for leading dimensions (right-aligned, as in broadcasting). A name may be cut where
// the op gives, on a block along it, the block of its results: unless it is listed as `whole` or `ordered`. A name that some
// result lacks must be `whole`, `ordered`, or listed in `sum`: what blocks give for that result then adds up to the op's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/symbol.h"
#include "core/ir/graph.h"

namespace spscope::ir {

using DimNames = std::vector<std::string>;  ///< of one tensor; "_" for a dimension of its own

struct OpRule {
  Symbol op;                       ///< "mylib.fused_rope.default"
  std::string dims;                ///< as written
  std::vector<DimNames> operands;  ///< of the tensor operands, in the order of the node's arguments
  std::vector<DimNames> results;
  std::vector<std::string> whole;    ///< names that must not be cut
  std::vector<std::string> ordered;  ///< likewise, because the place along them enters the result
  std::vector<std::string> sum;      ///< names that some result lacks: of it blocks give partial sums
  std::string equivalent;            ///< the op as a TorchScript function with the op's argument names; empty: the op's own kernel, if any
  std::string place;                 ///< "rules.toml:3", for messages

  /// The op's own name: "mylib::fused_rope".
  std::string shownName() const;
  bool isCuttable(std::string_view name) const;
};

/// A rule with `...` written out for the tensors of one node.
struct BoundRule {
  std::vector<DimNames> operands, results;
  /// Dimension of operand or result `names` that is called so; -1: none.
  static int dimOf(const DimNames& names, std::string_view name);
};

/// "b s h d, s d -> b s h d" into names. The error is its message only.
Result<OpRule> parseDims(std::string_view dims);
/// What the lists say about each other and the dimensions: names that nothing has, results that lack a name which may be cut.
Status checkRule(const OpRule& rule);
/// Errors: rule-mismatch where the node has other tensors than the rule, or equal names have different sizes (1 fits any).
Result<BoundRule> bind(const OpRule& rule, const Graph& graph, const Node& node);

/// The rules of one file, immutable.
struct OpRules {
  std::string path;
  std::string text;  ///< of the file: part of the plan's hash
  std::vector<OpRule> rules;
  const OpRule* find(Symbol op) const;
};
using OpRulesRef = std::shared_ptr<const OpRules>;  ///< may be null: no rules

}  // namespace spscope::ir
