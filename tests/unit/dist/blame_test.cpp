// SPDX-License-Identifier: Apache-2.0
#include "core/dist/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spscope::dist {
namespace {

RankRecord rank(int r, std::int64_t sequence, bool inside) {
  RankRecord out;
  out.rank = r;
  out.last.collective = "all_reduce";
  out.last.sequence = sequence;
  out.last.inside_collective = inside;
  out.last.node = "%n" + std::to_string(r);
  return out;
}
void report(RankRecord& r, const char* code, std::int64_t ns) {
  r.error = makeError(code, std::string(code) + " happened");
  r.error_ns = ns;
}
void exits(RankRecord& r, int code, std::int64_t ns) {
  r.ended = true;
  r.exit_code = code;
  r.ended_ns = ns;
}
void dies(RankRecord& r, int signal, std::int64_t ns) {
  r.ended = true;
  r.signal = signal;
  r.ended_ns = ns;
}

TEST(Blame, NobodyWhereAllAreDone) {
  std::vector<RankRecord> ranks{rank(0, 5, false), rank(1, 5, false)};
  for (RankRecord& r : ranks) {
    r.done = true;
    exits(r, 0, 10);
  }
  EXPECT_EQ(firstAtFault(ranks), -1);
}

TEST(Blame, DeathCountsMoreThanTheLostConnectionThatWasSeenBefore) {
  std::vector<RankRecord> ranks{rank(0, 3, true), rank(1, 3, true), rank(2, 2, false)};
  report(ranks[0], "peer-lost", 100);
  exits(ranks[0], 1, 110);
  report(ranks[1], "peer-lost", 90);
  exits(ranks[1], 1, 120);
  dies(ranks[2], 9, 130);
  EXPECT_EQ(firstAtFault(ranks), 2);
  EXPECT_EQ(describeEnd(ranks[2]), "killed by signal 9 (SIGKILL)");
}

TEST(Blame, OwnErrorCountsMoreThanSymptoms) {
  std::vector<RankRecord> ranks{rank(0, 3, true), rank(1, 2, false)};
  report(ranks[0], "collective-timeout", 50);
  report(ranks[1], "capture-failed", 60);
  EXPECT_EQ(firstAtFault(ranks), 1);
}

TEST(Blame, TheFirstOfSeveralDeaths) {
  std::vector<RankRecord> ranks{rank(0, 3, true), rank(1, 3, true)};
  dies(ranks[0], 11, 70);
  exits(ranks[1], 3, 60);
  EXPECT_EQ(firstAtFault(ranks), 1);
}

TEST(Blame, RankThatStayedAwayNotTheOneThatGaveUpWaiting) {
  std::vector<RankRecord> ranks{rank(0, 7, true), rank(1, 6, false), rank(2, 7, true)};
  report(ranks[2], "collective-timeout", 50);
  report(ranks[0], "peer-lost", 51);
  EXPECT_EQ(firstAtFault(ranks), 1);
  EXPECT_EQ(describeFault(ranks, 1), "it did not come to all_reduce #7, in which rank 2 waited for it");
}

TEST(Blame, StoppedProcessThoughItIsInTheSameCollective) {
  std::vector<RankRecord> ranks{rank(0, 7, true), rank(1, 7, true), rank(2, 7, true)};
  report(ranks[0], "collective-timeout", 50);
  ranks[0].silent_ns = 150'000'000;
  ranks[1].silent_ns = 200'000'000;
  ranks[2].silent_ns = 2'100'000'000;
  EXPECT_EQ(firstAtFault(ranks), 2);
  EXPECT_EQ(describeFault(ranks, 2), "its process did not run: no sign of life for 2.1 s");
  ranks[1].silent_ns = 1'900'000'000;  // a machine that starves them all says nothing about one
  EXPECT_EQ(firstAtFault(ranks), 0);
}

TEST(Blame, RankThatNeverCameToTheRendezvous) {
  std::vector<RankRecord> ranks{rank(0, 0, true), rank(1, 0, false)};
  ranks[0].last.collective = "rendezvous";
  ranks[1].last.collective = "";
  report(ranks[0], "rendezvous-timeout", 50);
  EXPECT_EQ(firstAtFault(ranks), 1);
}

TEST(Blame, StalledRankNotTheOneThatWaitsForIt) {
  std::vector<RankRecord> ranks{rank(0, 7, true), rank(1, 6, false)};
  ranks[0].stalled = ranks[1].stalled = true;
  ranks[0].stalled_ns = 10;
  ranks[1].stalled_ns = 20;
  EXPECT_EQ(firstAtFault(ranks), 1);
}

TEST(Blame, StoppedByTheLauncherIsNoFault) {
  std::vector<RankRecord> ranks{rank(0, 7, true), rank(1, 7, true)};
  report(ranks[1], "bad-input", 5);
  dies(ranks[0], 15, 2);
  ranks[0].asked_to_stop = true;
  EXPECT_EQ(firstAtFault(ranks), 1);
  EXPECT_EQ(describeEnd(ranks[0]), "stopped by the launcher");
}

TEST(Blame, TableShowsEveryRanksLastCollective) {
  std::vector<RankRecord> ranks{rank(0, 7, true), rank(1, 6, false)};
  const std::string table = formatTable(ranks);
  EXPECT_THAT(table, testing::HasSubstr("all_reduce #7 (inside)"));
  EXPECT_THAT(table, testing::HasSubstr("%n1"));
}

}  // namespace
}  // namespace spscope::dist
