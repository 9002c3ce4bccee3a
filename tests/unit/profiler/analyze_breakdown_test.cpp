// SPDX-License-Identifier: Apache-2.0
// Where the time goes: intervals, classes, breakdown, idle reasons, outliers. Times of the pictures are microseconds.
#include "profiler/analyze/breakdown.h"

#include <gtest/gtest.h>

#include <random>

#include "profiler/analyze/launches.h"
#include "profiler/analyze/outliers.h"
#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using test::TraceBuilder;

std::vector<Breakdown> rows(const Trace& trace) { return breakdown(trace, classifyWork(trace)); }

void expectSums(const Breakdown& row) {
  EXPECT_EQ(row.idle_ns + row.compute_ns + row.exposed_communication_ns + row.exposed_memory_ns, row.span_ns);
  EXPECT_EQ(row.idle_why.host_ns + row.idle_why.launch_ns + row.idle_why.queued_ns + row.idle_why.unknown_ns, row.idle_ns);
}

TEST(Intervals, AgreeWithInstantsOneByOne) {
  std::mt19937 random(7);
  const auto make = [&] {
    std::vector<Interval> out;
    for (int i = 0; i < 12; ++i) {
      const std::int64_t start = random() % 60;
      out.push_back({start, start + static_cast<std::int64_t>(random() % 8)});
    }
    return out;
  };
  const auto holds = [](const std::vector<Interval>& set, std::int64_t t) {
    return std::any_of(set.begin(), set.end(), [&](const Interval& i) { return i.start <= t && t < i.end; });
  };
  for (int round = 0; round < 300; ++round) {
    const auto a = make(), b = make();
    const Intervals ua = unionOf(a), ub = unionOf(b), both = intersection(ua, ub), less = difference(ua, ub);
    std::int64_t length = 0;
    for (std::int64_t t = 0; t < 70; ++t) {
      length += holds(a, t);
      ASSERT_EQ(holds(ua, t), holds(a, t));
      ASSERT_EQ(holds(both, t), holds(a, t) && holds(b, t));
      ASSERT_EQ(holds(less, t), holds(a, t) && !holds(b, t));
    }
    ASSERT_EQ(lengthOf(ua), length);
    for (std::size_t i = 1; i < ua.size(); ++i) ASSERT_LT(ua[i - 1].end, ua[i].start);
  }
}

TEST(Breakdown, ADeviceWhoseTimesAreCountedByHand) {
  TraceBuilder b;
  const auto r = b.rank(0);
  //            0    10   20   30   40   50   60   70   80   90  100
  // stream 7   [mm 0-30]           [mm 50-70]         [mm 90-100]
  // stream 8        [nccl 20-60]
  // stream 9                            [copy 55-80]
  b.call(r, 1, -5, -4), b.kernel(r, "mm", 0, 30, 7, 1);
  b.call(r, 2, 10, 11), b.kernel(r, "ncclDevKernel_SendRecv(x)", 20, 60, 8, 2);
  b.call(r, 3, 12, 13), b.kernel(r, "mm", 50, 70, 7, 3);
  b.call(r, 4, 13, 14), b.device(r, Category::kMemcpy, "Memcpy HtoD", 55, 80, 9, 4);
  b.call(r, 5, 86, 87), b.kernel(r, "mm", 90, 100, 7, 5);
  b.op(r, "aten::mm", -6, 200);  // on a rank with a device, host ops do not count
  const auto all = rows(b.trace);
  ASSERT_EQ(all.size(), 1u);
  const Breakdown& row = all[0];
  EXPECT_FALSE(row.lane.host);
  EXPECT_EQ(row.lane.device, 0);
  EXPECT_EQ(row.span_ns, 100'000);
  EXPECT_EQ(row.compute_ns, 60'000);
  EXPECT_EQ(row.communication_ns, 40'000);
  EXPECT_EQ(row.exposed_communication_ns, 20'000);  // 30-50
  EXPECT_EQ(row.memory_ns, 25'000);
  EXPECT_EQ(row.exposed_memory_ns, 10'000);         // 70-80
  EXPECT_EQ(row.idle_ns, 10'000);                   // 80-90
  EXPECT_EQ(row.idle_why.host_ns, 6'000);
  EXPECT_EQ(row.idle_why.launch_ns, 4'000);
  EXPECT_DOUBLE_EQ(row.overlap.value(), 0.5);
  EXPECT_EQ(row.communication_events, 1);
  ASSERT_EQ(row.exposed_communication.size(), 1u);
  EXPECT_EQ(row.exposed_communication[0], (Interval{30'000, 50'000}));
  expectSums(row);
}

TEST(Breakdown, IdleTimeIsSplitByWhatTheLaunchTells) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.kernel(r, "a", 0, 10);                             // no launch recorded
  b.kernel(r, "b", 15, 20);                            // 5 idle: unknown
  b.call(r, 1, 12, 13), b.kernel(r, "c", 30, 40, 7, 1);  // 10 idle: launched before the gap, so it was queued
  b.call(r, 2, 47, 48), b.kernel(r, "d", 50, 60, 7, 2);  // 7 of the host, 3 of the launch
  b.call(r, 3, 72, 73), b.kernel(r, "e", 70, 80, 7, 3);  // starts before its launch by the clocks: all of the host
  const Breakdown row = rows(b.trace).at(0);
  EXPECT_EQ(row.idle_why.unknown_ns, 5'000);
  EXPECT_EQ(row.idle_why.queued_ns, 10'000);
  EXPECT_EQ(row.idle_why.host_ns, 7'000 + 10'000);
  EXPECT_EQ(row.idle_why.launch_ns, 3'000);
  expectSums(row);
}

TEST(Breakdown, OnAHostOperatorsComputeAndWaitsAreExposed) {
  TraceBuilder b;
  const auto r = b.rank(0);
  // thread 1   [mm 0-20] [mm 30-50][sp.wait 50-80: waits 52-78] [mm 90-100]
  // exchange             [30 ................................78]
  b.op(r, "mm", 0, 20);
  b.op(r, "mm", 30, 50);
  b.op(r, "sp.wait", 50, 80);
  b.exchange(r, 1, 30, 52, 78);
  b.op(r, "mm", 90, 100);
  const Breakdown row = rows(b.trace).at(0);
  EXPECT_TRUE(row.lane.host);
  EXPECT_EQ(row.span_ns, 100'000);
  EXPECT_EQ(row.compute_ns, 20'000 + 20'000 + 2'000 + 2'000 + 10'000);
  EXPECT_EQ(row.communication_ns, 48'000);
  EXPECT_EQ(row.exposed_communication_ns, 26'000);
  EXPECT_EQ(row.memory_ns, 0);
  EXPECT_EQ(row.idle_ns, 20'000);
  EXPECT_DOUBLE_EQ(row.overlap.value(), 22.0 / 48.0);
  expectSums(row);
}

TEST(Breakdown, WhatAnotherThreadComputesHidesTheWait) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.op(r, "sp.wait", 0, 40), b.exchange(r, 1, 0, 0, 40);
  b.op(r, "mm", 10, 25, 2);
  const Breakdown row = rows(b.trace).at(0);
  EXPECT_EQ(row.compute_ns, 15'000);
  EXPECT_EQ(row.exposed_communication_ns, 25'000);
  expectSums(row);
}

TEST(Breakdown, EachDeviceOfARankIsALane) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  b.kernel(r0, "a", 0, 10, 7, 0, 0);
  b.kernel(r0, "a", 0, 30, 7, 0, 1);
  b.op(r1, "mm", 5, 9);
  const auto all = rows(b.trace);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].span_ns, 10'000);
  EXPECT_EQ(all[1].span_ns, 30'000);
  EXPECT_EQ(all[1].lane.device, 1);
  EXPECT_TRUE(all[2].lane.host);
  EXPECT_EQ(all[2].span_ns, 4'000);
}

TEST(Breakdown, RandomTracesAddUpExactly) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    TraceBuilder b;
    const auto r = b.rank(0);
    const bool host = round % 2 == 0;
    for (int i = 0; i < 60; ++i) {
      const double start = static_cast<double>(random() % 100'000) / 1000, end = start + static_cast<double>(random() % 9'000) / 1000;
      switch (random() % 3) {
        case 0: host ? b.op(r, "mm", start, end, 1 + random() % 2) : b.kernel(r, "mm", start, end, 7 + random() % 2); break;
        case 1: host ? b.host(r, Category::kWait, "w", start, end) : b.kernel(r, "ncclKernel", start, end, 9); break;
        default: host ? b.host(r, Category::kCollective, "c", start, end) : b.device(r, Category::kMemset, "m", start, end, 10); break;
      }
    }
    expectSums(rows(b.trace).at(0));
  }
}

TEST(FieldCases, TR_09_kernels_that_overlap_on_one_stream_both_count) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.kernel(r, "first", 0, 11), b.kernel(r, "second", 10, 20);
  const Breakdown row = rows(b.trace).at(0);
  EXPECT_EQ(row.events, 2);
  EXPECT_EQ(row.compute_ns, 20'000);
  EXPECT_TRUE(findOutliers(b.trace).events.empty());
}

TEST(FieldCases, TR_12_a_rank_without_anything_to_count_is_absent_not_zero) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.host(r, Category::kRange, "step", 0, 10);
  const Breakdown row = rows(b.trace).at(0);
  EXPECT_FALSE(row.absent.empty());
  EXPECT_EQ(row.span_ns, kUnknown);
  EXPECT_EQ(row.compute_ns, kUnknown);
  EXPECT_FALSE(row.overlap.has_value());
}

TEST(FieldCases, TR_32_overlap_without_communication_is_no_number) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.kernel(r, "mm", 0, 10);
  const Breakdown row = rows(b.trace).at(0);
  EXPECT_EQ(row.communication_ns, 0);
  EXPECT_FALSE(row.overlap.has_value());
}

TEST(FieldCases, TR_21_impossible_durations_are_flagged_ranked_and_left_out_on_request) {
  TraceBuilder b;
  const auto r = b.rank(0);
  for (int i = 0; i < 100; ++i) b.kernel(r, "mm", 10 * i, 10 * i + 8);
  const EventIndex worse = b.kernel(r, "softmax", 208.5, 9000);  // the next starts at 210
  const EventIndex bad = b.kernel(r, "softmax", 408.5, 5000);
  const EventIndex told = b.kernel(r, "last", 20'000, 20'001);
  b.trace.events.flags[static_cast<std::size_t>(told)] = kImpossible;
  const Outliers out = findOutliers(b.trace);
  ASSERT_EQ(out.events.size(), 3u);
  EXPECT_EQ(out.events[0].event, worse);
  EXPECT_EQ(out.events[0].duration_ns, 8'791'500);
  EXPECT_EQ(out.events[0].fits_ns, 1'500);
  EXPECT_EQ(out.events[1].event, bad);
  EXPECT_EQ(out.events[2].event, told);
  EXPECT_TRUE(out.events[2].flagged_by_reader);
  EXPECT_EQ(out.device_ns, 800'000 + out.duration_ns);
  const WorkMap map = classifyWork(b.trace);
  EXPECT_EQ(breakdown(b.trace, map).at(0).compute_ns, 8'000 * 21 + 8'791'500 + 1'000);
  const Breakdown without = breakdown(b.trace, map, out.left_out).at(0);
  EXPECT_EQ(without.compute_ns, 800'000);
  EXPECT_EQ(without.span_ns, 998'000);
  expectSums(without);
}

TEST(FieldCases, TR_21_branches_of_a_cuda_graph_may_overlap_on_one_stream) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const EventIndex wide = b.kernel(r, "wide", 0, 100);
  b.kernel(r, "side", 10, 20);
  b.trace.launches.push_back({.graph_node = 5});
  EXPECT_EQ(findOutliers(b.trace).events.size(), 1u);
  b.trace.events.detail[static_cast<std::size_t>(wide)] = 0;
  EXPECT_TRUE(findOutliers(b.trace).events.empty());
}

TEST(FieldCases, TR_22_work_that_starts_before_its_launch_is_linked_by_id_and_the_skew_shown) {
  TraceBuilder b;
  const auto r = b.rank(0), other = b.rank(1);
  const EventIndex elsewhere = b.call(other, 9, 0, 1);  // the same id on another rank is another launch
  const EventIndex call = b.call(r, 9, 13, 15);
  const EventIndex kernel = b.kernel(r, "ncclDevKernel_SendRecv", 10, 40, 8, 9);
  const LaunchLinks links = linkLaunches(b.trace);
  EXPECT_EQ(links.launch[static_cast<std::size_t>(kernel)], call);
  EXPECT_EQ(links.first_work[static_cast<std::size_t>(elsewhere)], kNoIndex);
  EXPECT_EQ(links.early, 1);
  EXPECT_EQ(links.worst_early_ns, 3'000);
}

TEST(FieldCases, TR_23_kernels_from_before_the_capture_count_and_their_missing_launch_is_told) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.trace.ranks[0].first_ns = 100'000;
  b.kernel(r, "early", 90, 99, 7, 4);
  b.call(r, 5, 100, 101), b.kernel(r, "mm", 110, 120, 7, 5);
  EXPECT_EQ(rows(b.trace).at(0).span_ns, 30'000);
  EXPECT_EQ(rows(b.trace).at(0).events, 2);
  EXPECT_EQ(linkLaunches(b.trace).unlaunched, 1);
}

}  // namespace
}  // namespace spscope::trace
