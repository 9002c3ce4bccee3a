// SPDX-License-Identifier: Apache-2.0
// Types and sizes as the exporter writes them: its own dtype codes, symbolic sizes, tensor metadata; and the table of
// symbols that turns sizes into numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/io/json.h"
#include "core/io/sym_expr.h"
#include "core/ir/graph.h"

namespace spscope::io {

/// The exporter's dtype code (not c10::ScalarType). kUnknown for codes that we do not know.
ir::DType dtypeOfCode(std::int64_t code);

/// Values of the file's symbols, and sizes under them. Expressions repeat thousands of times: each text is parsed and
/// evaluated once. Texts must outlive the table.
class SymbolTable {
 public:
  /// Value of a {"as_int":n} or {"as_expr":{expr_str, hint}}; `what` names it in errors.
  /// Errors: size-unknown (data-dependent, or an unknown function away from the exported length), program-corrupt.
  Result<std::int64_t> size(const Json& sym_int, const std::string& what);
  /// {"as_expr"} or {"as_int"} of a dimension, parsed; nullopt where it is a plain number or unreadable.
  std::optional<SymExpr> expression(const Json& sym_int);
  /// Takes the hints of expressions that are a lone symbol.
  void learn(const Json& sym_int);
  /// Binds a symbol to another value than its hint; forgets what was evaluated before.
  void bind(const std::string& symbol, std::int64_t value);
  const SymBindings& bindings() const { return bindings_; }
  const SymBindings& hints() const { return hints_; }

 private:
  SymBindings bindings_, hints_;
  std::unordered_map<std::string_view, SymExpr> parsed_;
  std::unordered_map<std::string_view, std::int64_t> values_;
};

struct TensorMeta {
  ir::DType dtype = ir::DType::kUnknown;
  ir::Dims sizes;
  ir::Dims strides;
  std::int64_t offset = 0;
  bool requires_grad = false;
};
/// Whether bytes of such a tensor can be counted at all: no size negative, at most 2^58 elements.
bool isPossible(const ir::Dims& sizes);
/// Strides and offset are read only when asked for: activations do not need them.
Result<TensorMeta> readTensorMeta(const Json& json, SymbolTable& symbols, const std::string& what, bool with_strides);

}  // namespace spscope::io
