// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes of an exported program: sympy's srepr text ("Mul(Integer(8), Symbol('s38', positive=True))"), parsed
// to a tree and evaluated exactly with the lengths that the user chose. Heads that we do not know make the whole
// expression opaque: it can then only have its hint, the value at export.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spscope::io {

using SymBindings = std::map<std::string, std::int64_t, std::less<>>;

class SymExpr {
 public:
  /// Errors: sym-syntax (what and where). Nesting deeper than 200 and texts of over 100000 tokens are refused.
  static Result<SymExpr> parse(std::string_view srepr);

  /// Integer value under the bindings. nullopt: an unbound symbol, an unknown head, a value that is no integer, a
  /// division by zero or an overflow of 64 bits.
  std::optional<std::int64_t> evaluate(const SymBindings& bindings) const;
  /// Value of `symbol` for which the expression becomes `wanted`, others bound; only for expressions that are linear
  /// in it.
  std::optional<std::int64_t> solve(std::string_view symbol, std::int64_t wanted, const SymBindings& bindings) const;
  /// Names of its symbols, each once, in order of appearance.
  const std::vector<std::string>& symbols() const { return symbols_; }
  /// The symbol's name where the expression is one symbol, else "".
  std::string_view asSymbol() const;
  /// "8*s38 + 1": for people.
  std::string str() const;

  struct Node;  // implementation

 private:
  std::shared_ptr<const Node> root_;
  std::vector<std::string> symbols_;
};

}  // namespace spscope::io
