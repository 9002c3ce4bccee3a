// SPDX-License-Identifier: Apache-2.0
#include "core/io/sym_scalars.h"

#include <cmath>

#include "core/io/int128.h"

namespace spscope::io {
namespace {

bool isFloat(const Scalar& s) { return std::holds_alternative<double>(s); }
double asReal(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<double>(v); }, s);
}
std::int64_t asWhole(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<std::int64_t>(v); }, s);
}

std::optional<Scalar> whole(Int128 v) {
  if (v > INT64_MAX || v < INT64_MIN) return std::nullopt;
  return Scalar(static_cast<std::int64_t>(v));
}

std::optional<Scalar> floorDiv(std::int64_t a, std::int64_t b) {
  if (b == 0) return std::nullopt;
  const auto n = static_cast<Int128>(a), m = static_cast<Int128>(b);
  return whole(n / m - ((n % m != 0 && (n < 0) != (m < 0)) ? 1 : 0));
}

std::optional<Scalar> toWhole(double v) {
  // Beyond 2^53 a double is no exact size any more.
  if (!std::isfinite(v) || std::fabs(v) > 9007199254740992.0) return std::nullopt;
  return Scalar(static_cast<std::int64_t>(v));
}

std::optional<Scalar> integerPower(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return Scalar(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  if (exponent > 64) return std::nullopt;
  Int128 v = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    v *= base;
    if (v > INT64_MAX || v < INT64_MIN) return std::nullopt;
  }
  return whole(v);
}

std::optional<Scalar> binary(std::string_view op, const Scalar& a, const Scalar& b) {
  const bool real = isFloat(a) || isFloat(b);
  const double x = asReal(a), y = asReal(b);
  const std::int64_t i = asWhole(real ? Scalar(std::int64_t{0}) : a), j = asWhole(real ? Scalar(std::int64_t{0}) : b);
  const auto n = static_cast<Int128>(i), m = static_cast<Int128>(j);
  if (op == "add" || op == "iadd") return real ? std::optional<Scalar>(x + y) : whole(n + m);
  if (op == "sub" || op == "isub") return real ? std::optional<Scalar>(x - y) : whole(n - m);
  if (op == "mul" || op == "imul") return real ? std::optional<Scalar>(x * y) : whole(n * m);
  if (op == "truediv") return y == 0 ? std::nullopt : std::optional<Scalar>(x / y);
  if (op == "floordiv") {
    if (real) return y == 0 ? std::nullopt : std::optional<Scalar>(std::floor(x / y));
    return floorDiv(i, j);
  }
  if (op == "mod") {
    if (y == 0) return std::nullopt;
    if (real) return Scalar(x - y * std::floor(x / y));
    const auto q = floorDiv(i, j);
    return q ? whole(n - static_cast<Int128>(asWhole(*q)) * m) : std::nullopt;
  }
  if (op == "pow") return real ? std::optional<Scalar>(std::pow(x, y)) : integerPower(i, j);
  if (op == "eq") return Scalar(real ? x == y : i == j);
  if (op == "ne") return Scalar(real ? x != y : i != j);
  if (op == "lt") return Scalar(real ? x < y : i < j);
  if (op == "le") return Scalar(real ? x <= y : i <= j);
  if (op == "gt") return Scalar(real ? x > y : i > j);
  if (op == "ge") return Scalar(real ? x >= y : i >= j);
  if (op == "and_" || op == "or_") {
    const bool bools = std::holds_alternative<bool>(a) && std::holds_alternative<bool>(b);
    if (real) return std::nullopt;
    const std::int64_t v = op == "and_" ? (i & j) : (i | j);
    return bools ? Scalar(v != 0) : Scalar(v);
  }
  if (op == "sym_max") return real ? Scalar(x > y ? x : y) : Scalar(i > j ? i : j);
  if (op == "sym_min") return real ? Scalar(x < y ? x : y) : Scalar(i < j ? i : j);
  return std::nullopt;
}

std::optional<Scalar> unary(std::string_view op, const Scalar& a) {
  const bool real = isFloat(a);
  if (op == "neg") return real ? std::optional<Scalar>(-asReal(a)) : whole(-static_cast<Int128>(asWhole(a)));
  if (op == "pos" || op == "index") return a;
  if (op == "not_" || op == "sym_not") return Scalar(asReal(a) == 0);
  if (op == "sym_int" || op == "trunc") return real ? toWhole(std::trunc(asReal(a))) : a;
  if (op == "floor") return real ? toWhole(std::floor(asReal(a))) : a;
  if (op == "ceil") return real ? toWhole(std::ceil(asReal(a))) : a;
  if (op == "round") return real ? toWhole(std::nearbyint(asReal(a))) : a;
  if (op == "sym_float") return Scalar(asReal(a));
  if (op == "_sym_sqrt" || op == "sym_sqrt" || op == "sqrt") return Scalar(std::sqrt(asReal(a)));
  if (op == "abs") return real ? std::optional<Scalar>(std::fabs(asReal(a)))
                               : whole(asWhole(a) < 0 ? -static_cast<Int128>(asWhole(a)) : asWhole(a));
  return std::nullopt;
}

}  // namespace

bool isScalarTarget(std::string_view target) {
  return target.substr(0, 10) == "_operator." || target.substr(0, 5) == "math." || target.substr(0, 10) == "torch.sym_" ||
         target.substr(0, 11) == "torch._sym_" || target.substr(0, 9) == "builtins.";
}

std::optional<Scalar> evaluateScalar(std::string_view target, const std::vector<Scalar>& operands) {
  const std::string_view op = target.substr(target.rfind('.') + 1);
  if (operands.size() == 1) return unary(op, operands[0]);
  if (operands.size() == 2) return binary(op, operands[0], operands[1]);
  return std::nullopt;
}

}  // namespace spscope::io
