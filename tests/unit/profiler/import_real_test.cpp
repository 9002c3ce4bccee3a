// SPDX-License-Identifier: Apache-2.0
// Real files of others, where they are at hand: what they hold was counted with other programs (Python's json, sqlite3).
#include <algorithm>

#include "profiler/analyze/work.h"
#include "tests/unit/profiler/import_support.h"

namespace spscope::trace {
namespace {

const std::string kTraces = SPSCOPE_SOURCE_DIR "/../shared/traces/";

class ImportReal : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kTraces)) GTEST_SKIP() << "the collection of real traces is not beside the checkout";
  }
  static Trace read(const std::vector<std::string>& files) {
    std::vector<std::string> paths;
    for (const std::string& f : files) paths.push_back(kTraces + f);
    auto t = importTraces(paths);
    EXPECT_TRUE(t) << t.error().format();
    if (!t) return {};
    expectSound(*t);
    EXPECT_EQ(t->problems.countOf(Problem::kBadEvent), 0);
    EXPECT_EQ(t->problems.countOf(Problem::kTruncated), 0);
    return std::move(*t);
  }
  struct Counts {
    std::int64_t operators, ranges, runtime, kernels, copies, sets;
  };
  static void expectCounts(const Trace& t, const Counts& c, std::int32_t rank = 0) {
    EXPECT_EQ(countOf(t, Category::kOperator, rank), c.operators);
    EXPECT_EQ(countOf(t, Category::kRange, rank), c.ranges);
    EXPECT_EQ(countOf(t, Category::kRuntime, rank), c.runtime);
    EXPECT_EQ(countOf(t, Category::kKernel, rank), c.kernels);
    EXPECT_EQ(countOf(t, Category::kMemcpy, rank), c.copies);
    EXPECT_EQ(countOf(t, Category::kMemset, rank), c.sets);
  }
};

TEST_F(ImportReal, OneRankWithMemory) {
  const Trace t = read({"kineto/one_rank_with_memory.json.gz"});
  expectCounts(t, {56680, 2035, 42373, 19370, 2040, 880});
  EXPECT_EQ(t.ranks[0].number, 1);
  EXPECT_EQ(t.ranks[0].world, 2);
  EXPECT_FALSE(t.ranks[0].fractional_us);
  EXPECT_EQ(t.collectives.size(), 2020u);
  ASSERT_EQ(t.memory.size(), 28010u);
  std::int64_t device = 0, allocated = 0, reserved = 0;
  for (const MemoryEvent& m : t.memory) {
    if (m.device != 1) continue;
    ++device, allocated = std::max(allocated, m.live), reserved = std::max(reserved, m.reserved);
  }
  EXPECT_EQ(device, 26770);
  EXPECT_EQ(allocated, 6629508096);
  EXPECT_EQ(reserved, 12782141440);
}

TEST_F(ImportReal, Overlap47) {
  const Trace t = read({"kineto/overlap_47.json.gz"});
  expectCounts(t, {40506, 288, 24692, 8568, 228, 654});
  EXPECT_EQ(t.ranks[0].number, 3);
  std::int64_t exchanges = 0, reduces = 0;
  for (const Collective& c : t.collectives) exchanges += textOf(t, c.kind) == "all_to_all", reduces += textOf(t, c.kind) == "all_reduce";
  EXPECT_EQ(exchanges, 42);  // nccl:all_to_all ranges around the launches of SendRecv kernels
  EXPECT_EQ(reduces, 18);
}

TEST_F(ImportReal, NsResolution) {
  const Trace t = read({"kineto/ns_resolution.json.gz"});
  expectCounts(t, {23910, 70, 15329, 4350, 1600, 145});
  EXPECT_EQ(countOf(t, Category::kDeviceRange), 15);
  EXPECT_TRUE(t.ranks[0].fractional_us);
  EXPECT_EQ(t.flows.size(), 905u);
  EXPECT_EQ(eventNamed(t, "autograd::engine::evaluate_function: DivBackward1").start, 1712195495519689047);
  EXPECT_EQ(t.problems.countOf(Problem::kDroppedRecords), 3829);
  // The first launch and its kernel.
  EXPECT_EQ(std::count(t.events.correlation.begin(), t.events.correlation.end(), 135071), 2);
}

TEST_F(ImportReal, TwoRanksOf128) {
  const Trace t = read({"kineto/two_ranks/rank1.json.gz", "kineto/two_ranks/rank0.json.gz"});
  ASSERT_EQ(t.ranks.size(), 2u);
  EXPECT_EQ(t.ranks[0].number, 0);  // by number, not by the order of the names
  EXPECT_EQ(t.ranks[1].world, 128);
  expectCounts(t, {2329, 73, 1204, 1154, 40, 10}, 0);
  expectCounts(t, {2302, 65, 1154, 1104, 40, 10}, 1);
  EXPECT_EQ(t.collectives.size(), 20u);
}

TEST_F(ImportReal, TR_12_a_trace_without_device_events_is_read) {
  const Trace t = read({"kineto/no_gpu.json.gz"});
  expectCounts(t, {2424, 43, 0, 0, 0, 0});
}

TEST_F(ImportReal, GlooOnTheCpu) {
  const Trace t = read({"kineto/cpu_gloo/cpu_a2a_rank0.json", "kineto/cpu_gloo/cpu_a2a_rank1.json"});
  ASSERT_EQ(t.ranks.size(), 2u);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(countOf(t, Category::kOperator, rank), 171);
    EXPECT_EQ(countOf(t, Category::kPython, rank), 699);
    EXPECT_EQ(countOf(t, Category::kCollective, rank), 6);
    EXPECT_EQ(t.ranks[static_cast<std::size_t>(rank)].number, rank);
    EXPECT_EQ(t.ranks[static_cast<std::size_t>(rank)].base_ns, 1790857026000000000);
  }
  EXPECT_EQ(t.memory.size(), 120u);
  EXPECT_EQ(t.flows.size(), 24u);
  ASSERT_EQ(t.collectives.size(), 12u);
  const Collective& first = t.collectives[0];
  EXPECT_EQ(textOf(t, first.kind), "all_to_all");
  EXPECT_EQ(first.bytes, 262144);
  EXPECT_EQ(first.group_size, 2);
  EXPECT_EQ(first.sequence, 0);
  EXPECT_TRUE(first.sequence_by_order);
  EXPECT_EQ(textOf(t, trackOf(t, t.event(first.event)).name), "thread 10654 (pt_gloo_runloop)");
}

TEST_F(ImportReal, NsightSequenceParallelOnTwoGpus) {
  const Trace t = read({"nsys/sp_2gpu.sqlite"});
  EXPECT_EQ(t.format, "nsys 3.25.0");
  ASSERT_EQ(t.ranks.size(), 2u);
  expectCounts(t, {9219, 224, 3688, 1993, 510, 133}, 0);
  expectCounts(t, {9437, 238, 3778, 2017, 510, 136}, 1);
  std::int64_t sum[2] = {}, count[2] = {};
  for (std::size_t i = 0; i < t.events.size(); ++i) {
    if (t.events.category[i] != Category::kKernel || !isCommunicationName(textOf(t, t.events.name[i]))) continue;
    const auto rank = static_cast<std::size_t>(t.tracks[static_cast<std::size_t>(t.events.track[i])].rank);
    sum[rank] += t.events.end[i] - t.events.start[i], ++count[rank];
  }
  EXPECT_EQ(count[0], 33);
  EXPECT_EQ(count[1], 33);
  EXPECT_EQ(sum[0], 17172652);
  EXPECT_EQ(sum[1], 8229100);
  EXPECT_EQ(t.collectives.size(), 66u);
  EXPECT_EQ(std::count_if(t.collectives.begin(), t.collectives.end(), [&](const Collective& c) { return textOf(t, c.kind) == "all_to_all"; }), 64);
}

TEST_F(ImportReal, NsightWithoutNccl) {
  const Trace t = read({"nsys/h100_2gpu_no_nccl.sqlite"});
  ASSERT_EQ(t.ranks.size(), 2u);
  for (std::int32_t rank = 0; rank < 2; ++rank) expectCounts(t, {8391, 0, 2898, 1721, 452, 11}, rank);
  EXPECT_TRUE(t.collectives.empty());
  EXPECT_TRUE(t.problems.empty());
}

}  // namespace
}  // namespace spscope::trace
