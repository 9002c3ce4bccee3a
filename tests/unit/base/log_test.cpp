// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/json_text.h"

namespace spscope {
namespace {

constexpr std::int64_t kNoon = 1'769'860'800'123'456'789;  // 2026-01-31 12:00:00 UTC and a bit

TEST(Log, TextAndJsonSayTheSame) {
  const log::Line line{log::Level::kWarning, "ranks", "rank-died", "it said \"no\"\nand left", 1, kNoon};
  EXPECT_EQ(log::formatted(line, log::Format::kText), "warning[rank-died] ranks: [rank 1] it said \"no\"\nand left");
  EXPECT_EQ(log::formatted(line, log::Format::kJson),
            R"({"time":"2026-01-31T12:00:00.123456Z","level":"warning","rank":1,"category":"ranks","code":"rank-died","message":"it said \"no\"\nand left"})");
  const log::Line plain{log::Level::kInfo, "compile", "", "started", -1, kNoon};
  EXPECT_EQ(log::formatted(plain, log::Format::kText), "info compile: started");
  EXPECT_EQ(log::formatted(plain, log::Format::kJson),
            R"({"time":"2026-01-31T12:00:00.123456Z","level":"info","rank":null,"category":"compile","code":null,"message":"started"})");
}

TEST(Log, OnlyLinesOfTheLevelAndAboveAreWritten) {
  std::vector<std::string> seen;
  log::setSink([&](const log::Line& line) { seen.emplace_back(line.message); });
  const std::string before = log::settingsText();
  log::setLevel(log::Level::kWarning);
  log::debug("c", "a"), log::info("c", "b"), log::warning("c", "c"), log::error("c", "d");
  EXPECT_EQ(seen, (std::vector<std::string>{"c", "d"}));
  log::setLevel(log::Level::kOff);
  log::error("c", "e");
  EXPECT_EQ(seen.size(), 2U);
  log::useSettings(before);
  log::setSink({});
}

TEST(Log, SettingsGoToAChildAsText) {
  const std::string before = log::settingsText();
  log::useSettings("debug:json");
  EXPECT_EQ(log::level(), log::Level::kDebug);
  EXPECT_EQ(log::format(), log::Format::kJson);
  EXPECT_EQ(log::settingsText(), "debug:json");
  for (const char* bad : {"", "debug", "loud:json", "info:xml", "info:json:"}) {
    log::useSettings(bad);
    EXPECT_EQ(log::settingsText(), "debug:json") << bad << " changes nothing";
  }
  log::useSettings(before);
}

TEST(JsonText, IsValidWhateverTheBytes) {
  EXPECT_EQ(jsonQuoted("a\\b\"c\td\x01"), R"("a\\b\"c\td\u0001")");
  EXPECT_EQ(jsonQuoted("käse 東京 \xf0\x9f\x98\x80"), "\"käse 東京 \xf0\x9f\x98\x80\"");
  EXPECT_EQ(jsonQuoted("x\xff" "y\xc3"), "\"x\xef\xbf\xbdy\xef\xbf\xbd\"");
  EXPECT_EQ(jsonQuoted("\xed\xa0\x80\xc0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"") << "surrogates, overlong forms";
}

}  // namespace
}  // namespace spscope
