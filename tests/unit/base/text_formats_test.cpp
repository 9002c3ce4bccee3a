// SPDX-License-Identifier: Apache-2.0
// Text inside JSON and XML: whatever bytes come, what is written is valid.
#include <gtest/gtest.h>

#include "core/base/json_text.h"
#include "core/base/xml_text.h"

namespace spscope {
namespace {

TEST(Utf8, SequencesByTheStandard) {
  EXPECT_EQ(utf8Length(""), 0u);
  EXPECT_EQ(utf8Length("a"), 1u);
  EXPECT_EQ(utf8Length("ü"), 2u);
  EXPECT_EQ(utf8Length("→"), 3u);
  EXPECT_EQ(utf8Length("\xf0\x9f\x98\x80"), 4u);
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) EXPECT_EQ(utf8Length(bad), 0u);
}

TEST(JsonText, EscapesAndReplaces) {
  EXPECT_EQ(jsonQuoted(std::string_view("a\"\\\n\t\x01\0ü\x9f", 10)), "\"a\\\"\\\\\\n\\t\\u0001\\u0000ü\xef\xbf\xbd\"");
}

TEST(XmlText, EscapesAndReplaces) {
  EXPECT_EQ(xmlEscaped("<a b=\"c\">&'\n"), "&lt;a b=&quot;c&quot;&gt;&amp;'\n");
  EXPECT_EQ(xmlEscaped(std::string_view("\x01\0\x1f", 3)), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(xmlEscaped("ü\x9f\xef\xbf\xbf"), "ü\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace spscope
