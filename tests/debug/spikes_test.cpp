// SPDX-License-Identifier: Apache-2.0
// A batch that makes the training jump is named, with the node, the row and the position; a training without one has none.
#include <cmath>
#include <span>

#include "tests/debug/debug_session.h"
#include "tests/support/temp_folder.h"

namespace spscope::zoo {
namespace {

class DebugSpikes : public DebugSession {
 protected:
  static constexpr const char* kModel = "llama_causal_gqa_pos";
  static constexpr std::int64_t kRare = 7, kSteps = 5, kBadStep = 2;

  /// A batch of seeded tokens without the rare one, but for those of row 1 from `at` on, where it is not negative.
  std::string batchFile(int seed, std::int64_t at, std::int64_t count) {
    const ir::Graph& g = *setup_.origin->model->graph;
    const exec::TensorBag seeded = exec::seedInputs(g, static_cast<std::uint64_t>(seed));
    exec::TensorBag out;
    for (const std::string& name : seeded.names()) {
      const exec::TensorBag::Entry entry = seeded.entry(name).value();
      if (name != "input_ids" && name != "labels") {
        EXPECT_TRUE(out.share(seeded, name));
        continue;
      }
      std::vector<std::int64_t> ids;
      const std::vector<double> given = seeded.values(name).value();
      for (const double x : given) ids.push_back(static_cast<std::int64_t>(x) == kRare ? kRare + 1 : static_cast<std::int64_t>(x));
      const std::int64_t length = entry.shape[1];
      if (name == "input_ids" && at >= 0)
        for (std::int64_t i = at; i < at + count; ++i) ids[static_cast<std::size_t>(length + i)] = kRare;
      EXPECT_TRUE(out.add(name, entry.dtype, entry.shape, std::as_bytes(std::span(ids))));
    }
    const std::string path = folder_.path("batch" + std::to_string(seed) + ".safetensors");
    EXPECT_TRUE(exec::saveBag(out, path));
    return path;
  }
  /// Batches for all steps; the rare token's row of the table is next to nothing, and its norm makes much of it.
  void openBatches(bool with_bad_one) {
    open(kModel, 2);
    std::vector<std::string> files;
    for (int i = 0; i < kSteps; ++i) files.push_back(batchFile(i, with_bad_one && i == kBadStep ? 5 : -1, 20));
    setup_.origin->data.inputs = files;
    setup_.sides.inputs = session::loadInputs(*setup_.origin->model, setup_.origin->data, 0, request_).value();
    std::string table;
    std::int64_t width = 0;
    for (const ir::Input& input : debugger_->graph(0).inputs)
      if (input.name.find("embed_tokens") != std::string::npos) table = input.name, width = debugger_->graph(0).value(input.value).shape[1];
    std::int64_t place = 0;
    changeState(table, [&](double x) { return place++ / width == kRare ? x * 1e-5 : x; });
  }
  TempFolder folder_;
};

TEST_F(DebugSpikes, TheBatchTheNodeAndThePositionAreNamed) {
  openBatches(true);
  const dbg::SpikeReport report = say("spikes " + std::to_string(kSteps)).spikes.value();
  ASSERT_EQ(report.steps.size(), static_cast<std::size_t>(kSteps));
  ASSERT_EQ(report.spikes.size(), 1u);
  const dbg::Spike& s = report.spikes.front();
  EXPECT_EQ(s.step, kBadStep);
  EXPECT_TRUE(s.in_gradient);
  EXPECT_TRUE(report.steps[kBadStep].batch.ends_with("batch2.safetensors"));
  ASSERT_TRUE(s.node);
  EXPECT_EQ(s.node->op, "aten.rsqrt.default");  // of the first norm: one over next to nothing
  EXPECT_GT(s.largest, 2 * s.usual);
  EXPECT_EQ(s.row, 1);
  EXPECT_GE(s.position, 5);
  EXPECT_LT(s.position, 25);
  EXPECT_EQ(say("where").stop->made, 0);
}

TEST_F(DebugSpikes, WithoutOneThereIsNone) {
  openBatches(false);
  EXPECT_TRUE(say("spikes 5").spikes->spikes.empty());
  EXPECT_EQ(refused("spikes 4").code, "usage");
}

TEST(DebugJumps, AreRobust) {
  EXPECT_THAT(dbg::jumps({3, 3, 3, 3, 3}, 0.01), testing::Each(0.0));
  const std::vector<double> falling = dbg::jumps({5.0, 4.8, 4.7, 4.5, 4.4, 4.2, 4.1, 4.0}, 0.01);
  EXPECT_THAT(falling, testing::Each(testing::Lt(dbg::kJump)));
  const std::vector<double> spike = dbg::jumps({5.0, 4.8, 4.7, 9.0, 4.4, 4.2, 4.1, 4.0}, 0.01);
  for (std::size_t i = 0; i < spike.size(); ++i) EXPECT_EQ(spike[i] > dbg::kJump, i == 3) << i << ": " << spike[i];
  const std::vector<double> nan = dbg::jumps({5.0, 4.8, std::nan(""), 4.5, 4.4, 4.2}, 0.01);
  EXPECT_TRUE(std::isinf(nan[2]));
  EXPECT_LT(nan[3], dbg::kJump);
}

}  // namespace
}  // namespace spscope::zoo
