// SPDX-License-Identifier: Apache-2.0
// Real traces (../shared/traces): Holistic Trace Analysis' numbers reproduced, our own beside them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/analyze/align.h"
#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/critical_path.h"
#include "profiler/analyze/hta.h"
#include "profiler/import/import.h"

namespace spscope::trace {
namespace {

const std::string kTraces = SPSCOPE_SOURCE_DIR "/../shared/traces/";

class RealTraces : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kTraces)) GTEST_SKIP() << kTraces << " is not here";
  }
  static nlohmann::json expected(const std::string& name) {
    std::ifstream in(kTraces + "kineto/expected_hta_0.6.1.json");
    return nlohmann::json::parse(in).at(name);
  }
  static Trace read(const std::vector<std::string>& files) {
    std::vector<std::string> paths;
    for (const std::string& file : files) paths.push_back(kTraces + file);
    auto trace = importTraces(paths);
    EXPECT_TRUE(trace) << trace.error().format();
    return trace ? std::move(*trace) : Trace();
  }
  /// HTA's ranks against ours; and of our own figures what must hold whatever the trace.
  static void compare(const std::string& name, const std::vector<std::string>& files) {
    SCOPED_TRACE(name);
    const Trace trace = read(files);
    const nlohmann::json want = expected(name);
    const auto got = htaBreakdown(trace);
    ASSERT_EQ(got.size(), want["temporal_breakdown"].size());
    for (std::size_t r = 0; r < got.size(); ++r) {
      const auto& row = want["temporal_breakdown"][r];
      EXPECT_NEAR(static_cast<double>(got[r].idle_us), row["idle_time(us)"].get<double>(), 1);
      EXPECT_NEAR(static_cast<double>(got[r].compute_us), row["compute_time(us)"].get<double>(), 1);
      EXPECT_NEAR(static_cast<double>(got[r].non_compute_us), row["non_compute_time(us)"].get<double>(), 1);
      EXPECT_NEAR(static_cast<double>(got[r].kernel_us), row["kernel_time(us)"].get<double>(), 1);
      const auto& overlap = want["comm_comp_overlap"][r]["comp_comm_overlap_pctg"];
      EXPECT_EQ(got[r].overlap.has_value(), !overlap.is_null());
      if (got[r].overlap && !overlap.is_null()) EXPECT_NEAR(*got[r].overlap * 100, overlap.get<double>(), 0.01);
      std::map<std::int64_t, const HtaStream*> streams;
      for (const HtaStream& s : got[r].streams) streams[s.stream] = &s;
      for (const auto& idle : want["idle_time_breakdown"][0]) {
        if (idle["rank"] != static_cast<int>(r)) continue;
        const auto which = std::find(kHtaIdleNames.begin(), kHtaIdleNames.end(), idle["idle_category"].get<std::string>()) - kHtaIdleNames.begin();
        EXPECT_NEAR(static_cast<double>(streams.at(idle["stream"])->idle_us[static_cast<std::size_t>(which)]), idle["idle_time"].get<double>(), 1)
            << idle.dump();
      }
      for (const auto& queue : want["queue_length_summary"]) {
        if (queue["('rank', '')"] != static_cast<int>(r)) continue;
        const auto& length = streams.at(queue["('stream', '')"])->queue_length;
        ASSERT_TRUE(length.has_value());
        EXPECT_EQ(static_cast<double>(length->count), queue["('queue_length', 'count')"].get<double>()) << queue.dump();
        EXPECT_EQ(length->max, queue["('queue_length', 'max')"].get<double>()) << queue.dump();
      }
    }
    for (const Breakdown& row : breakdown(trace, classifyWork(trace))) {
      EXPECT_EQ(row.absent, "");
      EXPECT_EQ(row.idle_ns + row.compute_ns + row.exposed_communication_ns + row.exposed_memory_ns, row.span_ns);
    }
  }
};

TEST_F(RealTraces, HtaOverlap47) { compare("overlap_47.json.gz", {"kineto/overlap_47.json.gz"}); }
TEST_F(RealTraces, HtaOneRankWithMemory) { compare("one_rank_with_memory.json.gz", {"kineto/one_rank_with_memory.json.gz"}); }
TEST_F(RealTraces, HtaNsResolution) { compare("ns_resolution.json.gz", {"kineto/ns_resolution.json.gz"}); }
TEST_F(RealTraces, HtaRank0) { compare("two_ranks/rank0.json.gz", {"kineto/two_ranks/rank0.json.gz"}); }
TEST_F(RealTraces, HtaRank1) { compare("two_ranks/rank1.json.gz", {"kineto/two_ranks/rank1.json.gz"}); }
TEST_F(RealTraces, HtaTwoRanks) { compare("two_ranks", {"kineto/two_ranks/rank0.json.gz", "kineto/two_ranks/rank1.json.gz"}); }

TEST_F(RealTraces, WhereHtaFailsWithoutGpuOursAnswersAbsent) {
  const Trace trace = read({"kineto/no_gpu.json.gz"});
  const auto hta = htaBreakdown(trace);
  ASSERT_EQ(hta.size(), 1u);
  EXPECT_FALSE(hta[0].absent.empty());
}

TEST_F(RealTraces, SequenceParallelNsight) {
  const Trace trace = read({"nsys/sp_2gpu.sqlite"});
  const auto rows = breakdown(trace, classifyWork(trace));
  ASSERT_EQ(rows.size(), 2u);
  std::int64_t communication = 0, kernels = 0;
  for (const Breakdown& row : rows) {
    communication += row.communication_ns, kernels += row.communication_events;
    EXPECT_EQ(row.overlapped_communication_ns, 0);
    EXPECT_EQ(row.overlap, 0.0);
    EXPECT_EQ(row.idle_ns + row.compute_ns + row.exposed_communication_ns + row.exposed_memory_ns, row.span_ns);
  }
  EXPECT_EQ(communication, 25'401'752);
  EXPECT_EQ(kernels, 66);
  EXPECT_EQ(rows[0].communication_ns, 17'172'652);
  EXPECT_EQ(rows[0].compute_ns, 253'690'832);
  EXPECT_EQ(rows[0].communication_events, 33);
  EXPECT_EQ(rows[1].communication_ns, 8'229'100);
  EXPECT_EQ(rows[1].compute_ns, 256'095'624);
  EXPECT_EQ(rows[1].communication_events, 33);
}

TEST_F(RealTraces, CriticalPathsAreWholeOrSayWhy) {
  for (const std::string file : {"kineto/overlap_47.json.gz", "kineto/one_rank_with_memory.json.gz", "kineto/ns_resolution.json.gz",
                                 "kineto/two_ranks/rank0.json.gz", "kineto/no_gpu.json.gz", "kineto/cpu_gloo/cpu_a2a_rank0.json",
                                 "nsys/sp_2gpu.sqlite", "nsys/h100_2gpu_no_nccl.sqlite"}) {
    SCOPED_TRACE(file);
    Trace trace = read({file});
    const auto aligned = align(trace);
    ASSERT_TRUE(aligned) << aligned.error().format();
    const auto path = criticalPath(trace, classifyWork(trace), matchCollectives(trace));
    ASSERT_TRUE(path) << path.error().format();
    std::int64_t at = path->start_ns;
    for (const PathStep& step : path->steps) {
      ASSERT_EQ(step.start_ns, at);
      at = step.end_ns;
    }
    EXPECT_EQ(at, path->end_ns);
    if (std::getenv("SPSCOPE_SHOW")) {
      std::printf("%s: %zu steps, %lld ns, %lld inferred\n", file.c_str(), path->steps.size(),
                  static_cast<long long>(path->end_ns - path->start_ns), static_cast<long long>(path->inferred));
      for (int k = 0; k < kPathKinds; ++k)
        std::printf("  %s %lld\n", std::string(nameOf(static_cast<PathKind>(k))).c_str(), static_cast<long long>(path->ns[static_cast<std::size_t>(k)]));
    }
  }
}

}  // namespace
}  // namespace spscope::trace
