// SPDX-License-Identifier: Apache-2.0
// Numbers of foreign files are bounded so that sums and differences fit; a real trace stays as it is.
#include "profiler/trace/bounds.h"

#include <gtest/gtest.h>

#include <limits>

#include "profiler/trace/trace.h"

namespace spscope::trace {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNow = 1'790'000'000'000'000'000;  // ns since 1970: late in 2026

Trace traceOf(std::initializer_list<std::pair<std::int64_t, std::int64_t>> spans) {
  Trace trace;
  trace.ranks.emplace_back();
  const TrackIndex track = trace.thread(0, 1, 1);
  for (const auto& [start, end] : spans) trace.add({.start = start, .end = end, .track = track});
  return trace;
}

TEST(Bounds, ARealTraceStaysAsItIs) {
  Trace trace = traceOf({{kNow, kNow + 3'600'000'000'000}, {kNow + 5, kNow + 86'400'000'000'000}});
  trace.events.bytes = {std::int64_t{8} << 40, kUnknown};
  trace.memory.push_back({.time = kNow, .bytes = -(std::int64_t{1} << 40)});
  trace.nodes.push_back({.flops = 1'000'000'000'000'000'000});
  const Events events = trace.events;
  const auto memory = trace.memory;
  keepInBounds(trace);
  EXPECT_EQ(trace.events, events);
  EXPECT_EQ(trace.memory, memory);
  EXPECT_EQ(trace.nodes[0].flops, 1'000'000'000'000'000'000);
  EXPECT_EQ(trace.problems.countOf(Problem::kOutOfRange), 0);
}

TEST(Bounds, TimesBeyondTheCenturyAreMovedAndTheirEventsMarked) {
  Trace trace = traceOf({{std::numeric_limits<std::int64_t>::min() + 1, kMax}, {kNow, kNow + 7}});
  keepInBounds(trace);
  EXPECT_EQ(trace.events.start[0], -kFarthestTime);
  EXPECT_EQ(trace.events.end[0], -kFarthestTime) << "its duration alone is more than all may be together";
  EXPECT_TRUE(trace.events.flags[0] & kRepaired);
  EXPECT_EQ(trace.events.end[1] - trace.events.start[1], 7);
  EXPECT_FALSE(trace.events.flags[1] & kRepaired);
  EXPECT_EQ(trace.problems.countOf(Problem::kOutOfRange), 3);
}

TEST(Bounds, SumsOfSizesFitAndUnknownOnesStayUnknown) {
  Trace trace = traceOf({{0, 1}, {0, 1}, {0, 1}});
  trace.events.bytes = {kMax, kUnknown, 100};
  trace.memory = {{.bytes = kMax - 1}, {.bytes = -kMax}, {.bytes = 64}, {.bytes = kUnknown}};
  trace.nodes = {{.flops = kMax, .predicted_ns = 5}, {.flops = 3, .predicted_ns = kUnknown}};
  keepInBounds(trace);
  EXPECT_EQ(trace.events.bytes, (std::vector<std::int64_t>{kUnknown, kUnknown, 100}));
  EXPECT_EQ(trace.memory[0].bytes, 0);
  EXPECT_EQ(trace.memory[1].bytes, 0);
  EXPECT_EQ(trace.memory[2].bytes, 64);
  EXPECT_EQ(trace.memory[3].bytes, 0);
  EXPECT_EQ(trace.nodes[0].flops, kUnknown);
  EXPECT_EQ(trace.nodes[1].flops, 3);
  EXPECT_EQ(trace.nodes[0].predicted_ns, 5);
  EXPECT_EQ(trace.problems.countOf(Problem::kOutOfRange), 5);
}

}  // namespace
}  // namespace spscope::trace
