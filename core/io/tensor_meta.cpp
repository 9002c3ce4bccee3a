// SPDX-License-Identifier: Apache-2.0
#include "core/io/tensor_meta.h"

#include "core/io/int128.h"

namespace spscope::io {

ir::DType dtypeOfCode(std::int64_t code) {
  using ir::DType;
  switch (code) {
    case 1: return DType::kU8;
    case 2: return DType::kI8;
    case 3: return DType::kI16;
    case 4: return DType::kI32;
    case 5: return DType::kI64;
    case 6: return DType::kF16;
    case 7: return DType::kF32;
    case 8: return DType::kF64;
    case 9: return DType::kC32;
    case 10: return DType::kC64;
    case 11: return DType::kC128;
    case 12: return DType::kBool;
    case 13: return DType::kBF16;
    case 28: return DType::kU16;
    case 29: return DType::kF8E4M3FN;
    case 30: return DType::kF8E5M2;
    case 31: return DType::kF8E4M3FNUZ;
    case 32: return DType::kF8E5M2FNUZ;
    case 33: return DType::kF8E8M0FNU;
    case 34: return DType::kU32;
    case 35: return DType::kU64;
    default: return DType::kUnknown;
  }
}

namespace {
struct ExprText {
  std::string_view text;
  std::optional<std::int64_t> hint;
};
std::optional<ExprText> exprOf(const Json& sym_int) {
  const auto expr = field(sym_int, "as_expr");
  const auto text = expr ? field(*expr, "expr_str") : std::nullopt;
  const auto s = text ? asText(*text) : std::nullopt;
  if (!s) return std::nullopt;
  ExprText out{*s, std::nullopt};
  if (const auto hint = field(*expr, "hint"))
    if (const auto n = field(*hint, "as_int")) out.hint = asInt(*n);
  return out;
}
}  // namespace

std::optional<SymExpr> SymbolTable::expression(const Json& sym_int) {
  const auto e = exprOf(sym_int);
  if (!e) return std::nullopt;
  if (const auto it = parsed_.find(e->text); it != parsed_.end()) return it->second;
  auto parsed = SymExpr::parse(e->text);
  if (!parsed) return std::nullopt;
  parsed_.emplace(e->text, *parsed);
  return *parsed;
}

void SymbolTable::learn(const Json& sym_int) {
  const auto e = exprOf(sym_int);
  if (!e || !e->hint) return;
  const auto parsed = expression(sym_int);
  if (!parsed) return;
  std::string name(parsed->asSymbol());
  std::int64_t value = *e->hint;
  if (name.empty() && parsed->symbols().size() == 1 && !hints_.contains(parsed->symbols()[0])) {
    const auto solved = parsed->solve(parsed->symbols()[0], value, {});
    if (!solved) return;
    name = parsed->symbols()[0];
    value = *solved;
  }
  if (name.empty()) return;
  if (hints_.try_emplace(name, value).second) bindings_.try_emplace(name, value);
}

void SymbolTable::bind(const std::string& symbol, std::int64_t value) {
  bindings_[symbol] = value;
  values_.clear();
}

Result<std::int64_t> SymbolTable::size(const Json& sym_int, const std::string& what) {
  const auto object = asObject(sym_int);
  if (object) {
    for (const auto& entry : *object) {
      if (entry.key == "as_int") {
        if (const auto n = asInt(entry.value)) return *n;
      }
    }
  }
  const auto e = exprOf(sym_int);
  if (!e) return makeError("program-corrupt", "a size of " + what + " is neither a number nor an expression");
  if (const auto it = values_.find(e->text); it != values_.end()) return it->second;
  learn(sym_int);
  const auto parsed = expression(sym_int);
  std::optional<std::int64_t> value = parsed ? parsed->evaluate(bindings_) : std::nullopt;
  // What we cannot evaluate still has the value at export, as long as every length is the exported one.
  if (!value && bindings_ == hints_) value = e->hint;
  if (!value) {
    const std::string text = parsed ? parsed->str() : std::string(e->text.substr(0, 80));
    return makeError("size-unknown", "a size of " + what + " is " + text + ", which is known " +
                                         (e->hint ? "only for the lengths at export" : "only when the model runs"));
  }
  values_.emplace(e->text, *value);
  return *value;
}

bool isPossible(const ir::Dims& sizes) {
  // Zeros count as ones: shapes derived from this one may not have them.
  Int128 n = 1;
  for (const auto d : sizes) {
    if (d < 0) return false;
    if (d > 1) n *= d;
    if (n > (static_cast<Int128>(1) << 58)) return false;
  }
  return true;
}

Result<TensorMeta> readTensorMeta(const Json& json, SymbolTable& symbols, const std::string& what, bool with_strides) {
  TensorMeta meta;
  const auto object = asObject(json);
  if (!object) return makeError("program-corrupt", "the metadata of " + what + " is no object");
  bool has_sizes = false;
  for (const auto& entry : *object) {
    const bool strides = entry.key == "strides";
    if (entry.key == "dtype") {
      meta.dtype = dtypeOfCode(asInt(entry.value).value_or(-1));
    } else if (entry.key == "requires_grad") {
      meta.requires_grad = asBool(entry.value).value_or(false);
    } else if (entry.key == "sizes" || (strides && with_strides)) {
      const auto list = asArray(entry.value);
      if (!list) return makeError("program-corrupt", "the sizes of " + what + " are no list");
      ir::Dims& dims = strides ? meta.strides : meta.sizes;
      for (const Json& item : *list) {
        SP_ASSIGN(const std::int64_t n, symbols.size(item, what));
        if (n < 0) return makeError("program-corrupt", what + " has a negative size");
        dims.push_back(n);
      }
      has_sizes = has_sizes || !strides;
    } else if (entry.key == "storage_offset" && with_strides) {
      SP_ASSIGN(meta.offset, symbols.size(entry.value, what));
    }
  }
  if (!has_sizes || meta.dtype == ir::DType::kUnknown)
    return makeError("program-corrupt", what + (has_sizes ? " has an element type that we do not know" : " has no sizes"));
  if (!isPossible(meta.sizes))
    return symbols.bindings() == symbols.hints() ? makeError("program-corrupt", what + " is impossibly large")
                              : makeError("length-too-large", what + " would have more elements than any machine can hold", Outcome::kUsage);
  return meta;
}

}  // namespace spscope::io
