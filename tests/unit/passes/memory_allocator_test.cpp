// SPDX-License-Identifier: Apache-2.0
// The replay of PyTorch's caching allocator against traces that were worked out by hand from its rules, and what holds for
// every sequence of requests. tests/unit/torch/caching_allocator_test.cpp holds it against torch's own.
#include "passes/memory/allocation_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "core/base/strings.h"
#include "tests/support/joint_builder.h"

namespace spscope::passes {
namespace {

using testing::llamaJoint;
using testing::smallShape;

constexpr std::int64_t kMiB = 1 << 20;
constexpr CachingOptions kExpandable{.expandable = true};

CachingOptions only(std::int64_t capacity, bool expandable = false) { return {.capacity = capacity, .expandable = expandable}; }

TEST(CachingAllocator, SmallRequestsShareSegmentsOf2MiB) {
  CachingAllocator a({});
  EXPECT_EQ(a.allocate(1), 0);
  EXPECT_EQ(a.allocated(), 512);
  EXPECT_EQ(a.requested(), 1);
  EXPECT_EQ(a.reserved(), 2 * kMiB);
  EXPECT_EQ(a.allocate(513), 512);
  EXPECT_EQ(a.allocated(), 512 + 1024);
  EXPECT_EQ(a.allocate(kMiB), 1536);
  EXPECT_EQ(a.reserved(), 2 * kMiB);
  EXPECT_EQ(a.largestFree(), kMiB - 1536);
  EXPECT_EQ(a.allocate(kMiB), 2 * kMiB) << "1 MiB does not fit behind the others";
  EXPECT_EQ(a.reserved(), 4 * kMiB);
  EXPECT_EQ(a.segments(), 2);
}

TEST(CachingAllocator, Under10MiBShare20MiBAndLargerOnesHaveTheirOwn) {
  CachingAllocator a({});
  EXPECT_EQ(a.allocate(kMiB + 1), 0);
  EXPECT_EQ(a.allocated(), kMiB + 512);
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  EXPECT_EQ(a.allocate(10 * kMiB - 512), kMiB + 512);
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  EXPECT_EQ(a.allocate(10 * kMiB), 20 * kMiB) << "9 MiB are left";
  EXPECT_EQ(a.reserved(), 30 * kMiB);
  EXPECT_EQ(a.allocate(10 * kMiB + 1), 30 * kMiB);
  EXPECT_EQ(a.reserved(), 42 * kMiB) << "a multiple of 2 MiB";
}

TEST(CachingAllocator, LargeBlocksAreSplitWhereMoreThan1MiBRemains) {
  CachingAllocator a({});
  a.allocate(11 * kMiB);
  EXPECT_EQ(a.allocated(), 12 * kMiB) << "1 MiB remains: it belongs to the block";
  EXPECT_EQ(a.requested(), 11 * kMiB);
  EXPECT_EQ(a.largestFree(), 0);
  a.allocate(11 * kMiB - 512);
  EXPECT_EQ(a.allocated(), 23 * kMiB - 512);
  EXPECT_EQ(a.largestFree(), kMiB + 512);
}

TEST(CachingAllocator, TheSmallestThatIsLargeEnoughAndAmongEqualsTheLowest) {
  CachingAllocator a({});
  const std::int64_t b30 = *a.allocate(30 * kMiB), b20 = *a.allocate(20 * kMiB), b24 = *a.allocate(24 * kMiB), second24 = *a.allocate(24 * kMiB);
  for (const std::int64_t block : {b30, b24, second24, b20}) a.free(block);
  EXPECT_EQ(a.allocated(), 0);
  EXPECT_EQ(a.requested(), 0);
  EXPECT_EQ(a.reserved(), 98 * kMiB) << "it is kept";
  EXPECT_EQ(a.allocate(22 * kMiB), b24);
  EXPECT_EQ(a.allocate(20 * kMiB), b20);
  EXPECT_EQ(a.allocate(2 * kMiB), b24 + 22 * kMiB) << "what the first has left";
  EXPECT_EQ(a.reserved(), 98 * kMiB);
}

TEST(CachingAllocator, FreeNeighboursBecomeOne) {
  CachingAllocator a({});
  a.free(*a.allocate(40 * kMiB));
  const std::int64_t first = *a.allocate(12 * kMiB), second = *a.allocate(12 * kMiB), third = *a.allocate(12 * kMiB);
  EXPECT_EQ(second, 12 * kMiB);
  EXPECT_EQ(third, 24 * kMiB);
  EXPECT_EQ(a.largestFree(), 4 * kMiB);
  a.free(third);
  EXPECT_EQ(a.largestFree(), 16 * kMiB) << "with what was left behind it";
  a.free(first);
  EXPECT_EQ(a.largestFree(), 16 * kMiB) << "12 are between them";
  EXPECT_EQ(a.allocate(14 * kMiB), third);
  a.free(second);
  EXPECT_EQ(a.largestFree(), 24 * kMiB);
  EXPECT_EQ(a.allocate(24 * kMiB), 0);
  EXPECT_EQ(a.reserved(), 40 * kMiB);
  // Neighbours by address only: segments never become one.
  CachingAllocator b({});
  const std::int64_t one = *b.allocate(12 * kMiB), two = *b.allocate(12 * kMiB);
  b.free(one);
  b.free(two);
  EXPECT_EQ(b.largestFree(), 12 * kMiB);
}

TEST(CachingAllocator, StreamsDoNotShare) {
  CachingAllocator a({});
  a.free(*a.allocate(12 * kMiB, 1));
  EXPECT_EQ(a.allocate(12 * kMiB, 0), 12 * kMiB);
  EXPECT_EQ(a.reserved(), 24 * kMiB);
  EXPECT_EQ(a.allocate(12 * kMiB, 1), 0);
  EXPECT_EQ(a.reserved(), 24 * kMiB);
}

TEST(CachingAllocator, WhatAnotherStreamUsedWaitsForIt) {
  CachingAllocator a({});
  const std::int64_t block = *a.allocate(12 * kMiB);
  const std::vector<int> others{1, 2, 0};  // 0 is its own: nothing to wait for
  a.free(block, others);
  EXPECT_EQ(a.allocated(), 0) << "freed, but not to be had";
  EXPECT_EQ(a.largestFree(), 0);
  EXPECT_EQ(a.allocate(12 * kMiB), 12 * kMiB);
  a.reached(1);
  EXPECT_EQ(a.allocate(12 * kMiB), 24 * kMiB) << "stream 2 has not come by";
  a.reached(2);
  EXPECT_EQ(a.allocate(12 * kMiB), block);
  EXPECT_EQ(a.reserved(), 36 * kMiB);
}

TEST(CachingAllocator, WhereTheDeviceEndsWholeSegmentsGoBack) {
  CachingAllocator a(only(30 * kMiB));
  a.free(*a.allocate(20 * kMiB));
  EXPECT_TRUE(a.allocate(24 * kMiB)) << "the 20 went back";
  EXPECT_EQ(a.retries(), 1);
  EXPECT_EQ(a.reserved(), 24 * kMiB);
  // A segment in use by its smallest part does not.
  CachingAllocator b(only(30 * kMiB));
  b.free(*b.allocate(20 * kMiB));
  const std::int64_t part = *b.allocate(10 * kMiB);
  EXPECT_EQ(b.reserved(), 20 * kMiB);
  EXPECT_FALSE(b.allocate(14 * kMiB));
  EXPECT_EQ(b.reserved(), 20 * kMiB);
  EXPECT_EQ(b.allocated(), 10 * kMiB);
  b.free(part);
  EXPECT_TRUE(b.allocate(14 * kMiB));
  // The wait for the device is one for all its streams.
  CachingAllocator c(only(30 * kMiB));
  const std::vector<int> other{1};
  c.free(*c.allocate(20 * kMiB), other);
  EXPECT_TRUE(c.allocate(24 * kMiB));
  // Nothing is lost by a request that cannot be.
  EXPECT_FALSE(c.allocate(31 * kMiB));
  EXPECT_EQ(c.allocated(), 24 * kMiB);
}

TEST(CachingAllocator, ExpandableSegmentsGrowByPages) {
  CachingAllocator a(kExpandable);
  const std::int64_t first = *a.allocate(12 * kMiB);
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  const std::int64_t second = *a.allocate(12 * kMiB);
  EXPECT_EQ(second, 12 * kMiB) << "the 8 MiB that were left, and 4 of a new page";
  EXPECT_EQ(a.reserved(), 40 * kMiB);
  a.free(first);
  a.free(second);
  EXPECT_EQ(a.allocate(39 * kMiB + kMiB / 2), 0) << "what were two blocks is one";
  EXPECT_EQ(a.largestFree(), kMiB / 2) << "split at 512 B";
  EXPECT_EQ(a.reserved(), 40 * kMiB);
  a.allocate(1);
  EXPECT_EQ(a.reserved(), 42 * kMiB) << "small ones have a segment of their own, with pages of 2 MiB";
  EXPECT_EQ(a.segments(), 2);
  a.allocate(kMiB + 512, 1);
  EXPECT_EQ(a.reserved(), 62 * kMiB) << "and so has every stream";
}

TEST(CachingAllocator, ExpandableSegmentsKeepTheirEndForThoseThatGrow) {
  for (const bool expandable : {false, true}) {
    CachingAllocator a({.expandable = expandable});
    if (!expandable) a.free(*a.allocate(20 * kMiB));
    const std::int64_t hole = *a.allocate(14 * kMiB);
    a.allocate(3 * kMiB / 2);
    a.free(hole);
    EXPECT_EQ(a.reserved(), 20 * kMiB);
    EXPECT_EQ(a.allocate(4 * kMiB), expandable ? 0 : 31 * kMiB / 2) << "4.5 MiB at the end fit better, but they can grow";
  }
}

TEST(CachingAllocator, WholePagesOfExpandableSegmentsGoBack) {
  CachingAllocator a(kExpandable);
  const std::int64_t first = *a.allocate(12 * kMiB), second = *a.allocate(12 * kMiB), third = *a.allocate(12 * kMiB);
  EXPECT_EQ(a.reserved(), 40 * kMiB);
  a.free(second);
  a.releaseCached();
  EXPECT_EQ(a.reserved(), 40 * kMiB) << "both pages are in use";
  a.free(third);
  a.releaseCached();
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  EXPECT_EQ(a.largestFree(), 8 * kMiB);
  EXPECT_EQ(a.allocate(24 * kMiB), 12 * kMiB) << "8 MiB and a page in the place of the old one";
  EXPECT_EQ(a.reserved(), 40 * kMiB);
  a.free(first);
  // A page in the middle.
  a.allocate(30 * kMiB);
  EXPECT_EQ(a.reserved(), 80 * kMiB);
}

TEST(CachingAllocator, ExpandableSegmentsEndWhereTheDeviceDoes) {
  CachingAllocator a(only(60 * kMiB, true));
  const std::int64_t first = *a.allocate(25 * kMiB);
  a.allocate(5 * kMiB);
  a.free(first);
  EXPECT_FALSE(a.allocate(51 * kMiB)) << "a whole page went back, and that is not enough";
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  EXPECT_TRUE(a.allocate(50 * kMiB)) << "but for this one: the 10 MiB behind, and two pages";
  EXPECT_EQ(a.reserved(), 60 * kMiB);
  EXPECT_EQ(a.retries(), 1);
}

struct Traffic {
  int streams = 1;
  bool expandable = false;
  std::int64_t capacity = std::int64_t{1} << 60;
};

/// Requests of all sizes, freed in any order; some wait for other streams. Everything that must hold after each of them.
void checkTraffic(std::uint32_t seed, const Traffic& t) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed << ", streams " << t.streams << (t.expandable ? ", expandable" : "") << ", capacity " << t.capacity);
  std::mt19937 random(seed);
  const auto upTo = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  CachingAllocator allocator(only(t.capacity, t.expandable));
  std::map<std::int64_t, std::int64_t> mine;  // address -> bytes
  std::int64_t requested = 0, refused = 0;
  for (int i = 0; i < 600; ++i) {
    if (!mine.empty() && upTo(100) < 45) {
      const auto it = std::next(mine.begin(), upTo(static_cast<std::int64_t>(mine.size())));
      std::vector<int> used_on;
      for (int s = 0; s < t.streams; ++s)
        if (upTo(4) == 0) used_on.push_back(s);
      requested -= it->second;
      allocator.free(it->first, used_on);
      mine.erase(it);
    } else if (upTo(8) == 0) {
      allocator.reached(static_cast<int>(upTo(t.streams)));
    } else {
      const std::int64_t bytes = 1 + (upTo(2) == 0 ? upTo(3 * kMiB / 2) : upTo(30) * kMiB / 2 + upTo(3) * 512);
      const auto address = allocator.allocate(bytes, static_cast<int>(upTo(t.streams)));
      refused += address ? 0 : 1;
      if (!address) continue;
      const auto after = mine.lower_bound(*address);
      ASSERT_TRUE(after == mine.end() || *address + bytes <= after->first);
      ASSERT_TRUE(after == mine.begin() || std::prev(after)->first + std::prev(after)->second <= *address);
      mine[*address] = bytes;
      requested += bytes;
    }
    ASSERT_EQ(allocator.requested(), requested);
    ASSERT_GE(allocator.allocated(), requested);
    ASSERT_GE(allocator.reserved(), allocator.allocated());
    ASSERT_LE(allocator.reserved(), t.capacity);
    std::int64_t reserved = 0, used = 0, free = 0, end = 0;
    for (const CachingAllocator::Range& range : allocator.ranges()) {
      ASSERT_GE(range.address, end);
      ASSERT_GT(range.bytes, 0);
      end = range.address + range.bytes;
      reserved += range.bytes;
      (range.used ? used : free) += range.bytes;
    }
    ASSERT_EQ(reserved, allocator.reserved());
    ASSERT_GE(used, allocator.allocated()) << "those that wait are in use, too";
    ASSERT_LE(allocator.largestFree(), free);
  }
  for (const auto& [address, bytes] : mine) allocator.free(address);
  for (int s = 0; s < t.streams; ++s) allocator.reached(s);
  EXPECT_EQ(allocator.allocated(), 0);
  allocator.releaseCached();
  EXPECT_EQ(allocator.reserved(), 0) << "all of it goes back";
  EXPECT_EQ(allocator.segments(), 0);
  EXPECT_TRUE(allocator.ranges().empty());
  EXPECT_TRUE(t.capacity > (1 << 30) || refused + allocator.retries() > 0) << "the capacity was never reached";
}

TEST(CachingAllocator, NothingOverlapsAndAllOfItGoesBackWhateverIsAsked) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed)
    for (const bool expandable : {false, true})
      for (const std::int64_t capacity : {std::int64_t{1} << 60, 80 * kMiB}) checkTraffic(seed, {static_cast<int>(1 + seed % 3), expandable, capacity});
}

TEST(AllocationTrace, IsTheCurveRequestByRequest) {
  const ir::Graph graph = llamaJoint(smallShape(2));
  for (const int accumulate : {1, 4}) {
    LivenessOptions options;
    options.optimizer = "adamw";
    options.accumulate = accumulate;
    const MemoryCurve curve = predictMemory(graph, options);
    const AllocationTrace trace = allocationTrace(graph, options);
    std::int64_t now = 0;
    for (const std::int64_t bytes : trace.resident) now += bytes;
    EXPECT_EQ(now, curve.resident);
    // At each place: what is open when its last request was made.
    std::vector<std::int64_t> live(curve.live.size(), -1), bytes_of(static_cast<std::size_t>(trace.blocks), -1);
    std::size_t next = 0;
    for (std::size_t place = 0; place < live.size(); ++place) {
      live[place] = now;
      for (; next < trace.step.size() && trace.step[next].place == static_cast<std::int32_t>(place); ++next) {
        const AllocationEvent& event = trace.step[next];
        std::int64_t& bytes = bytes_of[static_cast<std::size_t>(event.block)];
        ASSERT_EQ(event.bytes > 0, bytes == -1) << "asked for once, freed once";
        now += event.bytes > 0 ? event.bytes : -bytes;
        bytes = event.bytes > 0 ? event.bytes : 0;
        live[place] = std::max(live[place], now);
      }
    }
    EXPECT_EQ(live, curve.live);
    for (; next < trace.step.size(); ++next) now -= std::exchange(bytes_of[static_cast<std::size_t>(trace.step[next].block)], 0);
    EXPECT_EQ(now, curve.resident) << "all of it is freed after the step";
  }
}

/// torchtitan's report of a chunked loss, 40,960 tokens of a vocabulary of 151,936 over 4 ranks: "tried to allocate 5.80 GiB".
TEST(AllocationTrace, AWholeLossAsksForTheBlockThatOthersMet) {
  testing::LlamaShape shape = smallShape(1);
  shape.seq = 40960;
  shape.ranks = 1;
  shape.vocab = 151936 / 4;
  shape.dtype = ir::DType::kBF16;
  const AllocationTrace trace = allocationTrace(llamaJoint(shape), {});
  std::int64_t most = 0;
  for (const AllocationEvent& event : trace.step) most = std::max(most, event.bytes);
  EXPECT_EQ(most, std::int64_t{40960} * (151936 / 4) * 4);
  EXPECT_EQ(formatBytes(most), "5.80 GiB");
  // It has a segment of its own, a multiple of 2 MiB.
  CachingAllocator allocator({});
  ASSERT_TRUE(allocator.allocate(most));
  EXPECT_EQ(allocator.reserved(), 2968 * 2 * kMiB);
}

TEST(AllocationTrace, ReplayedItsPeakIsTheCurvesAndMoreIsReserved) {
  const ir::Graph graph = llamaJoint(smallShape(3));
  const LivenessOptions options;
  const MemoryCurve curve = predictMemory(graph, options);
  const AllocationTrace trace = allocationTrace(graph, options);
  for (const bool expandable : {false, true}) {
    const ReplayFigures free = replay(trace, {.expandable = expandable});
    EXPECT_TRUE(free.possible);
    EXPECT_EQ(free.requested, curve.peak);
    EXPECT_GE(free.allocated, free.requested);
    EXPECT_GE(free.reserved_there, free.allocated);
    EXPECT_GE(free.reserved, free.reserved_there);
    EXPECT_GE(free.fragmentation(), free.largest_free);
    EXPECT_EQ(free.retries, 0);
    const ReplayFigures exact = replay(trace, {.capacity = free.reserved, .expandable = expandable});
    EXPECT_TRUE(exact.possible);
    EXPECT_EQ(exact.retries, 0) << "it is the least that needs none";
    const std::int64_t least = leastCapacity(trace, free, expandable);
    EXPECT_GE(least, free.requested);
    EXPECT_LE(least, free.reserved);
    EXPECT_TRUE(replay(trace, {.capacity = least, .expandable = expandable}).possible);
    const ReplayFigures none = replay(trace, {.capacity = free.requested - 1, .expandable = expandable});
    EXPECT_FALSE(none.possible);
    EXPECT_GT(none.retries, 0);
  }
}

}  // namespace
}  // namespace spscope::passes
