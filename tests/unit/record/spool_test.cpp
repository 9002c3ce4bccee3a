// SPDX-License-Identifier: Apache-2.0
// What ranks record comes back as a trace: every kind of record, cut files, caps, full disks, clocks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "profiler/record/host_recorder.h"
#include "profiler/record/spool_reader.h"

namespace spscope::trace {
namespace {

class Spool : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("spool-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(int rank) const { return (folder_ / ("rank" + std::to_string(rank))).string(); }
  static std::vector<RecordedNode> nodes() {
    return {{.id = 3, .name = "mm", .op = "aten.mm.default", .module = "layers.0", .source = "m.py:7", .stage = "build-joint",
             .memory_class = "saved activations", .phase = Phase::kForward, .flops = 100, .predicted_ns = 9},
            {.id = 5, .name = "x", .op = "sp.all_to_all_start.default", .phase = Phase::kBackward}};
  }
  std::unique_ptr<HostRecorder> recorder(int rank, std::int64_t cap = 1 << 20) {
    auto made = HostRecorder::create(path(rank), {.rank = rank, .world = 2, .backend = "gloo", .properties = {{"model", "m"}}, .groups = {{"sp", 1}}}, nodes(), cap);
    EXPECT_TRUE(made) << made.error().format();
    return std::move(*made);
  }
  std::filesystem::path folder_;
};

TEST_F(Spool, EveryKindOfRecordComesBack) {
  for (int rank = 0; rank < 2; ++rank) {
    const auto r = recorder(rank);
    const std::uint16_t group = r->name("sp:all_to_all"), step = r->name("step 1");
    r->barrier(50);
    r->node(3, 100, 200);
    r->allocation(3, 150, 64, 64);
    r->collective(5, 20, 30, 64, 0, r->name("world:all_reduce"));
    r->wait(5, 220, 250, 7, group);  // the wait may be known before the whole collective is
    r->collective(5, 210, 250, 1024, 7, group);
    r->range(step, 90, 300);
    r->call(r->name("optimizer"), 260, 290);
    ASSERT_TRUE(r->finish());
    EXPECT_EQ(r->dropped(), 0);
  }
  const auto read = readSpools({path(0), path(1)});
  ASSERT_TRUE(read) << read.error().format();
  const Trace& t = *read;
  EXPECT_TRUE(t.problems.empty());
  ASSERT_EQ(t.ranks.size(), 2u);
  EXPECT_EQ(t.ranks[1].number, 1);
  EXPECT_EQ(t.ranks[1].world, 2);
  EXPECT_EQ(t.ranks[1].clock.method, "same-clock");
  EXPECT_EQ(t.ranks[0].base_ns, t.ranks[1].base_ns);
  EXPECT_EQ(t.properties.at("model"), "m");
  ASSERT_EQ(t.nodes.size(), 2u) << "the ranks run one program: its nodes are there once";
  EXPECT_EQ(t.nodes[0].flops, 100);
  EXPECT_EQ(t.nodes[1].flops, kUnknown);
  EXPECT_EQ(t.strings.text(t.nodes[0].source), "m.py:7");
  ASSERT_EQ(t.collectives.size(), 4u);
  const Collective& c = t.collectives[3];
  EXPECT_EQ(c.group_size, 1) << "the group's own size, not that of the world";
  EXPECT_EQ(t.collectives[2].group_size, kUnknown) << "the head does not name that group";
  EXPECT_EQ(t.strings.text(c.kind), "all_to_all");
  EXPECT_EQ(t.strings.text(c.group), "sp");
  EXPECT_EQ(c.sequence, 7);
  EXPECT_EQ(c.bytes, 1024);
  EXPECT_EQ(c.rank, 1);
  const std::int64_t base = t.ranks[0].base_ns;
  EXPECT_EQ(t.event(c.event).start, 210 + base);
  ASSERT_NE(c.wait, kNoIndex);
  EXPECT_EQ(t.event(c.wait).category, Category::kWait);
  EXPECT_EQ(t.event(c.wait).start, 220 + base);
  EXPECT_EQ(t.event(c.wait).end, 250 + base);
  ASSERT_EQ(t.memory.size(), 2u);
  EXPECT_EQ(t.memory[0].bytes, 64);
  EXPECT_EQ(t.strings.text(t.memory[0].memory_class), "saved activations");
  EXPECT_EQ(t.memory[0].node, 0);
  EXPECT_EQ(t.ranks[0].barrier_ns, 50 + base);
  int operators = 0, ranges = 0;
  for (std::size_t i = 0; i < t.events.size(); ++i) {
    operators += t.events.category[i] == Category::kOperator;
    ranges += t.events.category[i] == Category::kRange;
  }
  EXPECT_EQ(operators, 4);
  EXPECT_EQ(ranges, 2);
}

TEST_F(Spool, DeviceRecordsBecomeKernelsCopiesCallsAndMemory) {
  const auto r = recorder(0);
  std::vector<DeviceRecord> records(4);
  records[0] = {.start = 10, .end = 20, .correlation = 9, .external = 4, .name = r->spool().string("gemm"), .device = 0, .context = 1,
                .stream = 7, .grid = {1, 2, 3}, .registers = 32, .category = static_cast<std::uint8_t>(Category::kKernel)};
  records[1] = {.start = 5, .end = 6, .correlation = 9, .name = r->spool().string("cudaLaunchKernel"), .thread = 77,
                .category = static_cast<std::uint8_t>(Category::kRuntime)};
  records[2] = {.start = 30, .end = 40, .bytes = 4096, .device = 0, .context = 1, .stream = 7,
                .category = static_cast<std::uint8_t>(Category::kMemcpy), .copy_kind = 1, .source_kind = 0, .target_kind = 2};
  records[3] = {.start = 50, .bytes = -512, .address = 0x1000, .device = 0, .category = static_cast<std::uint8_t>(Category::kOther)};
  ASSERT_TRUE(r->spool().append(SpoolBlock::kDevice, records.data(), records.size() * sizeof(DeviceRecord)));
  ASSERT_TRUE(r->finish());
  const auto read = readSpools({path(0)});
  ASSERT_TRUE(read);
  const Trace& t = *read;
  ASSERT_EQ(t.events.size(), 3u);
  const Event kernel = t.event(0);
  EXPECT_EQ(kernel.category, Category::kKernel);
  EXPECT_EQ(kernel.node, 0) << "external id 4 is node 3, the first of the table";
  EXPECT_EQ(t.launches.at(static_cast<std::size_t>(kernel.detail)).grid[2], 3);
  EXPECT_EQ(t.tracks[static_cast<std::size_t>(kernel.track)].stream, 7);
  EXPECT_EQ(t.tracks[static_cast<std::size_t>(t.events.track[1])].tid, 77);
  EXPECT_EQ(t.copies.at(static_cast<std::size_t>(t.events.detail[2])).target_kind, 2);
  ASSERT_EQ(t.memory.size(), 1u);
  EXPECT_EQ(t.memory[0].bytes, -512);
  EXPECT_EQ(t.memory[0].device, 0);
}

TEST_F(Spool, ARankThatWasKilledLeavesWhatItHadWritten) {
  {
    const auto r = recorder(0);
    for (int i = 0; i < 20000; ++i) r->node(3, i, i + 1);
    ASSERT_TRUE(r->finish());
  }
  const auto whole = std::filesystem::file_size(path(0));
  for (const double share : {0.9, 0.5, 0.4}) {
    std::filesystem::resize_file(path(0), static_cast<std::uintmax_t>(static_cast<double>(whole) * share));
    const auto read = readSpools({path(0)});
    ASSERT_TRUE(read) << read.error().format();
    EXPECT_EQ(read->problems.countOf(Problem::kTruncated), 1);
    EXPECT_GT(read->events.size(), 0u);
    EXPECT_LT(read->events.size(), 20000u);
  }
  std::filesystem::resize_file(path(0), 12);
  EXPECT_FALSE(readSpools({path(0)}));
  EXPECT_FALSE(readSpools({path(1)}));
}

TEST_F(Spool, BeyondTheCapRecordsAreCountedNotKept) {
  constexpr std::int64_t kCap = 600'000;
  const auto r = recorder(0, kCap);
  for (int i = 0; i < 100'000; ++i) r->node(3, i, i + 1);
  ASSERT_TRUE(r->finish());
  EXPECT_GT(r->dropped(), 0);
  for (int i = 0; i < 10'000; ++i) r->name("step " + std::to_string(i));  // names that nobody can use any more
  EXPECT_LT(static_cast<std::int64_t>(std::filesystem::file_size(path(0))), kCap + 4096);
  const auto read = readSpools({path(0)});
  ASSERT_TRUE(read);
  EXPECT_EQ(static_cast<std::int64_t>(read->events.size()) + r->dropped(), 100'000);
  EXPECT_EQ(read->ranks[0].dropped, r->dropped());
  EXPECT_EQ(read->problems.countOf(Problem::kDroppedRecords), r->dropped());
}

TEST_F(Spool, AFullDiskIsSaidAndCounted) {
  const auto made = HostRecorder::create("/dev/full", {}, nodes(), 1 << 20);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, "file-unwritable");
}

TEST_F(Spool, DamagedRecordingsAreReadAsFarAsTheyGo) {
  {
    const auto r = recorder(0);
    const std::uint16_t group = r->name("sp:all_to_all");
    for (int i = 0; i < 100; ++i) r->collective(5, i, i + 1, 8, i, group), r->node(3, i, i + 1);
    ASSERT_TRUE(r->finish());
  }
  std::ifstream in(path(0), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t state = 1;
  const auto random = [&] { return state = state * 6364136223846793005ull + 1442695040888963407ull, state >> 33; };
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips) bad[random() % bad.size()] = static_cast<char>(random());
    std::ofstream(path(1), std::ios::binary | std::ios::trunc) << bad;
    const auto read = readSpools({path(1)});
    for (std::size_t e = 0; read && e < read->events.size(); ++e) ASSERT_GE(read->events.end[e], read->events.start[e]);
  }
}

}  // namespace
}  // namespace spscope::trace
