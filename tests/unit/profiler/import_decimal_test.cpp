// SPDX-License-Identifier: Apache-2.0
// Numbers of a trace's text, to the nanosecond.
#include "profiler/import/decimal.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

namespace spscope::trace {
namespace {

std::optional<std::int64_t> ns(std::string_view text) {
  std::int64_t value = 0;
  return parseMicroseconds(text, &value) == Parsed::kOk ? std::optional(value) : std::nullopt;
}

TEST(ImportDecimal, MicrosecondsBecomeNanosecondsExactly) {
  EXPECT_EQ(ns("1712195495519689.047"), 1712195495519689047);  // 19 digits: a double keeps 0.25 us there
  EXPECT_EQ(ns("5103262932787.620"), 5103262932787620);
  EXPECT_EQ(ns("1661203462598738"), 1661203462598738000);
  EXPECT_EQ(ns("0"), 0);
  EXPECT_EQ(ns("0.5"), 500);
  EXPECT_EQ(ns("-1.5"), -1500);
  EXPECT_EQ(ns("449.75 \n  "), 449750);
  EXPECT_EQ(ns("\"1712195495519689.047\""), 1712195495519689047);  // as a text
}

TEST(ImportDecimal, FurtherDecimalsAreRounded) {
  EXPECT_EQ(ns("0.1234"), 123);
  EXPECT_EQ(ns("0.1235"), 124);
  EXPECT_EQ(ns("449.7499999999"), 449750);
  EXPECT_EQ(ns("-0.0005"), -1);
  EXPECT_EQ(ns("0.0004"), 0);
}

TEST(ImportDecimal, ExponentsAreRead) {
  EXPECT_EQ(ns("1.712195495519689047e15"), 1712195495519689047);
  EXPECT_EQ(ns("5e-3"), 5);
  EXPECT_EQ(ns("12E+2"), 1200000);
  EXPECT_EQ(ns("0e99999"), 0);
  EXPECT_EQ(ns("1e-99999"), 0);
}

TEST(ImportDecimal, WhatIsNoNumberIsNotOne) {
  std::int64_t value = 7;
  for (const char* text : {"NaN", "N/A", "Infinity", "-Infinity", "nan", "-", ".", "1.2.3", "1e", "12x", "\"\"x", "true", "[1]"})
    EXPECT_EQ(parseMicroseconds(text, &value), Parsed::kBad) << text;
  EXPECT_EQ(parseMicroseconds("null", &value), Parsed::kAbsent);
  EXPECT_EQ(parseMicroseconds("", &value), Parsed::kAbsent);
  EXPECT_EQ(parseMicroseconds("\"\"", &value), Parsed::kAbsent);
  EXPECT_EQ(value, 7);
}

TEST(ImportDecimal, WhatDoesNotFitIsOutOfRange) {
  std::int64_t value = 0;
  EXPECT_EQ(ns("9223372036854775.807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parseMicroseconds("9223372036854775.808", &value), Parsed::kOutOfRange);
  EXPECT_EQ(parseMicroseconds("1e300", &value), Parsed::kOutOfRange);
  EXPECT_EQ(parseMicroseconds(std::string(400, '9'), &value), Parsed::kOutOfRange);
}

TEST(ImportDecimal, IdsMayHave64Bits) {
  std::int64_t value = 0;
  ASSERT_EQ(parseId("1152921504606846976", &value), Parsed::kOk);  // 2^60
  EXPECT_EQ(value, 1LL << 60);
  ASSERT_EQ(parseId("18446744073709551615", &value), Parsed::kOk);
  EXPECT_EQ(static_cast<std::uint64_t>(value), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parseId("18446744073709551616", &value), Parsed::kOutOfRange);
  ASSERT_EQ(parseId("9007199254740993", &value), Parsed::kOk);  // 2^53 + 1: no double
  EXPECT_EQ(value, 9007199254740993);
}

}  // namespace
}  // namespace spscope::trace
