// SPDX-License-Identifier: Apache-2.0
// The tables of a trace: every row has as many cells as the header, text survives, unknown stays empty.
#include "profiler/export/csv.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/support/csv.h"
#include "tests/support/random_trace.h"
#include "tests/support/temp_folder.h"

namespace spscope::trace {
namespace {

using testing::ElementsAre;
using Rows = std::vector<std::map<std::string, std::string>>;

class CsvExport : public TempFolderTest {
 protected:
  Rows rows(const std::string& name) const {
    const std::string text = contents("csv/" + name);
    EXPECT_TRUE(text.ends_with('\n')) << name;
    const auto all = parseCsv(text);
    for (const auto& row : all) EXPECT_EQ(row.size(), all[0].size()) << name;
    return csvRows(text);
  }
  void write(const Trace& trace) {
    const auto done = writeCsv(trace, path("csv"));
    ASSERT_TRUE(done) << done.error().message;
  }
};

TEST_F(CsvExport, RandomTracesHaveARowForEachOfTheirs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Trace trace = RandomTrace(seed).make(static_cast<int>(seed * 10));
    write(trace);
    const Rows events = rows("events.csv");
    ASSERT_EQ(events.size(), trace.events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].at("name"), trace.strings.text(trace.events.name[i]));
      EXPECT_EQ(events[i].at("start_ns"), std::to_string(trace.events.start[i]));
      EXPECT_EQ(events[i].at("bytes"), trace.events.bytes[i] == kUnknown ? "" : std::to_string(trace.events.bytes[i]));
    }
    EXPECT_EQ(rows("ranks.csv").size(), trace.ranks.size());
    EXPECT_EQ(rows("collectives.csv").size(), trace.collectives.size());
    EXPECT_EQ(rows("memory.csv").size(), trace.memory.size());
    EXPECT_EQ(rows("nodes.csv").size(), trace.nodes.size());
    EXPECT_EQ(rows("properties.csv").size(), trace.properties.size());
    EXPECT_EQ(rows("problems.csv").size(), trace.problems.all().size());
    for (const char* name : {"ranks.csv", "events.csv", "collectives.csv", "memory.csv", "nodes.csv"}) EXPECT_EQ(contents(std::string("csv/") + name).find("-9223372036854775808"), std::string::npos);
  }
}

TEST_F(CsvExport, WhatCannotBeWrittenWholeLeavesNothing) {
  std::filesystem::create_directories(path("csv/nodes.csv"));  // in the way of the fifth table
  std::ofstream(path("csv/ranks.csv")) << "of before";
  EXPECT_FALSE(writeCsv(RandomTrace(1).make(5), path("csv")));
  EXPECT_EQ(contents("csv/ranks.csv"), "of before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("csv")), {}), 2) << "no table, and nothing temporary";
  CancelToken cancelled;
  cancelled.cancel();
  EXPECT_FALSE(writeCsv(RandomTrace(1).make(5), path("new"), {}, cancelled));
  EXPECT_FALSE(std::filesystem::exists(path("new"))) << "a folder that was made for it goes, too";
}

TEST_F(CsvExport, OtherFilesOfTheFolderStay) {
  std::filesystem::create_directories(path("csv"));
  std::ofstream(path("csv/notes.txt")) << "mine";
  write(RandomTrace(1).make(5));
  EXPECT_EQ(contents("csv/notes.txt"), "mine");
}

TEST_F(CsvExport, AFileInTheWayIsSaid) {
  std::ofstream(path("csv")) << "a file";
  const auto done = writeCsv(Trace(), path("csv"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "file-unwritable");
  EXPECT_EQ(contents("csv"), "a file");
}

TEST_F(CsvExport, FieldCases_TR_36_allocated_freed_and_net_stand_apart) {
  Trace t;
  t.ranks.emplace_back();
  t.nodes.push_back({.id = 7, .name = t.strings.intern("%mm")});
  t.nodes.push_back({.id = 8, .name = t.strings.intern("%free_only")});
  t.memory = {{.time = 1, .bytes = 100, .node = 0}, {.time = 2, .bytes = -40, .node = 0}, {.time = 3, .bytes = -25, .node = 1}};
  write(t);
  const Rows nodes = rows("nodes.csv");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].at("allocated_bytes"), "100");
  EXPECT_EQ(nodes[0].at("freed_bytes"), "40");
  EXPECT_EQ(nodes[0].at("net_bytes"), "60");
  EXPECT_EQ(nodes[1].at("allocated_bytes"), "0");
  EXPECT_EQ(nodes[1].at("freed_bytes"), "25");
  const Rows memory = rows("memory.csv");
  EXPECT_EQ(memory[1].at("allocated_bytes"), "");
  EXPECT_EQ(memory[1].at("freed_bytes"), "40");
}

}  // namespace
}  // namespace spscope::trace
