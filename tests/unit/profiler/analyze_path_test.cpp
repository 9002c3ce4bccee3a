// SPDX-License-Identifier: Apache-2.0
// The critical path, on pictures whose answer is known. Times are microseconds.
#include <gtest/gtest.h>

#include "core/base/strings.h"
#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/critical_path.h"
#include "profiler/analyze/host_time.h"
#include "profiler/analyze/launches.h"
#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using test::TraceBuilder;

Result<CriticalPath> pathOf(const Trace& t, bool comparable = true) {
  return criticalPath(t, classifyWork(t), matchCollectives(t, comparable), comparable);
}

/// "0 launch mm 5-10; 0 compute mm 10-40"; a trailing ~ where the step before it was inferred.
std::string text(const Trace& t, const CriticalPath& path) {
  std::vector<std::string> out;
  for (const PathStep& s : path.steps)
    out.push_back(strf("%d %s %s %g-%g%s", s.rank, std::string(nameOf(s.kind)).c_str(),
                       s.event == kNoIndex ? "" : std::string(t.strings.text(t.events.name[static_cast<std::size_t>(s.event)])).c_str(),
                       static_cast<double>(s.start_ns) / 1000, static_cast<double>(s.end_ns) / 1000, s.inferred ? "~" : ""));
  return join(out, "; ");
}

void expectWhole(const CriticalPath& path) {
  std::int64_t at = path.start_ns, sum = 0;
  for (const PathStep& s : path.steps) {
    EXPECT_EQ(s.start_ns, at);
    EXPECT_LT(s.start_ns, s.end_ns);
    at = s.end_ns;
  }
  EXPECT_EQ(at, path.end_ns);
  for (const std::int64_t ns : path.ns) sum += ns;
  EXPECT_EQ(sum, path.end_ns - path.start_ns);
}

TEST(CriticalPath, OfOneStreamFollowsLaunchesAndStreamOrder) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.op(r, "aten::mm", 0, 12), b.call(r, 1, 5, 8), b.kernel(r, "mm", 10, 40, 7, 1);
  b.op(r, "aten::add", 12, 20), b.call(r, 2, 15, 18), b.kernel(r, "add", 42, 50, 7, 2);  // queued behind mm
  b.op(r, "aten::tanh", 55, 70), b.call(r, 3, 60, 64), b.kernel(r, "tanh", 66, 90, 7, 3);  // the host was late
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path) << path.error().format();
  EXPECT_EQ(text(b.trace, *path),
            "0 host aten::mm 0-5; 0 host cudaLaunchKernel 5-8; 0 host aten::mm 8-12; 0 host aten::add 12-15; "
            "0 host cudaLaunchKernel 15-18; 0 host aten::add 18-20; 0 gap aten::tanh 20-55; 0 host aten::tanh 55-60; "
            "0 launch tanh 60-66; 0 compute tanh 66-90");
  expectWhole(*path);
  EXPECT_EQ(path->rank_changes, 0);
}

TEST(CriticalPath, ASynchronizationWaitsForTheDevice) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.call(r, 1, 0, 2), b.kernel(r, "mm", 5, 40, 7, 1);
  b.call(r, 0, 3, 44, "cudaDeviceSynchronize");
  b.op(r, "item", 44, 50);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path), "0 launch mm 0-5; 0 compute mm 5-40; 0 host cudaDeviceSynchronize 40-44; 0 host item 44-50");
  expectWhole(*path);
}

TEST(CriticalPath, ACopyThatBlocksItsCallerIsWaitedFor) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.call(r, 1, 0, 2), b.kernel(r, "mm", 5, 40, 7, 1);
  b.call(r, 2, 3, 47, "cudaMemcpyAsync"), b.device(r, Category::kMemcpy, "Memcpy DtoH (Device -> Pageable)", 41, 45, 7, 2);
  b.op(r, "item", 47, 50);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path),
            "0 launch mm 0-5; 0 compute mm 5-40; 0 gap Memcpy DtoH (Device -> Pageable) 40-41; "
            "0 memory Memcpy DtoH (Device -> Pageable) 41-45; 0 host cudaMemcpyAsync 45-47; 0 host item 47-50");
  expectWhole(*path);
}

TEST(CriticalPath, GoesToTheRankThatArrivedLast) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  // rank 0   [mm 0-30][exchange 30 ....... waits ...... 100][mm 100-120]
  // rank 1   [mm 0-20][slow 20-80][exchange 80 ..........101][mm 101-110]
  b.op(r0, "mm", 0, 30), b.exchange(r0, 1, 30, 30, 100, 64, 2), b.op(r0, "mm", 100, 120);
  b.op(r1, "mm", 0, 20), b.op(r1, "slow", 20, 80), b.exchange(r1, 1, 80, 80, 101, 64, 2), b.op(r1, "mm", 101, 110);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path), "1 compute mm 0-20; 1 compute slow 20-80; 0 communication wait 80-100; 0 compute mm 100-120");
  expectWhole(*path);
  EXPECT_EQ(path->rank_changes, 1);
  // Of rank 0's 70 us of exposed communication 20 lie on the path: the rest is waiting for rank 1.
  const auto rows = breakdown(b.trace, classifyWork(b.trace));
  EXPECT_EQ(rows[0].exposed_communication_ns, 70'000);
  EXPECT_EQ(exposedOnPath(*path, r0, rows[0].exposed_communication), 20'000);
  EXPECT_EQ(exposedOnPath(*path, r1, rows[1].exposed_communication), 0);
}

TEST(CriticalPath, AnExchangeUnderComputeIsOnItOnlyWhereItIsWaitedFor) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  for (const auto r : {r0, r1}) {
    b.op(r, "before", 0, 100);
    b.exchange(r, 1, 100, 400, r == r0 ? 405.0 : 404.0, 64, 2);  // hidden: its wait returns at once
    b.op(r, "long", 100, 400);
    b.op(r, "after", 410, 500);
    b.exchange(r, 2, 500, 600, 900, 64, 2);  // not hidden
    b.op(r, "short", 500, 600);
    b.op(r, "end", 900, r == r0 ? 1000.0 : 990.0);
  }
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path),
            "0 compute before 0-100; 0 compute long 100-400; 0 host wait 400-405; 0 gap after 405-410; 0 compute after 410-500; "
            "0 communication wait 500-900; 0 compute end 900-1000");
  expectWhole(*path);
}

TEST(CriticalPath, CollectivesOfDevicesToo) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  const auto run = [&](std::int32_t r, double until, double end) {
    b.call(r, 1, 0, 1), b.kernel(r, "mm", 5, until, 7, 1);
    b.call(r, 2, 2, 3);
    b.collective(r, b.kernel(r, "nccl", until + 2, end, 8, 2), "all_to_all", 1, 64, 2);
  };
  run(r0, 100, 180), run(r1, 150, 178);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  // nccl waits on its stream for mm on the other: no id says so, it is inferred.
  EXPECT_EQ(text(b.trace, *path), "1 launch mm 0-5; 1 compute mm 5-150~; 1 gap nccl 150-152; 0 communication nccl 152-180");
  expectWhole(*path);
  EXPECT_EQ(path->inferred, 1);
}

TEST(CriticalPath, CollectivesMayBeDrawnOnATrackOfTheirOwn) {
  TraceBuilder b;
  const auto r0 = b.rank(0), r1 = b.rank(1);
  const auto run = [&](std::int32_t r, double start, double end) {
    b.op(r, "before", 0, start);
    const EventIndex whole = b.host(r, Category::kCollective, "all_to_all", start, end, 99);
    b.collective(r, whole, "all_to_all", 1, 64, 2, b.host(r, Category::kWait, "wait", start + 1, end));
  };
  run(r0, 30, 200), run(r1, 90, 199);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path), "1 compute before 0-90; 0 communication wait 90-200");
}

TEST(CriticalPath, APythonWaitForGloosThread) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.op(r, "before", 0, 20, 1);
  b.host(r, Category::kPython, "<built-in method wait>", 20, 103, 1);
  b.host(r, Category::kCollective, "gloo:all_to_all", 22, 100, 2);
  b.op(r, "after", 103, 150, 1);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path),
            "0 compute before 0-20; 0 host <built-in method wait> 20-22~; 0 communication gloo:all_to_all 22-100~; 0 host <built-in method wait> 100-103; "
            "0 compute after 103-150");
}

TEST(CriticalPath, AThreadThatAnotherOneWoke) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const EventIndex forward = b.op(r, "forward", 0, 100, 1);
  const EventIndex backward = b.op(r, "backward", 103, 200, 2);
  b.flow(forward, backward);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path), "0 compute forward 0-100; 0 gap backward 100-103; 0 compute backward 103-200");
  b.trace.flows.clear();
  const auto guessed = pathOf(b.trace);
  ASSERT_TRUE(guessed);
  EXPECT_EQ(text(b.trace, *guessed), "0 compute forward 0-100~; 0 gap backward 100-103; 0 compute backward 103-200");
}

TEST(FieldCases, TR_33_all_kernels_of_a_cuda_graph_belong_to_its_one_launch) {
  TraceBuilder b;
  const auto r = b.rank(0);
  const EventIndex launch = b.call(r, 77, 0, 10, "cudaGraphLaunch");
  std::vector<EventIndex> kernels;
  for (int i = 0; i < 20; ++i) kernels.push_back(b.kernel(r, "k" + std::to_string(i), 12 + 5 * i, 16 + 5 * i, 7 + i % 2, 77));
  const LaunchLinks links = linkLaunches(b.trace);
  std::vector<EventIndex> linked;
  for (EventIndex k = links.first_work[static_cast<std::size_t>(launch)]; k != kNoIndex; k = links.next_work[static_cast<std::size_t>(k)]) linked.push_back(k);
  EXPECT_EQ(linked, kernels);
  EXPECT_EQ(links.unlaunched, 0);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->start_ns, 0);
  EXPECT_EQ(path->end_ns, 111'000);
  expectWhole(*path);
  EXPECT_EQ(path->ns[static_cast<std::size_t>(PathKind::kLaunch)], 12'000);
}

TEST(FieldCases, TR_22_a_kernel_3_us_before_its_launch_stays_on_the_path) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.op(r, "aten::a2a", 0, 20), b.call(r, 1, 13, 15), b.kernel(r, "nccl", 10, 40, 7, 1);
  const auto path = pathOf(b.trace);
  ASSERT_TRUE(path);
  EXPECT_EQ(text(b.trace, *path), "0 host aten::a2a 0-10; 0 communication nccl 10-40");
}

TEST(FieldCases, TR_34_a_critical_path_that_cannot_be_found_says_why) {
  TraceBuilder cycle;
  const auto r = cycle.rank(0);
  const EventIndex a = cycle.op(r, "a", 0, 10, 1), c = cycle.op(r, "c", 5, 15, 2);
  cycle.flow(a, c), cycle.flow(c, a);
  const auto cyclic = pathOf(cycle.trace);
  ASSERT_FALSE(cyclic);
  EXPECT_EQ(cyclic.error().code, "trace-no-critical-path");
  EXPECT_NE(cyclic.error().message.find("\"a\" of rank 0"), std::string::npos) << cyclic.error().message;

  TraceBuilder zero;  // two works of no length that wait for each other
  zero.rank(0);
  const EventIndex k1 = zero.kernel(0, "k1", 10, 10, 7), k2 = zero.kernel(0, "k2", 10, 10, 8);
  zero.kernel(0, "end", 10, 20, 8);
  zero.flow(k1, k2), zero.flow(k2, k1);
  const auto looped = pathOf(zero.trace);
  ASSERT_FALSE(looped);
  EXPECT_NE(looped.error().message.find("cycle"), std::string::npos) << looped.error().message;

  TraceBuilder empty;
  empty.rank(0);
  EXPECT_FALSE(pathOf(empty.trace));

  TraceBuilder apart;
  apart.rank(0), apart.rank(1);
  apart.op(0, "mm", 0, 1), apart.op(1, "mm", 0, 1);
  EXPECT_EQ(pathOf(apart.trace, false).error().message, "the ranks are not on one clock");
}

TEST(FieldCases, TR_34_a_device_clock_that_is_seconds_off_is_a_failure_not_an_empty_path) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.call(r, 1, 5'000'000, 5'000'002);
  b.kernel(r, "mm", 0, 40, 7, 1);
  b.kernel(r, "last", 5'000'100, 5'000'200, 7, 1);
  b.trace.events.correlation[2] = 0;
  const auto path = pathOf(b.trace);
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find("clocks do not fit"), std::string::npos) << path.error().message;
}

TEST(HostTime, IsOfTheInnermostEvent) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.op(r, "outer", 0, 100), b.op(r, "inner", 20, 50), b.call(r, 1, 30, 40);
  b.op(r, "crossing", 90, 120);  // does not nest: the later one counts
  b.host(r, Category::kRange, "step", 0, 500);
  const auto time = hostTime(b.trace);
  std::string out;
  for (const Stretch& s : time[0])
    out += strf("%s %lld-%lld; ", std::string(b.trace.strings.text(b.trace.events.name[static_cast<std::size_t>(s.event)])).c_str(),
                static_cast<long long>(s.start / 1000), static_cast<long long>(s.end / 1000));
  EXPECT_EQ(out, "outer 0-20; inner 20-30; cudaLaunchKernel 30-40; inner 40-50; outer 50-90; crossing 90-120; ");
}

}  // namespace
}  // namespace spscope::trace
