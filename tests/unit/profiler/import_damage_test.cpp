// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile files: one bad byte costs an event, not the file; what was mended or lost is counted.
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/support/temp_folder.h"
#include "tests/unit/profiler/import_support.h"

namespace spscope::trace {
namespace {

/// Everything that real writers got wrong, each in an event of its own.
Trace damaged() {
  auto t = importTrace(dataFile("kineto_damaged.json"));
  EXPECT_TRUE(t);
  return t ? std::move(*t) : Trace();
}

TEST(ImportDamage, WhatLiesBetweenBrokenEventsIsRead) {
  const Trace t = damaged();
  expectSound(t);
  for (const char* name : {"fine 0", "fine 1", "fine 2", "fine 3", "fine 4"}) EXPECT_EQ(eventNamed(t, name).end - eventNamed(t, name).start, 5000) << name;
  // A lost quote, a lost colon, an open brace, no time; and of the lost brace only what was in it.
  EXPECT_EQ(t.problems.countOf(Problem::kBadEvent), 5);
  EXPECT_EQ(t.events.size(), 13u);
  EXPECT_EQ(t.problems.countOf(Problem::kOutOfRange), 1);
  EXPECT_EQ(t.problems.countOf(Problem::kNegativeDuration), 1);
  EXPECT_EQ(eventNamed(t, "negative").end, eventNamed(t, "negative").start);
  EXPECT_EQ(eventNamed(t, "negative").flags & kRepaired, kRepaired);
  EXPECT_EQ(t.problems.countOf(Problem::kTruncated), 0);
  EXPECT_EQ(t.properties.at("kineto.traceName"), "damaged");  // what follows the events
}

TEST(FieldCases, TR_02_a_bare_NA_or_NaN_is_unknown_and_counted) {
  const Trace t = damaged();
  EXPECT_EQ(t.problems.countOf(Problem::kBadNumber), 2);
  EXPECT_EQ(eventNamed(t, "TR-02 N/A").bytes, 64);
  EXPECT_EQ(eventNamed(t, "TR-02 N/A").end - eventNamed(t, "TR-02 N/A").start, 5000);
  const Event endless = eventNamed(t, "TR-02 NaN duration");
  EXPECT_EQ(endless.end, endless.start);
  EXPECT_EQ(endless.flags & kRepaired, kRepaired);
}

TEST(FieldCases, TR_03_control_characters_and_newlines_in_names_are_kept_and_counted) {
  const Trace t = damaged();
  EXPECT_EQ(eventNamed(t, "TR-03 \x01 and\nnewline").flags & kRepaired, kRepaired);
  eventNamed(t, "TR-03 quote \" and \\");
  EXPECT_EQ(t.problems.countOf(Problem::kControlCharacter), 1);
}

TEST(FieldCases, TR_04_invalid_utf8_becomes_U_FFFD_also_inside_gzip) {
  const Trace t = damaged();
  eventNamed(t, "TR-04 \xef\xbf\xbd");
  EXPECT_EQ(t.problems.countOf(Problem::kBadUtf8), 1);
  EXPECT_EQ(t.problems.all().at(Problem::kBadUtf8).first, "byte 616");
}

TEST(FieldCases, TR_05_a_windows_path_is_taken_literally) {
  const Trace t = damaged();
  eventNamed(t, "TR-05 C:\\x\\temp");  // and no tabulator in it
  EXPECT_EQ(t.problems.countOf(Problem::kBadEscape), 1);
}

TEST(FieldCases, TR_10_an_event_of_any_length_fits_and_names_are_kept_once) {
  const std::string dims(3 << 20, '7');
  const Trace t = traceOf(R"({"ph":"X","cat":"cpu_op","name":"long","pid":1,"tid":1,"ts":1,"dur":2,"args":{"Input Dims":[)" + dims + R"(]}},{"ph":"X","cat":"cpu_op","name":"next","pid":1,"tid":1,"ts":5,"dur":2})", 4096);
  EXPECT_EQ(t.events.size(), 2u);
  EXPECT_LT(t.strings.size(), 8u);
  EXPECT_TRUE(t.problems.empty());
}

TEST(FieldCases, TR_10_reading_reports_its_progress_and_can_be_stopped) {
  std::string events;
  for (int i = 0; i < 2000; ++i) events += std::string(i ? "," : "") + R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2})";
  std::int64_t last = 0, calls = 0;
  ImportOptions options{.block_bytes = 4096};
  options.progress = [&](const Progress& p) {
    EXPECT_GE(p.done, last);
    EXPECT_EQ(p.total, static_cast<std::int64_t>(events.size()) + 18);
    last = p.done, ++calls;
  };
  ASSERT_TRUE(readText("{\"traceEvents\":[" + events + "]}", options));
  EXPECT_GT(calls, 10);
  options.progress = [&](const Progress& p) {
    if (p.done > 10000) options.cancel.cancel();
  };
  const auto stopped = readText("{\"traceEvents\":[" + events + "]}", options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, "cancelled");
}

TEST(FieldCases, TR_13_a_file_that_was_cut_opens_with_what_is_there) {
  const std::string text = contentsOf(dataFile("kineto_nccl.json"));
  const auto whole = readText(text);
  ASSERT_TRUE(whole);
  std::size_t last = 0;
  for (std::size_t size = text.find("\"traceEvents\": [") + 16; size < text.rfind(']'); size += 7) {
    const auto t = readText(text.substr(0, size));
    ASSERT_TRUE(t) << size;
    EXPECT_EQ(t->problems.countOf(Problem::kTruncated), 1) << size;
    EXPECT_EQ(t->problems.countOf(Problem::kBadEvent), 0) << size;
    EXPECT_GE(t->events.size(), last);
    last = t->events.size();
    expectSound(*t);
  }
  EXPECT_GE(last + 1, whole->events.size());
  EXPECT_EQ(readText(text.substr(0, text.rfind(']')))->events, whole->events);  // only the closing brackets are missing
  EXPECT_EQ(whole->problems.countOf(Problem::kTruncated), 0);
}

class ImportGzip : public TempFolderTest {};

TEST_F(ImportGzip, TR_13_gzip_cut_in_the_middle_opens_partially) {
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 5000; ++i)
    text += std::string(i ? "," : "") + R"({"ph":"X","cat":"cpu_op","name":"op )" + std::to_string(i * 7919 % 1000) + R"(","pid":1,"tid":1,"ts":)" + std::to_string(i * 7919) + R"(,"dur":2})";
  text += "]}";
  const std::string name = path("whole.json.gz");
  const gzFile out = gzopen(name.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  const auto whole = importTrace(name);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->events.size(), 5000u);
  EXPECT_TRUE(whole->problems.empty());

  const std::string packed = contents("whole.json.gz");
  std::ofstream(path("cut.json.gz"), std::ios::binary) << packed.substr(0, packed.size() / 2);
  const auto cut = importTrace(path("cut.json.gz"));
  ASSERT_TRUE(cut);
  EXPECT_GT(cut->events.size(), 1000u);
  EXPECT_LT(cut->events.size(), 4000u);
  EXPECT_EQ(cut->problems.countOf(Problem::kTruncated), 1);

  // A checksum that is wrong: all events are there, and that the end is not is said.
  std::string wrong = packed;
  wrong[wrong.size() - 6] ^= 1;
  std::ofstream(path("wrong.json.gz"), std::ios::binary) << wrong;
  const auto bad = importTrace(path("wrong.json.gz"));
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->problems.countOf(Problem::kTruncated), 1);

  // Two members one after the other are one text; padding behind is none of it.
  for (const auto& [file, from, to] : {std::tuple("a.gz", std::size_t{0}, text.size() / 3), std::tuple("b.gz", text.size() / 3, text.size())}) {
    const gzFile part = gzopen(path(file).c_str(), "wb");
    gzwrite(part, text.data() + from, static_cast<unsigned>(to - from));
    gzclose(part);
  }
  std::ofstream(path("twice.json.gz"), std::ios::binary) << contents("a.gz") << contents("b.gz") << std::string(100, '\0');
  const auto twice = importTrace(path("twice.json.gz"));
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->events, whole->events);
  EXPECT_TRUE(twice->problems.empty());
}

TEST(ImportDamage, OneBadByteAnywhereCostsAnEventOrTwo) {
  const std::string text = contentsOf(dataFile("kineto_nccl.json"));
  const auto found = [&](const std::string& damaged_text, std::size_t block, Problems* problems) {
    auto t = readText(damaged_text, {.block_bytes = block});
    if (!t) return std::int64_t{-1};
    *problems = t->problems;
    expectSound(*t);
    return static_cast<std::int64_t>(t->events.size() + t->memory.size() + t->counters.size());
  };
  Problems before;
  const std::int64_t whole = found(text, 4096, &before);
  const std::size_t first = text.find("\"traceEvents\": [") + 16;
  std::int64_t lost = 0, most = 0, tried = 0;
  std::size_t step = 0;
  for (std::size_t i = 1; i < text.size(); i += 5)
    for (const char c : {'"', '\\', '{', '}', ']', 'x', '\x80', '\0'}) {
      if (text[i] == c || (i < first && i + 4 > first)) continue;  // without its [ there is no array
      std::string one = text;
      one[i] = c;
      Problems problems;
      const std::int64_t left = found(one, 64 + step++ % 900, &problems);
      ASSERT_GE(left, whole - 3) << "byte " << i << " " << c;
      // A changed key is still JSON; nobody can notice it.
      EXPECT_TRUE(left == whole || problems.all() != before.all() || nlohmann::json::accept(one)) << "silent: byte " << i << " " << c;
      lost += whole - left, most = std::max(most, whole - left), ++tried;
    }
  EXPECT_LT(static_cast<double>(lost) / static_cast<double>(tried), 0.6);  // many bytes cost nothing
}

TEST(ImportDamage, WhatIsNoTraceIsRefusedWithAHint) {
  const auto refused = [](const std::string& text) {
    const auto t = readText(text);
    EXPECT_FALSE(t) << text;
    return t ? std::string() : t.error().code;
  };
  EXPECT_EQ(refused(""), "file-empty");
  EXPECT_EQ(refused("hello"), "trace-unreadable");
  EXPECT_EQ(refused("{}"), "trace-unreadable");
  EXPECT_EQ(refused("{\"a\": [1, 2, {\"b\": 3}]}"), "trace-unreadable");
  EXPECT_EQ(refused("SQLite format 3"), "trace-unreadable");
  EXPECT_EQ(refused(std::string("SQLite format 3\0 and then nonsense", 34)), "trace-unreadable");
  EXPECT_EQ(refused("PK\x03\x04"), "trace-unreadable");
  EXPECT_EQ(refused("\x1f\x8b nonsense"), "trace-unreadable");
  EXPECT_EQ(importTrace("/no/such/file.json").error().code, "file-missing");
  EXPECT_EQ(importTrace(SPSCOPE_SOURCE_DIR).error().code, "file-is-folder");
  EXPECT_TRUE(readText("{\"traceEvents\": []}"));  // empty is a trace
  // Nothing in these says that they are traces.
  EXPECT_EQ(refused("[]"), "trace-unreadable");
  EXPECT_EQ(refused("{\"traceEvents\": {}}"), "trace-unreadable");
  EXPECT_EQ(refused("{\"traceEvents\": [{\"name\": 1}, {\"ph\": \"X\"}]}"), "trace-unreadable");
}

}  // namespace
}  // namespace spscope::trace
