// SPDX-License-Identifier: Apache-2.0
#include "core/ir/text_reader.h"

#include <charconv>
#include <limits>

namespace spscope::ir {

Error TokenReader::expected(const std::string& what) const {
  if (token_.kind == Tok::kEnd) return wrong(token_, "expected " + what + ", but the text ends");
  if (token_.kind == Tok::kBad && token_.text.substr(0, 1) == "\"")
    return wrong(token_, "text in quotes does not end on its line");
  return wrong(token_, "expected " + what);
}

Result<std::int64_t> TokenReader::integer() {
  if (token_.kind != Tok::kInt) return expected("an integer");
  std::int64_t value = 0;
  const char* end = token_.text.data() + token_.text.size();
  if (const auto r = std::from_chars(token_.text.data(), end, value); r.ec != std::errc() || r.ptr != end)
    return wrong(token_, "integer does not fit 64 bits");
  advance();
  return value;
}

Result<std::int64_t> TokenReader::integer(std::string_view what, std::int64_t low, std::int64_t high) {
  const Token at = token_;
  SP_ASSIGN(const std::int64_t value, integer());
  if (value < low || value > high)
    return wrong(at, std::string(what) + " must be from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

Result<double> TokenReader::real() {
  if (takeWord("inf")) return std::numeric_limits<double>::infinity();
  if (takeWord("nan")) return std::numeric_limits<double>::quiet_NaN();
  if (token_.kind != Tok::kReal && token_.kind != Tok::kInt) return expected("a number");
  double value = 0;
  const char* end = token_.text.data() + token_.text.size();
  if (const auto r = std::from_chars(token_.text.data(), end, value); r.ec != std::errc() || r.ptr != end)
    return wrong(token_, "number does not fit a double");
  advance();
  return value;
}

Result<std::string> TokenReader::string() {
  if (token_.kind != Tok::kString) return expected("text in quotes");
  std::string out;
  if (!unquote(token_.text, &out)) return wrong(token_, "unknown escape in text (known: \\\" \\\\ \\n \\t \\r \\xNN)");
  advance();
  return out;
}

Result<std::string> TokenReader::wordOrString(std::string_view what) {
  if (token_.kind == Tok::kString) return string();
  if (token_.kind != Tok::kWord) return expected(std::string(what));
  std::string out(token_.text);
  advance();
  return out;
}

Result<Dims> TokenReader::intList() {
  SP_TRY(need('['));
  Dims out;
  SP_TRY(listUntil(']', [&]() -> Status {
    SP_ASSIGN(const std::int64_t n, integer());
    out.push_back(n);
    return {};
  }));
  return out;
}

}  // namespace spscope::ir
