// SPDX-License-Identifier: Apache-2.0
// The line between a debugger and a rank: whole messages or none, of any size; its end is heard at once.
#include "core/dist/control_line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace spscope::dist {
namespace {

using std::chrono::milliseconds;

struct Line {
  std::optional<ControlLine> here, there;
  Line() {
    const auto ends = ControlLine::pair().value();
    here.emplace(ends.first);
    there.emplace(ends.second);
  }
};

TEST(ControlLine, MessagesComeWholeAndInOrder) {
  Line line;
  EXPECT_FALSE(line.there->receive(milliseconds(0)).value().has_value()) << "nothing was sent";
  std::string bytes(3, '\0');
  bytes[1] = '\n';
  ASSERT_TRUE(line.here->send({"first", {{"name", "a \"b\"\n"}}}, bytes));
  ASSERT_TRUE(line.here->send({"second", {}}));
  const Packet first = line.there->receive(milliseconds(1000)).value().value();
  EXPECT_EQ(first.head.kind, "first");
  EXPECT_EQ(first.head.at("name"), "a \"b\"\n");
  EXPECT_EQ(first.body, bytes);
  const Packet second = line.there->receive(milliseconds(1000)).value().value();
  EXPECT_EQ(second.head.kind, "second");
  EXPECT_TRUE(second.body.empty());
}

TEST(ControlLine, MuchMoreThanASocketHoldsGoesThrough) {
  Line line;
  std::string bytes(8 << 20, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 131 >> 7);
  std::thread sends([&] {
    EXPECT_TRUE(line.here->send({"value", {}}, bytes));
    EXPECT_TRUE(line.here->send({"next", {}}));
  });
  std::optional<Packet> packet;
  while (!packet) packet = line.there->receive(milliseconds(100)).value();
  EXPECT_EQ(packet->body, bytes);
  sends.join();
  EXPECT_EQ(line.there->receive(milliseconds(1000)).value()->head.kind, "next");
}

TEST(ControlLine, ItsEndIsHeardAtOnceByBothWays) {
  Line line;
  line.there.reset();
  const auto heard = line.here->receive(milliseconds(60'000));
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().code, "control-lost");
  const Status sent = line.here->send({"run", {}});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, "control-lost");
}

TEST(ControlLine, WhoTakesNothingIsNotWaitedForForever) {
  Line line;
  const Status sent = line.here->send({"value", {}}, std::string(64 << 20, 'x'), milliseconds(50));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, "control-timeout");
}

TEST(ControlLine, WhatIsNoMessageIsRefused) {
  for (const std::string& bytes : {std::string(64, 'x'), std::string("spctrl1\n") + std::string(16, '\xff'), std::string("spctrl1\n\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0[]", 26)}) {
    const auto ends = ControlLine::pair().value();
    ControlLine line(ends.first);
    ASSERT_EQ(::write(ends.second, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    const auto heard = line.receive(milliseconds(1000));
    ASSERT_FALSE(heard);
    EXPECT_EQ(heard.error().code, "control-garbage");
    ::close(ends.second);
  }
}

TEST(ControlLine, WithoutALauncherThereIsNone) {
  ::unsetenv("SPSCOPE_CONTROL");
  EXPECT_EQ(ControlLine::attach().error().code, "launch-env");
  ::setenv("SPSCOPE_CONTROL", "987", 1);
  EXPECT_EQ(ControlLine::attach().error().code, "launch-env");
  ::unsetenv("SPSCOPE_CONTROL");
}

}  // namespace
}  // namespace spscope::dist
