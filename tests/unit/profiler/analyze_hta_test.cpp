// SPDX-License-Identifier: Apache-2.0
// Holistic Trace Analysis' definitions on traces made by hand.
#include "profiler/analyze/hta.h"

#include <gtest/gtest.h>

#include "tests/support/trace_builder.h"

namespace spscope::trace {
namespace {

using test::TraceBuilder;

TEST(Hta, RoundsInwardsWhereTimesHaveDecimals) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.kernel(r, "mm", 10.2, 20.9);            // 11 to 20
  b.kernel(r, "tiny", 30.1, 30.9);          // vanishes
  b.kernel(r, "ncclDevKernel", 15.5, 40.1, 8);  // 16 to 40
  b.device(r, Category::kMemcpy, "Memcpy HtoD", 45, 50, 9);
  const auto ints = htaBreakdown(b.trace).at(0);
  EXPECT_EQ(ints.kernel_us, 40);
  b.trace.ranks[0].fractional_us = true;
  const auto row = htaBreakdown(b.trace).at(0);
  EXPECT_EQ(row.kernel_us, 39);      // 11 to 50
  EXPECT_EQ(row.idle_us, 5);
  EXPECT_EQ(row.compute_us, 9);
  EXPECT_EQ(row.non_compute_us, 25);
  EXPECT_EQ(row.communication_us, 24);
  EXPECT_DOUBLE_EQ(row.overlap.value(), 4.0 / 24);
}

TEST(Hta, LeavesTheLastOfSeveralStepsOut) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.host(r, Category::kRange, "ProfilerStep#5", 0, 100);
  b.call(r, 1, 10, 11), b.kernel(r, "mm", 20, 30, 7, 1);
  b.call(r, 2, 110, 111), b.kernel(r, "mm", 120, 140, 7, 2);
  EXPECT_EQ(htaBreakdown(b.trace).at(0).kernel_us, 120);
  b.host(r, Category::kRange, "ProfilerStep#6", 100, 200);
  EXPECT_EQ(htaBreakdown(b.trace).at(0).kernel_us, 10);
}

TEST(Hta, UndoesTheAlignmentAndTheBase) {
  TraceBuilder b;
  b.rank(0);
  b.trace.ranks[0].base_ns = 777;
  b.trace.ranks[0].fractional_us = true;
  b.kernel(0, "mm", 10.2 + 0.777, 20.9 + 0.777);
  EXPECT_EQ(htaBreakdown(b.trace).at(0).kernel_us, 9);
  for (auto* times : {&b.trace.events.start, &b.trace.events.end}) (*times)[0] += 333;
  b.trace.ranks[0].clock.offset_ns = 333;
  EXPECT_EQ(htaBreakdown(b.trace).at(0).kernel_us, 9);
}

TEST(Hta, WithoutDeviceWorkTheAnswerIsAbsent) {
  TraceBuilder b;
  const auto r = b.rank(0);
  b.op(r, "aten::mm", 0, 10);
  const auto row = htaBreakdown(b.trace).at(0);
  EXPECT_EQ(row.absent, "no device work was recorded");
  EXPECT_EQ(row.idle_us, kUnknown);
}

}  // namespace
}  // namespace spscope::trace
