// SPDX-License-Identifier: Apache-2.0
// Ranks on one clock; waiting against transfer; bandwidth; stragglers.
#include "profiler/analyze/collectives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "profiler/analyze/align.h"
#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using test::TraceBuilder;

/// Two ranks, `count` collectives, one every 10 ms, the second rank on a clock of its own.
TraceBuilder twoClocks(int count, double offset_us, double drift_ppm, double jitter_us = 0, int wrong = 0) {
  TraceBuilder b;
  b.rank(0, "a"), b.rank(1, "b");
  std::mt19937 random(5);
  for (int i = 0; i < count; ++i) {
    const double end = 10'000.0 * (i + 1);
    const double jitter = jitter_us == 0 ? 0 : jitter_us * (static_cast<double>(random() % 2001) / 1000 - 1);
    double other = (end + jitter) - offset_us - drift_ppm * 1e-6 * end;  // common = own + offset + ...
    if (i < wrong) other += 500'000 * (i % 2 ? 1 : -1);
    b.collective(0, b.kernel(0, "nccl", end - 500, end), "all_to_all", i);
    b.collective(1, b.kernel(1, "nccl", other - 700, other), "all_to_all", i);
  }
  return b;
}

std::int64_t worstEnd(const Trace& t) {
  std::int64_t worst = 0;
  for (std::size_t i = 0; i + 1 < t.collectives.size(); i += 2)
    worst = std::max(worst, std::abs(t.events.end[static_cast<std::size_t>(t.collectives[i].event)] -
                                     t.events.end[static_cast<std::size_t>(t.collectives[i + 1].event)]));
  return worst;
}

TEST(FieldCases, TR_28_ranks_are_aligned_on_collective_ends_with_offset_and_drift) {
  TraceBuilder b = twoClocks(200, 3e6, 20);  // 3 s, 20 ppm
  ASSERT_GT(worstEnd(b.trace), 2'999'000'000);
  const auto found = align(b.trace);
  ASSERT_TRUE(found) << found.error().format();
  EXPECT_EQ(found->method, "collective-ends");
  EXPECT_NEAR(found->clocks[1].drift_ppb, 20'000, 5);
  EXPECT_LE(found->residual_ns, 3);
  EXPECT_EQ(found->anchors, 200);
  EXPECT_EQ(found->left_out, 0);
  applyAlignment(b.trace, *found);
  EXPECT_LE(worstEnd(b.trace), 3);
  EXPECT_EQ(b.trace.ranks[1].clock.method, "collective-ends");
  EXPECT_EQ(b.trace.ranks[0].clock.offset_ns, 0);
}

TEST(Align, JitterRemainsAsTheResidualAndIsNotTakenForADrift) {
  TraceBuilder b = twoClocks(100, -2000, 0, 30);
  const auto found = align(b.trace);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->clocks[1].drift_ppb, 0);
  EXPECT_NEAR(static_cast<double>(found->clocks[1].offset_ns), -2e6, 15'000);
  EXPECT_GT(found->residual_ns, 20'000);
  EXPECT_LT(found->residual_ns, 50'000);
}

TEST(Align, AFewContradictingEndsAreLeftOutAndCounted) {
  TraceBuilder b = twoClocks(40, 3e6, 20, 0, 6);
  const auto found = align(b.trace);
  ASSERT_TRUE(found) << found.error().format();
  EXPECT_EQ(found->left_out, 6);
  EXPECT_NEAR(found->clocks[1].drift_ppb, 20'000, 10);
}

TEST(Align, RefusedWhenTheEndsAreInconsistent) {
  TraceBuilder b = twoClocks(40, 3e6, 0, 0, 30);
  const auto found = align(b.trace);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, "trace-not-alignable");
}

TEST(Align, RefusedWhenTheResidualIsLargerThanTheGap) {
  TraceBuilder b = twoClocks(40, 1000, 0, 25'000);  // 25 ms of jitter, one collective every 10 ms
  const auto found = align(b.trace);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("disagree"), std::string::npos) << found.error().message;
}

TEST(Align, RefusedWhenNoQuartzDriftsLikeThat) {
  TraceBuilder b = twoClocks(40, 1000, 5000);
  const auto found = align(b.trace);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("ppm"), std::string::npos) << found.error().message;
}

TEST(Align, RefusedWithoutCommonCollectives) {
  TraceBuilder b = twoClocks(3, 0, 0);
  const auto lonely = b.rank(2, "c");
  b.collective(lonely, b.kernel(lonely, "nccl", 0, 10), "all_to_all", 0, kUnknown, kUnknown, kNoIndex, "other group");
  const auto found = align(b.trace);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("rank 2"), std::string::npos);
}

TEST(Align, TheStartBarrierIsEnough) {
  TraceBuilder b;
  b.rank(0, "a"), b.rank(1, "b");
  b.op(0, "mm", 1000, 1010), b.op(1, "mm", 501'000, 501'010);
  b.trace.ranks[0].barrier_ns = 900'000;
  b.trace.ranks[1].barrier_ns = 500'900'000;
  const auto found = align(b.trace);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->method, "start-barrier");
  applyAlignment(b.trace, *found);
  EXPECT_EQ(b.trace.events.start[0], b.trace.events.start[1]);
  EXPECT_EQ(b.trace.ranks[1].barrier_ns, 900'000);
}

TEST(Align, ThroughAThirdRankWhereTwoShareNoGroup) {
  TraceBuilder b;
  b.rank(0, "a"), b.rank(1, "b"), b.rank(2, "c");
  for (int i = 0; i < 10; ++i) {
    const double t = 10'000.0 * (i + 1);
    b.collective(0, b.kernel(0, "nccl", t - 5, t), "all_reduce", i, kUnknown, 2, kNoIndex, "left");
    b.collective(1, b.kernel(1, "nccl", t + 700 - 5, t + 700), "all_reduce", i, kUnknown, 2, kNoIndex, "left");
    b.collective(1, b.kernel(1, "nccl", t + 800 - 5, t + 800), "all_reduce", i, kUnknown, 2, kNoIndex, "right");
    b.collective(2, b.kernel(2, "nccl", t - 900 - 5, t - 900), "all_reduce", i, kUnknown, 2, kNoIndex, "right");
  }
  const auto found = align(b.trace);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->clocks[1].offset_ns, -700'000);
  EXPECT_EQ(found->clocks[2].offset_ns, 1'700'000 - 700'000);
  EXPECT_EQ(found->residual_ns, 0);
}

TEST(Align, RanksOfOneHostAreOnOneClock) {
  TraceBuilder b = twoClocks(20, 0, 0, 40);
  b.trace.ranks[1].host = "a";
  const auto found = align(b.trace);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->method, "same-clock");
  EXPECT_EQ(found->clocks[1].offset_ns, 0);
  EXPECT_LT(found->residual_ns, 40'000);
}

TEST(Align, OneHostIsNotBelievedWhenItsCollectivesSayOtherwise) {
  TraceBuilder b = twoClocks(20, 3e6, 0);
  b.trace.ranks[1].host = "a";
  const auto found = align(b.trace);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->method, "collective-ends");
  EXPECT_EQ(found->clocks[1].offset_ns, 3'000'000'000);
}

TEST(FieldCases, TR_29_waiting_for_a_late_rank_is_not_transfer) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  b.exchange(r0, 7, 1000, 1000, 6300, 4096, 2);  // rank 1 arrives 5 ms late
  b.exchange(r1, 7, 6000, 6000, 6310, 4096, 2);
  const auto all = matchCollectives(b.trace);
  ASSERT_EQ(all.size(), 1u);
  const MatchedCollective& c = all[0];
  EXPECT_EQ(c.why_not, "");
  EXPECT_EQ(c.last_rank, r1);
  EXPECT_EQ(c.spread_ns, 5'000'000);
  EXPECT_EQ(c.parts[0].wait_ns, 5'000'000);
  EXPECT_EQ(c.parts[0].transfer_ns, 300'000);
  EXPECT_EQ(c.parts[0].blocked_ns, 5'300'000);
  EXPECT_EQ(c.parts[1].wait_ns, 0);
  EXPECT_EQ(c.parts[1].transfer_ns, 310'000);
  const auto blame = stragglers(all);
  ASSERT_EQ(blame.size(), 2u);
  EXPECT_EQ(blame[0].rank, r1);
  EXPECT_EQ(blame[0].last, 1);
  EXPECT_EQ(blame[0].caused_wait_ns, 5'000'000);
  EXPECT_EQ(blame[0].margin_ns, 5'000'000);
  EXPECT_EQ(blame[1].own_wait_ns, 5'000'000);
}

TEST(Collectives, AreMatchedBySequenceNumberNeverByTime) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  // Rank 1's second collective lies exactly where rank 0's first does.
  b.collective(r0, b.kernel(r0, "nccl", 100, 200), "all_reduce", 1);
  b.collective(r0, b.kernel(r0, "nccl", 300, 400), "all_reduce", 2);
  b.collective(r1, b.kernel(r1, "nccl", 100, 200), "all_reduce", 2);
  b.collective(r1, b.kernel(r1, "nccl", 20, 60), "all_reduce", 1);
  const auto all = matchCollectives(b.trace);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].sequence, 1);
  EXPECT_EQ(all[0].last_arrival_ns, 100'000);
  EXPECT_EQ(all[0].parts[1].wait_ns, 40'000);  // it had left before the other came: no more than it lasted
  EXPECT_EQ(all[0].parts[1].transfer_ns, 0);
  EXPECT_EQ(all[1].sequence, 2);
  EXPECT_EQ(all[1].last_arrival_ns, 300'000);
}

TEST(Collectives, SayWhyWaitingCannotBeTold) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  b.collective(r0, b.kernel(r0, "nccl", 0, 10), "all_reduce", 1, 8, 4);
  b.collective(r1, b.kernel(r1, "nccl", 0, 10), "all_reduce", 1, 8, 4);
  b.collective(r0, b.kernel(r0, "nccl", 20, 30), "all_reduce", kUnknown);
  b.collective(r0, b.kernel(r0, "nccl", 40, 50), "all_reduce", 3, 8, 2, kNoIndex, "twice");
  b.collective(r0, b.kernel(r0, "nccl", 41, 50), "all_reduce", 3, 8, 2, kNoIndex, "twice");
  const auto all = matchCollectives(b.trace);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].why_not, "2 of 4 ranks are in the trace");
  EXPECT_EQ(all[0].parts[0].wait_ns, kUnknown);
  EXPECT_NE(all[1].why_not.find("no sequence number"), std::string::npos);
  EXPECT_NE(all[2].why_not.find("twice"), std::string::npos);
  EXPECT_TRUE(stragglers(all).empty());
}

TEST(Collectives, OfRanksThatCannotBeOfOneRunAreNotJudged) {
  TraceBuilder sizes;
  const auto s0 = sizes.rank(0), s1 = sizes.rank(1);
  sizes.collective(s0, sizes.kernel(s0, "nccl", 0, 10), "all_reduce", 1, 8, 1);
  sizes.collective(s1, sizes.kernel(s1, "nccl", 5, 10), "all_reduce", 1, 8, 2);
  EXPECT_EQ(matchCollectives(sizes.trace).at(0).why_not, "the ranks disagree on the size of its group");
  TraceBuilder twice;
  const auto a = twice.rank(0), b = twice.rank(0);
  twice.collective(a, twice.kernel(a, "nccl", 0, 10), "all_reduce", 1, 8, 2);
  twice.collective(b, twice.kernel(b, "nccl", 5, 10), "all_reduce", 1, 8, 2);
  EXPECT_EQ(matchCollectives(twice.trace).at(0).why_not, "rank 0 is in the trace twice");
}

TEST(Collectives, NumbersThatWereOnlyCountedMustBeCountedAlike) {
  TraceBuilder b;
  b.rank(0, "a"), b.rank(1, "b");
  for (int i = 0; i < 5; ++i)
    for (int r = 0; r < 2; ++r) {
      if (r == 1 && i == 4) continue;  // its file ends one earlier, or begins one later: who knows
      b.collective(r, b.kernel(r, "nccl", 1000.0 * i, 1000.0 * i + 100), "all_reduce", i, 64, 2);
      b.trace.collectives.back().sequence_by_order = true;
    }
  EXPECT_EQ(miscountedGroups(b.trace).size(), 1u);
  EXPECT_NE(matchCollectives(b.trace)[0].why_not.find("count alike"), std::string::npos);
  EXPECT_FALSE(align(b.trace));
  b.collective(1, b.kernel(1, "nccl", 4000, 4100), "all_reduce", 4, 64, 2);
  b.trace.collectives.back().sequence_by_order = true;
  EXPECT_TRUE(miscountedGroups(b.trace).empty());
  EXPECT_EQ(matchCollectives(b.trace)[0].why_not, "");
  EXPECT_TRUE(align(b.trace));
  b.trace.collectives.back().kind = b.trace.strings.intern("all_gather");
  EXPECT_EQ(miscountedGroups(b.trace).size(), 1u);
}

TEST(Collectives, OfAGroupOfUnknownSizeInAPartOfTheRanksAreNotJudged) {
  TraceBuilder b;
  for (int r = 0; r < 2; ++r) {
    b.rank(r), b.trace.ranks.back().world = 128;
    b.collective(r, b.kernel(r, "nccl", 0, 10), "all_reduce", 1);
  }
  EXPECT_NE(matchCollectives(b.trace)[0].why_not.find("2 of 128 ranks"), std::string::npos);
}

TEST(Collectives, AreNotSplitOnDifferentClocks) {
  TraceBuilder b = twoClocks(2, 5, 0);
  const auto all = matchCollectives(b.trace, false, "refused");
  EXPECT_EQ(all[0].why_not, "refused");
  EXPECT_EQ(all[0].parts[0].wait_ns, kUnknown);
}

TEST(FieldCases, TR_15_a_cut_list_of_ranks_is_never_taken_as_complete) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  for (const auto r : {r0, r1}) {
    b.collective(r, b.kernel(r, "nccl", 10 * r, 30), "all_gather", 1, 64, 2);
    b.trace.collectives.back().group_size_at_least = true;
  }
  const auto all = matchCollectives(b.trace);
  EXPECT_EQ(all[0].why_not, "its group has at least 2 ranks");
  EXPECT_FALSE(all[0].bus_gbps.has_value());
}

TEST(Collectives, BusBandwidthHasTheFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(busFactor("all_reduce", 4).bandwidth, 1.5);
  EXPECT_DOUBLE_EQ(busFactor("_allgather_base", 4).bandwidth, 0.75);
  EXPECT_DOUBLE_EQ(busFactor("_allgather_base", 4).bytes, 4);
  EXPECT_DOUBLE_EQ(busFactor("ReduceScatter", 4).bandwidth, 0.75);
  EXPECT_DOUBLE_EQ(busFactor("all-to-all", 8).bandwidth, 0.875);
  EXPECT_DOUBLE_EQ(busFactor("broadcast", 8).bandwidth, 1);
  TraceBuilder b;
  for (int r = 0; r < 4; ++r) {
    b.rank(r);
    b.collective(r, b.kernel(r, "nccl", 10.0 * r, 130), "all_reduce", 1, 1'000'000, 4);
  }
  const auto all = matchCollectives(b.trace);
  EXPECT_DOUBLE_EQ(all[0].bus_gbps.value(), 1e6 / 100'000 * 1.5);  // of the transfer, 30 to 130 us
  const auto totals = collectiveTotals(b.trace, all);
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals[0].count, 1);
  EXPECT_EQ(totals[0].parts, 4);
  EXPECT_EQ(totals[0].bytes, 4'000'000);
  EXPECT_EQ(totals[0].wait_ns, 60'000);
  EXPECT_EQ(totals[0].transfer_ns, 400'000);
  EXPECT_EQ(totals[0].duration_ns, 460'000);
}

TEST(FieldCases, TR_31_a_collective_without_size_has_no_bandwidth_rather_than_none) {
  TraceBuilder b;
  for (int r = 0; r < 2; ++r) {
    b.rank(r);
    b.collective(r, b.kernel(r, "ncclDevKernel_AllGather", 0, 100), "all_gather", 1, kUnknown, 2);
    b.collective(r, b.kernel(r, "ncclDevKernel_AllGather", 200, 300), "all_gather", 2, r == 0 ? 100 : kUnknown, 2);
  }
  const auto all = matchCollectives(b.trace);
  EXPECT_FALSE(all[0].bus_gbps.has_value());
  EXPECT_EQ(all[0].bytes, kUnknown);
  EXPECT_FALSE(all[1].bus_gbps.has_value());  // known on one rank only
  const auto totals = collectiveTotals(b.trace, all);
  EXPECT_EQ(totals[0].bytes, 100);
  EXPECT_EQ(totals[0].bytes_unknown, 3);
  EXPECT_FALSE(totals[0].bus_gbps.has_value());
}

}  // namespace
}  // namespace spscope::trace
