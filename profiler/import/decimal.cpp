// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/decimal.h"

#include <limits>

namespace spscope::trace {
namespace {

constexpr bool isDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
constexpr std::uint64_t kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

std::string_view bare(std::string_view text) {
  const auto trim = [&] {
    while (!text.empty() && isSpace(text.front())) text.remove_prefix(1);
    while (!text.empty() && isSpace(text.back())) text.remove_suffix(1);
  };
  trim();
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
    trim();
  }
  return text;
}

/// Any number: digits with a point at `point` (counted in digits), an exponent added to it.
Parsed scaledSlowly(std::string_view text, bool negative, int digits, std::int64_t* value) {
  std::int64_t point = -1, count = 0, exponent = 0;
  std::size_t i = 0;
  for (; i < text.size() && (isDigit(text[i]) || text[i] == '.'); ++i) {
    if (text[i] != '.') ++count;
    else if (point >= 0) return Parsed::kBad;
    else point = count;
  }
  if (count == 0) return Parsed::kBad;
  const std::string_view mantissa = text.substr(0, i);
  if (point < 0) point = count;
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') return Parsed::kBad;
    ++i;
    const bool down = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (i == text.size()) return Parsed::kBad;
    for (; i < text.size(); ++i) {
      if (!isDigit(text[i])) return Parsed::kBad;
      if (exponent < 100000) exponent = exponent * 10 + (text[i] - '0');
    }
    if (down) exponent = -exponent;
  }
  std::int64_t keep = point + exponent + digits;  // digits of the mantissa that stand left of the point afterwards
  std::uint64_t sum = 0;
  bool zero = true;
  for (const char c : mantissa) {
    if (c == '.') continue;
    if (keep-- <= 0) {
      if (keep == -1 && c >= '5') ++sum;
      break;
    }
    const auto digit = static_cast<std::uint64_t>(c - '0');
    zero = zero && digit == 0;
    if (sum > (kMax - digit) / 10) return Parsed::kOutOfRange;
    sum = sum * 10 + digit;
  }
  for (; keep > 0 && !zero; --keep) {
    if (sum > kMax / 10) return Parsed::kOutOfRange;
    sum *= 10;
  }
  if (sum > kMax) return Parsed::kOutOfRange;
  *value = negative ? -static_cast<std::int64_t>(sum) : static_cast<std::int64_t>(sum);
  return Parsed::kOk;
}

}  // namespace

Parsed parseScaled(std::string_view text, int digits, std::int64_t* value) {
  // The usual case in one go: up to 15 digits, a point, up to three more, nothing else.
  const char* p = text.data();
  const char* const end = p + text.size();
  if (p != end && isDigit(*p)) {
    std::uint64_t sum = 0;
    const char* const first = p;
    while (p != end && isDigit(*p)) sum = sum * 10 + static_cast<std::uint64_t>(*p++ - '0');
    const auto whole = p - first;
    int left = digits;
    if (p != end && *p == '.') {
      ++p;
      while (p != end && isDigit(*p) && left > 0) sum = sum * 10 + static_cast<std::uint64_t>(*p++ - '0'), --left;
    }
    while (left-- > 0) sum *= 10;
    while (p != end && isSpace(*p)) ++p;
    if (p == end && whole + digits <= 18) {
      *value = static_cast<std::int64_t>(sum);
      return Parsed::kOk;
    }
  }
  text = bare(text);
  if (text.empty() || text == "null") return Parsed::kAbsent;
  const bool negative = text[0] == '-';
  if (negative) text.remove_prefix(1);
  return scaledSlowly(text, negative, digits, value);
}

Parsed parseId(std::string_view text, std::int64_t* value) {
  const Parsed parsed = parseScaled(text, 0, value);
  if (parsed != Parsed::kOutOfRange) return parsed;
  std::uint64_t sum = 0;
  for (const char c : bare(text)) {
    if (!isDigit(c) || sum > (std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(c - '0')) / 10)
      return Parsed::kOutOfRange;
    sum = sum * 10 + static_cast<std::uint64_t>(c - '0');
  }
  *value = static_cast<std::int64_t>(sum);
  return Parsed::kOk;
}

}  // namespace spscope::trace
