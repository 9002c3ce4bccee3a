// SPDX-License-Identifier: Apache-2.0
// Figures that others have published of the memory of a step, on exported graphs of the same kind. What takes minutes is
// `./run bench published`.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/session/compile_shared.h"
#include "core/session/plan/footprint.h"
#include "core/session/plan/offload.h"

namespace spscope::session {
namespace {

class Published : public ::testing::Test {
 protected:
  static std::string big(const std::string& name) { return std::string(SPSCOPE_SOURCE_DIR) + "/../shared/zoo/big/" + name + ".pt2"; }
  Request request() {
    Request r;
    r.diagnostics = &diagnostics_;
    return r;
  }
  /// `reported`: with the reason for every value, and the checks between passes.
  std::optional<CompileOutcome> compiled(const std::string& path, std::int64_t seq, int sp, const std::string& save, bool reported) {
    OpenRequest open_what;
    open_what.path = path;
    open_what.seq = seq;
    const auto model = open(open_what, request());
    EXPECT_TRUE(model) << model.error().format();
    if (!model) return std::nullopt;
    CompileRequest what;
    Configuration configuration;
    configuration.sp = sp;
    configuration.save = save;
    what.settings = settingsOf(configuration, {}, seq);
    what.settings.device = "cuda";
    what.settings.threads = 1;
    auto outcome = reported ? compile(**model, what, request()) : compileShared(**model, what, nullptr, request());
    EXPECT_TRUE(outcome) << outcome.error().format();
    return outcome ? std::optional(std::move(*outcome)) : std::nullopt;
  }
  DiagnosticSink diagnostics_;
};

/// transformers#48444, offload of checkpoints: after the forward exactly layers x tokens x hidden x 2 bytes less (128, 512 and
/// 3584 MiB). What one layer hands to the next is that, on every rank its share; of the first layer's input, which is read off a
/// table, nothing is kept but the ids.
TEST_F(Published, WhatLayersHandOnIsTokensTimesHiddenTimesTwo) {
  const std::string path = big("llama_l4_h512");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the models of the zoo are not there: " << path;
  constexpr std::int64_t kLayers = 4, kHidden = 512;
  for (const int sp : {1, 2})
    for (const std::int64_t seq : {2048, 8192}) {
      const auto outcome = compiled(path, seq, sp, "sac", true);
      ASSERT_TRUE(outcome);
      const std::int64_t one = seq / sp * kHidden * 2;
      std::int64_t sum = 0, embedding = 0;
      const passes::MemoryReport& report = outcome->compiled.memory.at(static_cast<std::size_t>(outcome->figures.program));
      for (const passes::ValueDecision& value : report.values) {
        if (value.decision == passes::Decision::kSave && value.reason == passes::SavingReason::kCrossesLayer) sum += value.bytes;
        const ir::Graph& graph = *outcome->compiled.programs[static_cast<std::size_t>(outcome->figures.program)];
        if (graph.node(value.node).op.str() == "aten.embedding.default") {
          EXPECT_EQ(value.decision, passes::Decision::kRecompute);
          embedding = value.bytes;
        }
      }
      EXPECT_EQ(sum, (kLayers - 1) * one) << "sp " << sp << ", " << seq << " tokens";
      EXPECT_EQ(sum + embedding, kLayers * one);
    }
}

/// The same report, and accelerate#4175 (24.73 GB with offload and without, 79.43 without checkpoints): where the forward ends, all
/// but the last checkpoint have left, each tokens x hidden x 2 bytes; the peak changes by those that would be in it, and by no more.
TEST_F(Published, OffloadLowersThePeakOnlyByCheckpointsThatAreInIt) {
  const std::string path = big("llama_l4_h512");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the models of the zoo are not there: " << path;
  constexpr std::int64_t kSeq = 8192, kHidden = 512;
  for (const char* save : {"sac", "layer-inputs", "all"}) {
    SCOPED_TRACE(save);
    const auto outcome = compiled(path, kSeq, 1, save, false);
    ASSERT_TRUE(outcome);
    const ir::Graph& program = *outcome->compiled.programs[static_cast<std::size_t>(outcome->figures.program)];
    const passes::MemoryCurve& before = outcome->figures.memory;
    const std::vector<Checkpoint> checkpoints = findCheckpoints(program);
    // What `all` keeps of a layer's input is its float32 copy: no checkpoint lies between layers.
    ASSERT_EQ(checkpoints.size(), std::string(save) == "all" ? 0U : 3U);
    std::vector<std::int64_t> live = before.live;
    const std::int64_t host = moveToHost(checkpoints, live).low;
    std::int64_t left = 0, in_peak = 0;
    for (const Checkpoint& c : checkpoints) {
      EXPECT_EQ(c.bytes, kSeq * kHidden * 2);
      if (c.back <= c.gone) continue;
      left += c.bytes;
      if (c.gone <= before.peak_position && before.peak_position < c.back) in_peak += c.bytes;
    }
    EXPECT_EQ(host, left);
    EXPECT_EQ(left, checkpoints.empty() ? 0 : static_cast<std::int64_t>(checkpoints.size() - 1) * kSeq * kHidden * 2);
    EXPECT_EQ(before.live[static_cast<std::size_t>(before.peak_position)] - live[static_cast<std::size_t>(before.peak_position)], in_peak);
    const std::int64_t after = *std::max_element(live.begin(), live.end());
    EXPECT_LE(before.peak - after, in_peak);
    if (in_peak == 0) {
      EXPECT_EQ(after, before.peak);
    }
  }
}

/// ALST's recipes, Llama 8B on one GPU and nothing else: 71.91 GB at 32,000 tokens, 137.36 at 65,000. Whether a GB is 10^9 or 2^30
/// bytes is not said.
TEST_F(Published, ATokenOfLlama8BTakesWhatItTookOthers) {
  const std::string path = big("llama3_8b");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the models of the zoo are not there: " << path;
  const auto few = compiled(path, 32000, 1, "sac", false), many = compiled(path, 65000, 1, "sac", false);
  ASSERT_TRUE(few && many);
  const double slope = static_cast<double>(many->figures.memory.peak - few->figures.memory.peak) / 33000;
  EXPECT_GT(slope, 0.9 * (137.36 - 71.91) * 1e9 / 33000);
  EXPECT_LT(slope, 1.1 * (137.36 - 71.91) * (1 << 30) / 33000);
}

}  // namespace
}  // namespace spscope::session
