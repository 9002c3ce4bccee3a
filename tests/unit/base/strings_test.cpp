// SPDX-License-Identifier: Apache-2.0
#include "core/base/strings.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/codes.h"
#include "core/base/hash.h"
#include "core/base/symbol.h"

namespace spscope {
namespace {

TEST(Strings, BytesAreShownInBinaryUnits) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1536), "1.50 KiB");
  EXPECT_EQ(formatBytes(std::int64_t{217} << 20), "217 MiB");
  EXPECT_EQ(formatBytes(std::int64_t{17} << 30), "17.0 GiB");
}

TEST(Strings, DoublesRoundTripShortest) {
  EXPECT_EQ(formatDouble(0.1), "0.1");
  EXPECT_EQ(formatDouble(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(formatDouble(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(formatDouble(std::nan("")), "nan");
}

TEST(Strings, NearestFindsTypingMistakesOnly) {
  EXPECT_EQ(nearest("complie", {"compile", "verify"}), "compile");
  EXPECT_EQ(nearest("zebra", {"compile", "verify"}), "");
  EXPECT_EQ(nearest("abc", {"abcdef", "abcdefg"}), "abcdef");  // three away, four away
}

TEST(Strings, NearestOfAnEndlessWordIsFoundAtOnce) {
  const std::vector<std::string> names(5000, std::string(40, 'x'));
  EXPECT_EQ(nearest(std::string(300'000, 'x'), names), "");  // 6e10 steps letter by letter
}

TEST(Hash, PartsDoNotRunTogether) {
  Hasher a, b;
  a.text("ab"), a.text("c");
  b.text("a"), b.text("bc");
  EXPECT_NE(a.hex(), b.hex());
  EXPECT_EQ(hashHex("x").size(), 32u);
}

TEST(Symbol, EqualTextsAreOneSymbol) {
  EXPECT_EQ(Symbol("aten.mm.default"), Symbol(std::string("aten.mm.") + "default"));
  EXPECT_NE(Symbol("a"), Symbol("b"));
  EXPECT_TRUE(Symbol().empty());
}

TEST(Codes, AreSortedUniqueAndExplained) {
  std::string_view last;
  for (const CodeInfo& c : allCodes()) {
    EXPECT_LT(last, c.code) << "sorted, no code twice";
    last = c.code;
    EXPECT_FALSE(c.meaning.empty());
    EXPECT_FALSE(c.remedy.empty());
    EXPECT_EQ(findCode(c.code), &c);
  }
  EXPECT_EQ(findCode("no-such-code"), nullptr);
}

}  // namespace
}  // namespace spscope
