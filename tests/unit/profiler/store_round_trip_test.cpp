// SPDX-License-Identifier: Apache-2.0
// The native file gives back what was written: every field, in every kind of trace; and what it does with files that are
// newer, damaged, or none of ours.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "profiler/store/sqlite.h"
#include "profiler/store/store.h"
#include "tests/support/random_trace.h"
#include "tests/support/temp_folder.h"

namespace spscope::trace {
namespace {

class Store : public TempFolderTest {
 protected:
  using TempFolderTest::path;
  std::string path() const { return path("t.sqlite"); }
  /// Changes a written file as a damage or another version would have.
  void change(const std::string& sql) const {
    auto db = Database::create(path());
    ASSERT_TRUE(db) << db.error().message;
    const auto done = db->run(sql);
    ASSERT_TRUE(done) << done.error().message;
  }
  Trace written(std::uint64_t seed, int events = 60) const {
    Trace trace = RandomTrace(seed).make(events);
    const auto done = writeStore(trace, path());
    EXPECT_TRUE(done) << done.error().message;
    return trace;
  }
};

TEST_F(Store, GivesBackRandomTracesExactly) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Trace trace = written(seed, static_cast<int>(seed * 7 % 200));
    const auto back = readStore(path());
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(differenceOf(trace, *back), "") << "seed " << seed;
  }
}

// A new field of a record: give it a column, a value in RandomTrace, and the new size here.
TEST_F(Store, NoFieldIsWithoutAColumn) {
  EXPECT_EQ(sizeof(Event), 64u);
  EXPECT_EQ(sizeof(Track), 56u);
  EXPECT_EQ(sizeof(Clock), 64u);
  EXPECT_EQ(sizeof(Rank), 232u);
  EXPECT_EQ(sizeof(Launch), 44u);
  EXPECT_EQ(sizeof(Copy), 16u);
  EXPECT_EQ(sizeof(Collective), 56u);
  EXPECT_EQ(sizeof(MemoryEvent), 56u);
  EXPECT_EQ(sizeof(CounterSample), 24u);
  EXPECT_EQ(sizeof(GraphNode), 48u);
  EXPECT_EQ(sizeof(Flow), 12u);
}

TEST_F(Store, GivesBackAnEmptyTrace) {
  ASSERT_TRUE(writeStore(Trace(), path()));
  const auto back = readStore(path());
  ASSERT_TRUE(back);
  EXPECT_EQ(differenceOf(Trace(), *back), "");
}

TEST_F(Store, TheDifferenceOfTwoTracesIsSeen) {
  const Trace a = RandomTrace(3).make(40);
  Trace b = RandomTrace(3).make(40);
  ASSERT_EQ(differenceOf(a, b), "");
  b.events.bytes[17] = 5;
  EXPECT_NE(differenceOf(a, b), "");
}

TEST_F(Store, TracksOfAReadTraceAreFoundAgain) {
  const Trace trace = written(5);
  auto back = readStore(path());
  ASSERT_TRUE(back);
  for (std::size_t i = 0; i < trace.tracks.size(); ++i) {
    const Track& t = trace.tracks[i];
    if (t.kind == TrackKind::kThread) {
      EXPECT_EQ(back->thread(t.rank, t.pid, t.tid), static_cast<TrackIndex>(i));
    }
    if (t.kind == TrackKind::kStream) {
      EXPECT_EQ(back->stream(t.rank, t.device, t.context, t.stream), static_cast<TrackIndex>(i));
    }
  }
  EXPECT_EQ(back->tracks.size(), trace.tracks.size());
}

// Readers that open a file immutable do not see what lies in a journal beside it.
TEST_F(Store, LeavesOneFileAndNoJournal) {
  written(1);
  EXPECT_EQ(files(), std::vector<std::string>{"t.sqlite"});
  std::ifstream in(path(), std::ios::binary);
  std::string head(20, '\0');
  in.read(head.data(), 20);
  EXPECT_EQ(head.substr(0, 15), "SQLite format 3");
  EXPECT_EQ(head[18], 1) << "the file is in WAL mode";
  EXPECT_EQ(head[19], 1);
}

TEST_F(Store, AnOlderFileStaysUntilTheNewOneIsWhole) {
  const Trace trace = written(2);
  const CancelToken cancel;
  cancel.cancel();
  const auto done = writeStore(RandomTrace(9).make(100), path(), {}, cancel);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "cancelled");
  EXPECT_EQ(files(), std::vector<std::string>{"t.sqlite"});
  const auto back = readStore(path());
  ASSERT_TRUE(back);
  EXPECT_EQ(differenceOf(trace, *back), "");
}

TEST_F(Store, WritingReportsProgressAndReadingCanBeCancelled) {
  int calls = 0;
  ASSERT_TRUE(writeStore(RandomTrace(2).make(50), path(), [&](const Progress& p) { calls += p.total == 50; }));
  EXPECT_GT(calls, 0);
  const CancelToken cancel;
  cancel.cancel();
  const auto back = readStore(path(), {}, cancel);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, "cancelled");
}

TEST_F(Store, ADiskThatIsFullIsSaid) {
  auto db = Database::create(path());
  ASSERT_TRUE(db);
  ASSERT_TRUE(db->run("PRAGMA max_page_count = 4; CREATE TABLE t (a)"));
  const auto done = db->run("INSERT INTO t VALUES (zeroblob(100000))");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "file-unwritable");
  EXPECT_NE(done.error().message.find("the disk is full"), std::string::npos) << done.error().message;
}

// By way of the size that a process may write.
TEST_F(Store, AFailedWriteLeavesNothingBehind) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto done = writeStore(RandomTrace(2).make(20000), path());
    _exit(!done && done.error().code == "file-unwritable" && files().empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Store, PathsThatCannotBeWritten) {
  const Trace trace = RandomTrace(1).make(5);
  for (const std::string& bad : {path("no-such-folder/t.sqlite"), folder_, std::string("/dev/null")}) {
    const auto done = writeStore(trace, bad);
    ASSERT_FALSE(done) << bad;
    EXPECT_EQ(done.error().code, "file-unwritable") << bad;
    EXPECT_NE(done.error().message.find(bad), std::string::npos);
  }
}

TEST_F(Store, ANewerVersionIsReadAsFarAsItAgrees) {
  const Trace trace = written(4);
  change("UPDATE SPSCOPE_META SET value = 99 WHERE name = 'version'; DROP TABLE SPSCOPE_COUNTERS; ALTER TABLE SPSCOPE_NODES ADD COLUMN colour TEXT;"
         "INSERT INTO SPSCOPE_PROBLEMS VALUES ('of-the-future', 2, 'x', 'y')");
  const auto back = readStore(path());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->problems.countOf(Problem::kUnknownSchema), 1);
  EXPECT_EQ(back->problems.all().at(Problem::kUnknownSchema).first, "store version 99");
  EXPECT_EQ(back->problems.countOf(Problem::kMissingTable), 1);
  EXPECT_EQ(back->problems.all().at(Problem::kMissingTable).first, "SPSCOPE_COUNTERS");
  EXPECT_EQ(back->problems.countOf(Problem::kLostMetadata), 2);
  EXPECT_TRUE(back->counters.empty());
  EXPECT_EQ(back->nodes, trace.nodes);
  EXPECT_EQ(back->events, trace.events);
}

TEST_F(Store, LostRowsAndWildIndicesAreCountedAndHarmless) {
  const Trace trace = written(6, 100);
  change("DELETE FROM NVTX_EVENTS WHERE rowid <= 100; DELETE FROM SPSCOPE_EVENTS WHERE id > 90; UPDATE SPSCOPE_EVENTS SET track = 4000 WHERE id = 3;"
         "UPDATE SPSCOPE_EVENTS SET node = -7, detail = 99 WHERE id < 20; UPDATE SPSCOPE_COLLECTIVES SET event = 1 << 40, rank = 77;"
         "UPDATE SPSCOPE_MEMORY SET rank = NULL; UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5");
  const auto back = readStore(path());
  ASSERT_TRUE(back) << back.error().message;
  const auto& e = back->events;
  ASSERT_EQ(e.size(), 90u);
  for (std::size_t i = 0; i < e.size(); ++i) {
    EXPECT_GE(e.end[i], e.start[i]);
    EXPECT_LT(static_cast<std::size_t>(e.track[i]), back->tracks.size());
    EXPECT_TRUE(e.node[i] == kNoIndex || static_cast<std::size_t>(e.node[i]) < back->nodes.size());
    EXPECT_TRUE(e.detail[i] == kNoIndex || e.detail[i] < 5);
    EXPECT_LT(e.name[i], back->strings.size());
  }
  ASSERT_FALSE(back->collectives.empty());
  for (const Collective& c : back->collectives) EXPECT_TRUE(c.event == kNoIndex && static_cast<std::size_t>(c.rank) < back->ranks.size());
  EXPECT_GT(back->problems.countOf(Problem::kBadEvent), 0);
  EXPECT_GT(back->problems.countOf(Problem::kBadNumber), 0);
  EXPECT_GT(back->problems.countOf(Problem::kNegativeDuration), 0);
  EXPECT_EQ(back->problems.countOf(Problem::kTruncated), 10);
}

TEST_F(Store, CountsThatAFileClaimsMayBeAnything) {
  written(6, 100);
  change("UPDATE SPSCOPE_META SET value = 9223372036854775807 WHERE name = 'events'; DELETE FROM SPSCOPE_PROBLEMS;"
         "INSERT INTO SPSCOPE_PROBLEMS (name, count, first) VALUES ('truncated', 9223372036854775807, 'x'), ('bad-event', -5, 'y')");
  const auto back = readStore(path());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->problems.countOf(Problem::kTruncated), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(back->problems.countOf(Problem::kBadEvent), 0);
}

TEST_F(Store, BytesThatAreDamagedCostRowsNotTheFile) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    written(seed, 300);
    std::mt19937_64 random(seed);
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(path());
    for (int i = 0; i < 30; ++i) {
      file.seekp(static_cast<std::streamoff>(4096 + random() % (size - 4096)));
      file.put(static_cast<char>(random()));
    }
    file.close();
    const auto back = readStore(path());  // an error or a trace with valid indices; sanitizers see the rest
    if (!back) continue;
    for (std::size_t i = 0; i < back->events.size(); ++i) ASSERT_LT(static_cast<std::size_t>(back->events.track[i]), back->tracks.size());
  }
}

TEST_F(Store, WithoutItsHeadATraceIsReadAndTheLossCounted) {
  const Trace trace = RandomTrace(3).make(200);
  ASSERT_TRUE(writeStore(trace, path()));
  change("DROP TABLE SPSCOPE_META");
  EXPECT_TRUE(isStore(path()));
  const auto back = readStore(path());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->events.start, trace.events.start);
  EXPECT_EQ(back->ranks.size(), trace.ranks.size());
  EXPECT_GT(back->problems.countOf(Problem::kMissingTable), trace.problems.countOf(Problem::kMissingTable));
}

TEST_F(Store, WhatIsNoStoreIsRefused) {
  std::ofstream(path()) << "{\"traceEvents\": []}";
  EXPECT_FALSE(isStore(path()));
  auto back = readStore(path());
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, "trace-unreadable");
  std::filesystem::remove(path());
  ASSERT_TRUE(Database::create(path())->run("CREATE TABLE StringIds (id INTEGER)"));
  EXPECT_FALSE(isStore(path()));
  back = readStore(path());
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, "trace-unreadable");
  EXPECT_EQ(readStore(path("absent")).error().code, "file-missing");
  EXPECT_EQ(readStore(folder_).error().code, "file-is-folder");
  ASSERT_TRUE(writeStore(Trace(), path("odd #1?%.sqlite")));
  EXPECT_TRUE(isStore(path("odd #1?%.sqlite")));
}

}  // namespace
}  // namespace spscope::trace
