// SPDX-License-Identifier: Apache-2.0
#include "app/dap/wire/frame.h"

#include <gmock/gmock.h>

#include "core/base/strings.h"

namespace spscope::app::dap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Bodies, and "! message" for what is no frame; fed so many bytes at a time (0: all at once).
std::vector<std::string> read(const std::string& bytes, std::size_t at_once = 0) {
  FrameReader reader;
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size(); at += at_once == 0 ? bytes.size() : at_once) {
    reader.feed(std::string_view(bytes).substr(at, at_once == 0 ? std::string::npos : at_once));
    while (auto frame = reader.take()) out.push_back(frame->fault ? "! " + frame->fault->message : frame->body);
  }
  return out;
}

TEST(Frames, ComeWholeHoweverTheBytesArrive) {
  const std::string two = framed("{\"a\":1}") + framed("") + "content-length:  2 \r\nContent-Type: x\r\n\r\nhi" + "\r\n\r\nContent-Length: 1\n\n.";
  for (const std::size_t at_once : {0, 1, 2, 3, 7, 64}) EXPECT_THAT(read(two, at_once), ElementsAre("{\"a\":1}", "", "hi", ".")) << at_once;
  EXPECT_EQ(framed("abc"), "Content-Length: 3\r\n\r\nabc");
}

TEST(Frames, WhatIsNoHeaderIsSaidOnceAndTheNextOneIsRead) {
  for (const std::size_t at_once : {0, 1, 5}) {
    EXPECT_THAT(read("GET / HTTP/1.1 no colon\r\n: x\r\nmore\r\n\r\n" + framed("ok"), at_once), ElementsAre(StartsWith("! this is no header of a message: GET / HTTP"), "ok") ) << at_once;
    EXPECT_THAT(read("GET\r\nHost: x\r\n\r\n" + framed("ok"), at_once), ElementsAre("! this is no header of a message: GET", "ok"));
    EXPECT_THAT(read("Content-Type: x\r\n\r\nbody" + framed("ok"), at_once), ElementsAre("! a header has no Content-Length", "ok"));
    EXPECT_THAT(read("Content-Length: -3\r\n\r\n" + framed("ok"), at_once), ElementsAre("! this is no length of a message: Content-Length: -3", "ok"));
    EXPECT_THAT(read("Content-Length: 3 4\r\n\r\n" + framed("ok"), at_once), ElementsAre(HasSubstr("no length"), "ok"));
    EXPECT_THAT(read("Content-Length: 3\r\nContent-Length: 4\r\n\r\n" + framed("ok"), at_once), ElementsAre(HasSubstr("no length"), "ok"));
    EXPECT_THAT(read("Content-Length: " + std::string(9000, '1') + framed("ok"), at_once), ElementsAre(HasSubstr("longer than 4096 bytes"), "ok"));
    EXPECT_THAT(read("\x01\xff\r\n" + framed("ok"), at_once), ElementsAre("! this is no header of a message: ..", "ok"));
  }
}

TEST(Frames, AMessageThatIsTooLargeIsPassedOver) {
  const std::size_t most = FrameReader::kMostBytes;
  EXPECT_THAT(read(framed(std::string(most + 1, 'x')) + framed("ok"), 1 << 20), ElementsAre(strf("! a message of %zu bytes is refused: at most %zu are taken", most + 1, most), "ok"));
  EXPECT_EQ(read(framed(std::string(most, 'x')), 1 << 20).at(0).size(), most);
  // A length that nobody can mean is a damaged header, whose bytes would never come.
  EXPECT_THAT(read("Content-Length: 18446744073709551615\r\n\r\n" + framed("ok")), ElementsAre(HasSubstr("18446744073709551615 bytes is refused"), "ok"));
  EXPECT_THAT(read("Content-Length: 18446744073709551616\r\n\r\n" + framed("ok")), ElementsAre(HasSubstr("no length"), "ok"));
}

TEST(Frames, TheEndInTheMiddleIsSeen) {
  FrameReader reader;
  EXPECT_FALSE(reader.partial());
  reader.feed("Content-Length: 5\r\n\r\n123");
  EXPECT_TRUE(reader.partial());
  EXPECT_FALSE(reader.take());
  reader.feed("45");
  EXPECT_EQ(reader.take()->body, "12345");
  EXPECT_FALSE(reader.partial());
}

}  // namespace
}  // namespace spscope::app::dap
