// SPDX-License-Identifier: Apache-2.0
#include "app/dap/wire/message.h"

#include <gmock/gmock.h>

namespace spscope::app::dap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Messages, ARequestHasSeqCommandAndArguments) {
  const Request r = readRequest(R"({"type":"request","seq":7,"command":"next","arguments":{"threadId":1}})");
  ASSERT_FALSE(r.fault);
  EXPECT_EQ(r.seq, 7);
  EXPECT_EQ(r.command, "next");
  EXPECT_EQ(r.arguments["threadId"], 1);
  EXPECT_FALSE(readRequest(R"({"type":"request","seq":1,"command":"threads"})").fault);
  EXPECT_FALSE(readRequest(R"({"type":"request","seq":1.0,"command":"threads","arguments":null})").fault);
}

TEST(Messages, WhatIsNoneSaysWhatIsMissing) {
  const auto fault = [](const std::string& text) { return readRequest(text).fault.value_or(Error{}); };
  for (const char* text : {"", "{", "[1", "\"\xff\"", "nul"}) EXPECT_EQ(fault(text).message, "a message is no JSON") << text;
  EXPECT_EQ(fault("[]").message, "a message is no JSON object");
  EXPECT_THAT(fault(R"({"seq":1,"command":"x"})").message, HasSubstr("type is not request"));
  EXPECT_THAT(fault(R"({"type":"request","command":"x"})").message, HasSubstr("no seq"));
  EXPECT_THAT(fault(R"({"type":"request","seq":-1,"command":"x"})").message, HasSubstr("no seq"));
  EXPECT_THAT(fault(R"({"type":"request","seq":1e300,"command":"x"})").message, HasSubstr("no seq"));
  EXPECT_THAT(fault(R"({"type":"request","seq":18446744073709551615,"command":"x"})").message, HasSubstr("no seq"));
  EXPECT_THAT(fault(R"({"type":"request","seq":1,"command":3})").message, HasSubstr("no command"));
  EXPECT_THAT(fault(R"({"type":"request","seq":1,"command":"x","arguments":[]})").message, HasSubstr("x: arguments is no object"));
  EXPECT_THAT(fault(std::string(100'000, '[')).message, HasSubstr("no JSON"));
  // As far as it can be read it can be answered.
  EXPECT_EQ(readRequest(R"({"type":"event","seq":9,"command":"x"})").seq, 9);
}

TEST(Messages, FieldsAreReadByTheirTypes) {
  const Json object = Json::parse(R"({"text":"t","number":3,"flag":true,"null":null,"list":["a","b"],"objects":[{"line":4}],"float":2.5,"object":{"x":1}})");
  const Fields fields("ask", object);
  EXPECT_EQ(fields.text("text").value(), "t");
  EXPECT_EQ(fields.text("absent", "else").value(), "else");
  EXPECT_EQ(fields.text("null", "else").value(), "else");
  EXPECT_EQ(fields.number("number").value(), 3);
  EXPECT_EQ(fields.number("absent", 5).value(), 5);
  EXPECT_TRUE(fields.flag("flag", false).value());
  EXPECT_THAT(fields.texts("list").value(), ElementsAre("a", "b"));
  EXPECT_EQ(fields.objects("objects").value().at(0).number("line").value(), 4);
  EXPECT_TRUE(fields.objects("absent").value().empty());
  EXPECT_EQ(fields.object("object").value().number("x").value(), 1);

  EXPECT_EQ(fields.text("absent").error().message, "ask: absent is missing");
  EXPECT_EQ(fields.text("number").error().message, "ask: number is no text");
  EXPECT_EQ(fields.number("float").error().message, "ask: float is no whole number");
  EXPECT_EQ(fields.flag("text", true).error().message, "ask: text is neither true nor false");
  EXPECT_EQ(fields.objects("list").error().message, "ask: list holds something that is no object");
  EXPECT_EQ(fields.texts("objects").error().message, "ask: objects holds something that is no text");
  EXPECT_EQ(fields.object("text").error().message, "ask: text is no object");
  EXPECT_EQ(fields.objects("objects").value().at(0).text("line").error().message, "ask: objects: line is no text");
}

}  // namespace
}  // namespace spscope::app::dap
