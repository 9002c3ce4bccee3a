// SPDX-License-Identifier: Apache-2.0
// Recording a GPU, without one: our collector against a stand-in for libcupti (buffers, threads, drops, refusals, versions),
// and our reading of records against the real library's walk where that works without a driver (13.0).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <thread>

#include "core/base/clock.h"
#include "profiler/analyze/attention.h"
#include "profiler/record/cuda/cupti_parse.h"
#include "profiler/record/host_recorder.h"
#include "profiler/record/spool_reader.h"
#include "tests/support/fake_cupti/fake_cupti.h"

namespace spscope::trace {
namespace {

template <typename F>
F* control(F*, const char* name) {
  static void* library = dlopen(SPSCOPE_FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(library, name));
}
#define FAKE(f) control(static_cast<decltype(&f)>(nullptr), #f)

class Cupti : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("cupti-test-" + std::to_string(getpid()))).string();
    FAKE(fakeCuptiReset)(version());
    auto made = HostRecorder::create(path_, {}, {{.id = 3, .name = "mm", .op = "aten.mm.default"}, {.id = 8, .name = "add", .op = "aten.add.Tensor"}}, 64 << 20);
    ASSERT_TRUE(made);
    recorder_ = std::move(*made);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  virtual std::uint32_t version() const { return 130001; }
  Result<std::unique_ptr<DeviceSource>> start(DeviceOptions options = {}) {
    options.driver = SPSCOPE_FAKE_CUDA;
    options.cupti = SPSCOPE_FAKE_CUPTI;
    return startDeviceSource(recorder_->spool(), options);
  }
  Trace read() {
    EXPECT_TRUE(recorder_->finish());
    auto trace = readSpools({path_});
    EXPECT_TRUE(trace) << trace.error().format();
    return std::move(*trace);
  }
  static std::vector<Event> eventsOf(const Trace& t, Category category) {
    std::vector<Event> out;
    for (std::size_t i = 0; i < t.events.size(); ++i)
      if (t.events.category[i] == category) out.push_back(t.event(static_cast<EventIndex>(i)));
    return out;
  }
  std::string path_;
  std::unique_ptr<HostRecorder> recorder_;
};

class CuptiVersions : public Cupti {
 protected:
  std::uint32_t version() const override { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Loaded, CuptiVersions, testing::Values(120000u, 120900u, 130001u, 130202u));

TEST_P(CuptiVersions, OneLaunchIsOneKernelWithItsNode) {
  auto source = start();
  ASSERT_TRUE(source) << source.error().format();
  const std::int64_t before = monotonicNs();
  (*source)->push(3);
  FAKE(fakeCuptiLaunch)(2);
  (*source)->pop();
  FAKE(fakeCuptiLaunch)(1);
  (*source)->push(8);
  FAKE(fakeCuptiLaunch)(1);
  (*source)->pop();
  const DeviceCounts counts = (*source)->stop();
  EXPECT_EQ(counts.records, 8);
  EXPECT_EQ(counts.dropped + counts.damaged + counts.unknown + counts.without_time, 0);
  EXPECT_TRUE(counts.missing.empty());
  const Trace t = read();
  const auto kernels = eventsOf(t, Category::kKernel);
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[0].node, 0);
  EXPECT_EQ(kernels[1].node, 0);
  EXPECT_EQ(kernels[2].node, kNoIndex);
  EXPECT_EQ(kernels[3].node, 1);
  EXPECT_EQ(t.strings.text(kernels[0].name), "gemm(float*)");
  const Launch& launch = t.launches[static_cast<std::size_t>(kernels[0].detail)];
  EXPECT_EQ(launch.grid, (std::array<std::int32_t, 3>{4, 2, 1}));
  EXPECT_EQ(launch.block[0], 128);
  EXPECT_EQ(launch.registers, 40);
  const auto calls = eventsOf(t, Category::kRuntime);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].correlation, kernels[0].correlation);
  EXPECT_EQ(t.strings.text(calls[0].name), "cudaLaunchKernel_v7000");
  EXPECT_GE(kernels[0].start, before + t.ranks[0].base_ns) << "the callback put CUPTI on our clock";
  EXPECT_LE(kernels[3].start, monotonicNs() + t.ranks[0].base_ns);
}

TEST_F(Cupti, ManyBuffersAndThreadsLoseNothing) {
  auto source = start({.buffer_bytes = 4096});
  ASSERT_TRUE(source);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, node = i % 2 == 0 ? 3 : 8] {
      for (int k = 0; k < 50; ++k) {
        (*source)->push(node);
        FAKE(fakeCuptiLaunch)(5);
        (*source)->pop();
        if (k % 10 == 0) (*source)->flush();
      }
    });
  for (std::thread& t : threads) t.join();
  const DeviceCounts counts = (*source)->stop();
  EXPECT_EQ(counts.records, 4 * 50 * 5 * 2);
  EXPECT_EQ(counts.dropped, 0);
  EXPECT_GT(FAKE(fakeCuptiCompleted)(), 20u);
  const Trace t = read();
  const auto kernels = eventsOf(t, Category::kKernel);
  ASSERT_EQ(kernels.size(), 1000u);
  EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), [](const Event& e) { return e.node == 0; }), 500);
  EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), [](const Event& e) { return e.node == 1; }), 500);
}

TEST_F(Cupti, TheAttentionKernelsThatRanAreNamedByNode) {
  recorder_.reset();
  auto made = HostRecorder::create(path_, {}, {{.id = 3, .name = "%sdpa", .op = "aten._scaled_dot_product_flash_attention.default", .phase = Phase::kForward},
                                               {.id = 5, .name = "%sdpa.bwd", .op = "aten._scaled_dot_product_flash_attention_backward.default", .phase = Phase::kBackward},
                                               {.id = 8, .name = "%add", .op = "aten.add.Tensor"}}, 64 << 20);
  ASSERT_TRUE(made);
  recorder_ = std::move(*made);
  auto source = start();
  ASSERT_TRUE(source);
  const auto launch = [&](std::int32_t node, const char* kernel, int times) {
    (*source)->push(node);
    FAKE(fakeCuptiNameKernels)(kernel);
    FAKE(fakeCuptiLaunch)(times);
    (*source)->pop();
  };
  launch(3, "flash_fwd_kernel", 2);
  launch(8, "vectorized_elementwise_kernel", 3);
  launch(5, "flash_bwd_dot_do_o_kernel", 1);
  launch(5, "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 1);
  launch(3, "fmha_cutlassF_f32_aligned_64x64_rf_sm80", 1);  // of another step, where the library chose otherwise
  (*source)->stop();
  recorder_->node(3, monotonicNs() - 1000, monotonicNs());
  const Trace t = read();
  const auto attention = attentionKernels(t);
  ASSERT_EQ(attention.size(), 2u) << "forward and backward, nothing of the addition";
  std::array<std::map<std::string, std::int64_t>, 2> ran;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(attention[i].on_device);
    for (const AttentionKernel& k : attention[i].kernels) {
      ran[i][std::string(t.strings.text(k.name))] = k.count;
      EXPECT_EQ(k.total_ns > 0, true);
    }
  }
  EXPECT_EQ(t.strings.text(t.nodes[static_cast<std::size_t>(attention[0].node)].name), "%sdpa");
  EXPECT_EQ(ran[0], (std::map<std::string, std::int64_t>{{"flash_fwd_kernel", 2}, {"fmha_cutlassF_f32_aligned_64x64_rf_sm80", 1}}));
  EXPECT_EQ(ran[1], (std::map<std::string, std::int64_t>{{"flash_bwd_dot_do_o_kernel", 1}, {"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 1}}));
}

TEST_F(Cupti, TR_33_EveryKernelOfAGraphLaunchIsLinked) {
  auto source = start();
  ASSERT_TRUE(source);
  (*source)->push(8);
  FAKE(fakeCuptiLaunchGraph)(20);
  (*source)->pop();
  (*source)->stop();
  const Trace t = read();
  const auto kernels = eventsOf(t, Category::kKernel);
  ASSERT_EQ(kernels.size(), 20u);
  for (const Event& k : kernels) {
    EXPECT_EQ(k.node, 1);
    EXPECT_EQ(k.correlation, kernels[0].correlation);
    EXPECT_NE(t.launches[static_cast<std::size_t>(k.detail)].graph_node, 0);
  }
}

TEST_F(Cupti, CopiesSetsMemoryWaitsAndOverheadHaveNsightsNumbers) {
  auto source = start();
  ASSERT_TRUE(source);
  (*source)->push(3);
  FAKE(fakeCuptiOthers)(4096);
  (*source)->pop();
  EXPECT_EQ((*source)->stop().unknown, 0);
  const Trace t = read();
  const auto copies = eventsOf(t, Category::kMemcpy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].bytes, 4096);
  const Copy& copy = t.copies[static_cast<std::size_t>(copies[0].detail)];
  EXPECT_EQ(copy.copy_kind, 1);
  EXPECT_EQ(copy.source_kind, 0) << "pageable: CUPTI 1, Nsight 0";
  EXPECT_EQ(copy.target_kind, 2) << "device: CUPTI 3, Nsight 2";
  const auto sets = eventsOf(t, Category::kMemset);
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(t.copies[static_cast<std::size_t>(sets[0].detail)].value, 3);
  EXPECT_EQ(eventsOf(t, Category::kSynchronize).size(), 1u);
  ASSERT_EQ(eventsOf(t, Category::kOverhead).size(), 1u);
  ASSERT_EQ(t.memory.size(), 2u);
  EXPECT_EQ(t.memory[0].bytes, 4096);
  EXPECT_EQ(t.memory[1].bytes, -4096);
  EXPECT_EQ(t.memory[0].address, 0x7000);
  EXPECT_EQ(t.memory[0].node, 0);
}

TEST_F(Cupti, TR_24_DroppedRecordsAreCounted) {
  auto source = start();
  ASSERT_TRUE(source);
  FAKE(fakeCuptiLaunch)(1);
  FAKE(fakeCuptiDrop)(41);
  EXPECT_EQ((*source)->stop().dropped, 41);
}

TEST_F(Cupti, WithoutBuffersRecordsAreDroppedAndCountedNotMemoryTaken) {
  auto source = start({.buffer_bytes = 4096, .buffers = 2});
  ASSERT_TRUE(source);
  FAKE(fakeCuptiHold)();
  FAKE(fakeCuptiLaunch)(500);  // more than two buffers hold
  FAKE(fakeCuptiReturn)();
  const DeviceCounts counts = (*source)->stop();
  EXPECT_GT(counts.dropped, 0);
  EXPECT_EQ(counts.records + counts.dropped, 1000);
}

TEST_F(Cupti, BuffersThatComeAfterTheEndAreFreedNotRead) {
  auto source = start();
  ASSERT_TRUE(source);
  FAKE(fakeCuptiLaunch)(3);
  FAKE(fakeCuptiHold)();
  EXPECT_EQ((*source)->stop().records, 0);
  source->reset();
  FAKE(fakeCuptiReturn)();
  auto again = start();  // a second recording is not disturbed
  ASSERT_TRUE(again);
  FAKE(fakeCuptiLaunch)(1);
  EXPECT_EQ((*again)->stop().records, 2);
}

TEST_F(Cupti, KindsThatCannotBeEnabledAreNamed) {
  FAKE(fakeCuptiRefuse)(CUPTI_ACTIVITY_KIND_MEMORY2);
  auto source = start();
  ASSERT_TRUE(source);
  const DeviceCounts counts = (*source)->stop();
  ASSERT_EQ(counts.missing.size(), 1u);
  EXPECT_EQ(counts.missing[0], "memory: CUPTI_ERROR_UNKNOWN (999)");
  EXPECT_EQ(FAKE(fakeCuptiEnabled)(), 0) << "stop() disables what start() enabled";
}

TEST_F(Cupti, TR_26_WhenNothingCanBeEnabledItSaysSo) {
  for (int kind = 0; kind < 60; ++kind) FAKE(fakeCuptiRefuse)(kind);
  auto source = start();
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, "cupti-unavailable");
  EXPECT_NE(source.error().message.find("kernels: CUPTI_ERROR_UNKNOWN"), std::string::npos) << source.error().message;
}

TEST_F(Cupti, WithoutTheTimestampCallbackTheWallClockIsShifted) {
  FAKE(fakeCuptiRefuseTimestamps)();
  auto source = start();
  ASSERT_TRUE(source);
  const std::int64_t before = monotonicNs();
  FAKE(fakeCuptiLaunch)(1);
  (*source)->stop();
  const Trace t = read();
  const auto kernels = eventsOf(t, Category::kKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_NEAR(static_cast<double>(kernels[0].start - t.ranks[0].base_ns - before), 0.0, 1e8);
}

TEST_F(Cupti, RecordsWithoutTimesAndDamagedBuffersAreCounted) {
  auto source = start();
  ASSERT_TRUE(source);
  FAKE(fakeCuptiTimeless)();
  (*source)->flush();
  FAKE(fakeCuptiDamage)();
  FAKE(fakeCuptiLaunch)(2);
  const DeviceCounts counts = (*source)->stop();
  EXPECT_EQ(counts.without_time, 1);
  EXPECT_EQ(counts.damaged, 1);
  EXPECT_EQ(counts.records, 3) << "one record of the four was cut";
}

TEST_F(Cupti, OneRecordingAtATimeInAProcess) {
  auto source = start();
  ASSERT_TRUE(source);
  EXPECT_FALSE(start());
  (*source)->stop();
  EXPECT_TRUE(start());
}

TEST(CuptiDriver, WithoutADriverNothingOfCuptiIsTouched) {
  const std::string path = (std::filesystem::temp_directory_path() / ("cupti-none-" + std::to_string(getpid()))).string();
  auto recorder = HostRecorder::create(path, {}, {}, 1 << 20);
  ASSERT_TRUE(recorder);
  // A libcupti that does not exist: the driver is asked first, so that this is never seen.
  const auto absent = startDeviceSource((*recorder)->spool(), {.driver = "libcuda-not-here.so.1", .cupti = "/nonexistent/libcupti.so"});
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message.find("no CUDA driver"), std::string::npos) << absent.error().message;
  setenv("FAKE_CUDA_INIT", "100", 1);
  const auto dead = startDeviceSource((*recorder)->spool(), {.driver = SPSCOPE_FAKE_CUDA, .cupti = "/nonexistent/libcupti.so"});
  unsetenv("FAKE_CUDA_INIT");
  ASSERT_FALSE(dead);
  EXPECT_NE(dead.error().message.find("cuInit says 100"), std::string::npos) << dead.error().message;
  const auto missing = startDeviceSource((*recorder)->spool(), {.driver = SPSCOPE_FAKE_CUDA, .cupti = "/nonexistent/libcupti.so"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("does not load"), std::string::npos);
  std::filesystem::remove(path);
}

/// Hand-made records through the walk of the real library. Versions after 13.0 overflow the stack without a driver: only a
/// 13.0 is loaded here.
TEST(CuptiReal, ItsOwnWalkReadsHandMadeBuffers) {
  std::string library;
  for (const char* candidate : {"/usr/local/cuda-13.0/lib/libcupti.so.13", "/usr/local/cuda-13.0/lib64/libcupti.so.13",
                                "/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.13"})
    if (library.empty() && std::filesystem::exists(candidate)) library = candidate;
  if (const char* named = std::getenv("SPSCOPE_TEST_CUPTI_130"); named != nullptr) library = named;
  if (library.empty()) GTEST_SKIP() << "no libcupti 13.0 (CUDA toolkit 13.0, or SPSCOPE_TEST_CUPTI_130)";
  const auto api = loadCupti(library);
  ASSERT_TRUE(api) << api.error().format();
  ASSERT_EQ(api->version, 130001u);

  std::vector<std::uint8_t> buffer(64 << 10, 0);
  std::size_t used = 0;
  const auto put = [&](const auto& record) {
    std::memcpy(buffer.data() + used, &record, sizeof record);
    used += sizeof record;
  };
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = 211, call.start = 100, call.end = 110, call.correlationId = 5, call.threadId = 9;
  CUpti_ActivityExternalCorrelation external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, external.externalId = 4, external.correlationId = 5;
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = 120, kernel.end = 150, kernel.correlationId = 5, kernel.streamId = 7, kernel.gridX = 3, kernel.name = "_Z4gemmPf";
  CUpti_ActivityMemset4 set{};
  set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set.start = 160, set.end = 170, set.bytes = 64, set.correlationId = 6;
  CUpti_ActivityMemory4 memory{};
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  memory.timestamp = 180, memory.bytes = 512;
  put(call), put(external), put(kernel), put(set), put(kernel), put(memory);
  std::vector<std::string> names{""};
  const ParsedBuffer parsed = parseBuffer(*api, buffer.data(), used, [&](std::string_view text) {
    names.emplace_back(text);
    return static_cast<std::uint32_t>(names.size() - 1);
  });
  EXPECT_FALSE(parsed.damaged);
  ASSERT_EQ(parsed.records.size(), 5u);
  EXPECT_EQ(parsed.records[1].start, 120);
  EXPECT_EQ(parsed.records[1].end, 150);
  EXPECT_EQ(parsed.records[1].stream, 7);
  EXPECT_EQ(parsed.records[1].grid[0], 3);
  EXPECT_EQ(names.at(parsed.records[1].name), "gemm(float*)");
  EXPECT_EQ(parsed.records[2].bytes, 64);
  EXPECT_EQ(parsed.records[4].bytes, 512);
  ASSERT_EQ(parsed.externals.size(), 1u);
  EXPECT_EQ(parsed.externals[0].external, 4);

  // Records of 13.2 in the hands of 13.0 must be seen as damage, not read wrongly.
#if CUPTI_API_VERSION >= 130200
  CUpti_ActivityKernel11 newer{};
  newer.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  newer.start = 1, newer.end = 2;
  used = 0;
  put(newer), put(newer);
  const ParsedBuffer wrong = parseBuffer(*api, buffer.data(), used, [](std::string_view) { return 0u; });
  EXPECT_TRUE(wrong.damaged);
  EXPECT_EQ(wrong.records.size(), 1u);
#endif
}

}  // namespace
}  // namespace spscope::trace
