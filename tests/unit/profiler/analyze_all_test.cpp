// SPDX-License-Identifier: Apache-2.0
// All analyses together: on anything that a trace can hold, and on many events.
#include "profiler/analyze/analysis.h"

#include <gtest/gtest.h>

#include "profiler/analyze/compare.h"
#include "profiler/analyze/hta.h"
#include "tests/support/random_trace.h"
#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using test::TraceBuilder;

TEST(Analysis, OfAnyTraceEndsAndAddsUp) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Trace trace = RandomTrace(seed).make(seed % 7 == 0 ? 0 : 200, seed % 2 == 0);
    htaBreakdown(trace);
    const auto a = analyze(trace);
    ASSERT_TRUE(a) << a.error().format();
    for (const Breakdown& row : a->breakdown) {
      if (!row.absent.empty()) continue;
      EXPECT_EQ(row.idle_ns + row.compute_ns + row.exposed_communication_ns + row.exposed_memory_ns, row.span_ns);
    }
    EXPECT_EQ(a->path.has_value(), !a->no_path.has_value());
    if (a->path) {
      std::int64_t at = a->path->start_ns;
      for (const PathStep& step : a->path->steps) {
        ASSERT_EQ(step.start_ns, at);
        ASSERT_LT(step.start_ns, step.end_ns);
        at = step.end_ns;
      }
      EXPECT_EQ(at, a->path->end_ns);
    }
    for (const MatchedCollective& c : a->collectives)
      for (const CollectivePart& part : c.parts)
        if (part.wait_ns != kUnknown) {
          EXPECT_GE(part.wait_ns, 0);
          EXPECT_GE(part.transfer_ns, 0);
          EXPECT_EQ(part.wait_ns + part.transfer_ns, part.end_ns - part.start_ns);
        }
  }
}

TEST(Analysis, NothingAtAllIsAnAnswerToo) {
  Trace empty;
  const auto a = analyze(empty);
  ASSERT_TRUE(a);
  EXPECT_TRUE(a->breakdown.empty());
  EXPECT_FALSE(a->overlap.has_value());
  EXPECT_TRUE(a->no_path.has_value());
}

TEST(Analysis, MoreThanOneRankAfterAnotherIsAlignedOnce) {
  TraceBuilder b;
  for (int r = 0; r < 2; ++r) {
    b.rank(r, r == 0 ? "a" : "b");
    for (int i = 0; i < 6; ++i) b.exchange(r, i, 1000.0 * i + 50 * r, 1000.0 * i + 60 * r, 1000.0 * i + 100 + 5e6 * r, 64, 2);
  }
  const auto first = analyze(b.trace);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->alignment.method, "collective-ends");
  const auto starts = b.trace.events.start;
  const auto second = analyze(b.trace);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->alignment.method, "collective-ends");
  EXPECT_EQ(b.trace.events.start, starts);
}

TEST(Analysis, ARefusedAlignmentLeavesWhatEachRankSaysAlone) {
  TraceBuilder b;
  for (int r = 0; r < 2; ++r) {
    b.rank(r);
    b.trace.ranks.back().file = std::to_string(r);
    b.kernel(r, "mm", 1e6 * r, 1e6 * r + 10);
  }
  const auto a = analyze(b.trace);
  ASSERT_TRUE(a);
  ASSERT_TRUE(a->not_aligned.has_value());
  EXPECT_EQ(a->not_aligned->code, "trace-not-alignable");
  EXPECT_EQ(a->no_path->message, "the ranks are not on one clock");
  EXPECT_EQ(a->breakdown[1].compute_ns, 10'000);
}

TEST(Analysis, IsCancelled) {
  TraceBuilder b;
  b.rank(0);
  b.kernel(0, "mm", 0, 1);
  CancelToken cancel;
  cancel.cancel();
  const auto a = analyze(b.trace, cancel);
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, "cancelled");
}

TEST(Analysis, CountsWhatItFindsWrong) {
  TraceBuilder b;
  b.rank(0);
  b.call(0, 1, 13, 14), b.kernel(0, "early", 10, 20, 7, 1);
  b.kernel(0, "orphan", 30, 40);
  b.kernel(0, "endless", 50, 5000), b.kernel(0, "next", 60, 61);
  const auto a = analyze(b.trace);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->problems.countOf(Problem::kEarlyStart), 1);
  EXPECT_EQ(a->problems.all().at(Problem::kEarlyStart).first, "at most 3.0 us");
  EXPECT_EQ(a->problems.countOf(Problem::kUnmatchedLaunch), 3);
  EXPECT_EQ(a->problems.countOf(Problem::kOutlier), 1);
  EXPECT_EQ(a->without_outliers.at(0).compute_ns, 21'000);
}

}  // namespace
}  // namespace spscope::trace
