// SPDX-License-Identifier: Apache-2.0
// Both ends of two pipes.
#include "app/dap/wire/connection.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>

#include "app/dap/wire/frame.h"

namespace spscope::app::dap {
namespace {

using namespace std::chrono_literals;

class Wire : public ::testing::Test {
 protected:
  Wire() {
    EXPECT_EQ(::pipe(to_), 0);
    EXPECT_EQ(::pipe(from_), 0);
  }
  ~Wire() override {
    for (const int fd : {to_[0], to_[1], from_[0], from_[1]})
      if (fd >= 0) ::close(fd);
  }
  void send(const std::string& body) const {
    const std::string bytes = framed(body);
    EXPECT_EQ(::write(to_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void hangUp() {
    ::close(to_[1]);
    to_[1] = -1;
  }
  /// The next message that was sent to the client.
  Json received() {
    while (true) {
      if (auto frame = frames_.take()) return Json::parse(frame->body);
      char block[512];
      const ssize_t n = ::read(from_[0], block, sizeof block);
      if (n <= 0) return {};
      frames_.feed({block, static_cast<std::size_t>(n)});
    }
  }
  int to_[2]{}, from_[2]{};
  FrameReader frames_;
};

TEST_F(Wire, RequestsComeInAnswersAndEventsGoOut) {
  std::atomic<int> arrived{0};
  Connection connection(to_[0], from_[1], [&](const Request& r) { arrived += r.command.empty() ? 100 : 1; });
  EXPECT_FALSE(connection.next(0ms));
  send(R"({"type":"request","seq":1,"command":"one"})");
  send("{");
  send(R"({"type":"request","seq":2,"command":"two"})");
  send(R"({"type":"request","seq":3,"command":"three"})");
  const auto one = connection.next(10s);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->command, "one");
  connection.respond(*one, {{"x", 1}});
  EXPECT_EQ(received(), Json::parse(R"({"seq":1,"type":"response","request_seq":1,"success":true,"command":"one","body":{"x":1}})"));
  const auto broken = connection.next(10s);
  ASSERT_TRUE(broken && broken->fault);
  connection.refuse(*broken, *broken->fault);
  const Json refusal = received();
  EXPECT_EQ(refusal["seq"], 2);
  EXPECT_EQ(refusal["success"], false);
  EXPECT_EQ(refusal["message"], "dap-message");
  EXPECT_EQ(refusal["body"]["error"]["format"], "{text}");
  while (arrived < 3) ::usleep(1000);
  // A request that waits can be taken back.
  EXPECT_TRUE(connection.withdraw(3));
  EXPECT_FALSE(connection.withdraw(3));
  EXPECT_EQ(connection.next(10s)->command, "two");
  connection.event("output", {{"output", "no UTF-8: \xff"}});
  EXPECT_EQ(received()["body"]["output"], "no UTF-8: \xEF\xBF\xBD");
  EXPECT_FALSE(connection.ended());
  hangUp();
  EXPECT_FALSE(connection.next(10s));
  EXPECT_TRUE(connection.ended());
  EXPECT_EQ(arrived, 103);
}

TEST_F(Wire, AClientThatIsGoneEndsIt) {
  ::signal(SIGPIPE, SIG_IGN);
  Connection connection(to_[0], from_[1]);
  ::close(from_[0]);
  from_[0] = -1;
  connection.event("output", {{"output", "x"}});
  EXPECT_TRUE(connection.ended());
}

}  // namespace
}  // namespace spscope::app::dap
