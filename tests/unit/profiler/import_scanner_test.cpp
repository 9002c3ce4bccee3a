// SPDX-License-Identifier: Apache-2.0
// Extents of events: whatever the blocks, a block-wise scan finds what a reading character by character finds.
#include "profiler/import/event_scanner.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "profiler/import/json_repair.h"

namespace spscope::trace {
namespace {

constexpr std::size_t kMargin = 64;

/// The events of a text that is handed out in pieces of `step` bytes.
std::vector<std::string> scanned(const std::string& text, std::size_t step, EventScanner::Stop* last = nullptr) {
  const std::string padded = text + std::string(kMargin, '}');  // what lies behind is not looked at
  EventScanner scanner;
  std::vector<std::string> out;
  EventScanner::Stop stop = EventScanner::Stop::kMore;
  std::vector<EventExtent> events;
  for (std::size_t size = std::min(step, text.size());; size = std::min(size + step, text.size())) {
    events.clear();
    stop = scanner.scan({padded.data(), size}, events);
    for (const EventExtent& e : events) out.push_back(text.substr(e.start, e.end - e.start));
    if (stop == EventScanner::Stop::kDoubtful) size -= std::min(size, step);  // goes on where it stands
    else if (stop != EventScanner::Stop::kMore || size == text.size()) break;
  }
  if (last != nullptr) *last = stop;
  return out;
}

TEST(ImportScanner, FindsEventsWhateverTheBlocks) {
  const std::vector<std::string> events = {
      R"({"name":"a","args":{"x":[1,{"y":"}"}]}})", R"({"name":"quote \" and brace } and \\"})", "{}",
      "{\"long\":\"" + std::string(300, '{') + "\"}", R"({"a":[[],[{}],{"b":[]}]})", R"({"end":"\\\\\\"})"};
  std::string text;
  for (const std::string& e : events) text += (text.empty() ? "" : " ,\n ") + e;
  text += "\n ]";
  for (const std::size_t step : {1u, 2u, 3u, 7u, 63u, 64u, 65u, 1000u}) {
    EventScanner::Stop stop{};
    EXPECT_EQ(scanned(text, step, &stop), events) << step;
    EXPECT_EQ(stop, EventScanner::Stop::kArrayEnd) << step;
  }
}

TEST(ImportScanner, RandomTextsAgreeWithAnySplit) {
  std::mt19937 random(7);
  const std::string letters = "{}[]\",: \\\n\tx1";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0, n = static_cast<int>(random() % 200); i < n; ++i) text += letters[random() % letters.size()];
    EventScanner::Stop whole{}, split{};
    const auto expected = scanned(text, 10000, &whole);
    EXPECT_EQ(scanned(text, 1 + random() % 70, &split), expected) << text;
    EXPECT_EQ(split, whole) << text;
  }
}

TEST(ImportScanner, NoticesWhatCannotBeJson) {
  EventScanner::Stop stop{};
  scanned(R"({"a":1]})", 100, &stop);  // closed by the wrong one
  EXPECT_EQ(stop, EventScanner::Stop::kBroken);
  scanned(R"({"args":{"a":1}, {"ph":"X"})", 100, &stop);  // an object where a key belongs
  EXPECT_EQ(stop, EventScanner::Stop::kBroken);
  scanned(R"(x{"a":1})", 100, &stop);
  EXPECT_EQ(stop, EventScanner::Stop::kBroken);
  scanned("{\"a\":" + std::string(70, '['), 100, &stop);  // deeper than anything that is written
  EXPECT_EQ(stop, EventScanner::Stop::kBroken);
}

TEST(ImportScanner, FindsTheEventBehindALostQuote) {
  const std::string text = R"({"ph":"X,"name":"a"}, {"ph":"X","name":"b"})";
  EXPECT_EQ(flippedAt(text, 0, text.size()), text.find("{\"ph\":\"X\","));
  const std::string fine = R"({"ph":"X","args":{"list":[{"a":1}, {"b":"x, {"}]}})";
  EXPECT_EQ(flippedAt(fine, 0, fine.size()), EventScanner::kNone);
}

TEST(ImportRepair, MakesJsonOfWhatProfilersWrite) {
  Problems problems;
  EXPECT_EQ(repairedJson(R"({"a":NaN,"b":N/A,"c":-Infinity,"d":1.5,"e":[nan,true,null]})", "x", problems),
            R"({"a":null,"b":null,"c":null,"d":1.5,"e":[null,true,null]})");
  EXPECT_EQ(problems.countOf(Problem::kBadNumber), 4);
  EXPECT_EQ(repairedJson("{\"a\":\"x\x01y\nz\"}", "x", problems), "{\"a\":\"x\\u0001y\\u000az\"}");
  EXPECT_EQ(problems.countOf(Problem::kControlCharacter), 1);
  EXPECT_EQ(repairedJson("{\"a\":\"k\x9f\"}", "x", problems), "{\"a\":\"k\xef\xbf\xbd\"}");
  EXPECT_EQ(problems.countOf(Problem::kBadUtf8), 1);
  // One unknown escape: nothing was escaped, so \t is no tabulator either.
  EXPECT_EQ(repairedJson(R"({"a":"C:\x\temp\"q\\"})", "x", problems), R"({"a":"C:\\x\\temp\"q\\"})");
  EXPECT_EQ(problems.countOf(Problem::kBadEscape), 1);
  EXPECT_EQ(repairedJson(R"({"a":"tab \t, snowman \u2603"})", "x", problems), R"({"a":"tab \t, snowman \u2603"})");
  EXPECT_EQ(problems.countOf(Problem::kBadEscape), 1);
}

TEST(ImportRepair, EscapesAreResolved) {
  std::string out;
  ASSERT_TRUE(unescape(R"(a\"b\\c\/\n\u2603\ud83d\ude00)", &out));
  EXPECT_EQ(out, "a\"b\\c/\n\xe2\x98\x83\xf0\x9f\x98\x80");
  EXPECT_FALSE(unescape(R"(\x)", &out));
  EXPECT_FALSE(unescape(R"(\ud83d)", &out));   // half a pair
  EXPECT_FALSE(unescape(R"(\u12)", &out));
  EXPECT_FALSE(unescape("\\", &out));
}

}  // namespace
}  // namespace spscope::trace
