// SPDX-License-Identifier: Apache-2.0
// MLPs in tiles: what is one, and what lives how long, by hand.
#include "core/session/plan/tiled_mlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/ir/text.h"
#include "core/session/plan/plan.h"
#include "passes/memory/liveness.h"
#include "tests/support/made_up_device.h"

namespace spscope::session {
namespace {

// 256 tokens, 64 wide, 128 inside, float32: four tiles of 64 tokens.
constexpr std::int64_t kInner = 256 * 128 * 4, kOuter = 256 * 64 * 4, kWeight = 64 * 128 * 4;
constexpr const char* kInputs = R"(// spscope-graph 1
graph "t" joint mesh(dp=1, sp=1) rank=0 ids=40 {
  input %w1 : f32{64, 128} parameter "w1" trainable
  input %w2 : f32{128, 64} parameter "w2" trainable
  input %x : f32{256s, 64} user "x"
  input %other : f32{256s, 128} user "other"
)";
// Places 0 to 14.
constexpr const char* kStep = R"(  %u = aten.mm.default(self=%x, mat2=%w1) : f32{256s, 128} bytes=131072 #1
  %a = aten.relu.default(self=%u) : f32{256s, 128} bytes=131072 #2
  %y = aten.mm.default(self=%a, mat2=%w2) : f32{256s, 64} bytes=65536 #3
  %z = aten.add.Tensor(self=%y, other=%x) : f32{256s, 64} bytes=65536 #4
  %g = aten.mul.Tensor(self=%z, other=2.0) : f32[256, 64] bytes=65536 #5 backward of=4
  %w2t = aten.t.default(self=%w2) : f32[64, 128] alias=%w2 #6 backward of=3
  %da = aten.mm.default(self=%g, mat2=%w2t) : f32[256, 128] bytes=131072 #7 backward of=3
  %at = aten.t.default(self=%a) : f32[128, 256] alias=%a #8 backward of=3
  %dw2 = aten.mm.default(self=%at, mat2=%g) : f32[128, 64] bytes=32768 #9 backward of=3
  %du = aten.threshold_backward.default(grad_output=%da, self=%a, threshold=0) : f32[256, 128] bytes=131072 #10 backward of=2
  %xt = aten.t.default(self=%x) : f32[64, 256] alias=%x #11 backward of=1
  %dw1 = aten.mm.default(self=%xt, mat2=%du) : f32[64, 128] bytes=32768 #12 backward of=1
  %w1t = aten.t.default(self=%w1) : f32[128, 64] alias=%w1 #13 backward of=1
  %dx = aten.mm.default(self=%du, mat2=%w1t) : f32[256, 64] bytes=65536 #14 backward of=1
  %dz = aten.add.Tensor(self=%g, other=%dx) : f32[256, 64] bytes=65536 #15 backward of=4
  output gradient %dw1 of=0
  output gradient %dw2 of=1
  output user %dz
}
)";

ir::Graph parsed(const std::string& text) {
  Result<ir::Graph> g = ir::parseGraph(text, "t");
  EXPECT_TRUE(g) << g.error().format();
  return g ? std::move(*g) : ir::Graph{};
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

TEST(TiledMlp, EveryPlaceByHand) {
  const ir::Graph g = parsed(std::string(kInputs) + kStep);
  const passes::MemoryCurve before = passes::predictMemory(g, {});
  std::vector<std::int64_t> live = before.live;
  const TiledMlps tiled = tileMlps(g, live);
  ASSERT_EQ(tiled.mlps, 1);
  EXPECT_EQ(tiled.tiles, 4);
  EXPECT_EQ(tiled.tile_rows, 64);
  EXPECT_EQ(tiled.inside, 3 * kInner) << "a, da, du";
  EXPECT_EQ(tiled.inside_tiled, 3 * kInner / 4);
  constexpr std::int64_t f = kInner / 4 * 3, h = kOuter, w = kWeight;
  const std::vector<std::int64_t> expected{
      h - f,      h - 2 * f,   -f,                               // u; u and a; a. y is there from the first tile on
      -kInner,    -kInner,     -kInner,                          // a is not kept for the backward
      2 * w + h - 2 * f, 2 * w + h - 2 * f, w + h - 2 * f, w + h - 3 * f,  // a, da, du; sums for both weights and dx from the first tile on
      w + h - f,  h - f,       h - f,       -f, 0};
  ASSERT_EQ(live.size(), expected.size());
  for (std::size_t i = 0; i < live.size(); ++i) EXPECT_EQ(live[i] - before.live[i], expected[i]) << "place " << i << ", " << g.node(g.order[i]).name;
  EXPECT_THAT(tiled.joined, ::testing::ElementsAre(h, h, h, 0, 0, 0, h, h, h, h, h, h, h, h, 0)) << "y; dx";
  using ::testing::Pair;
  EXPECT_THAT(tiled.again, ::testing::UnorderedElementsAre(Pair(6, 0), Pair(6, 1))) << "u and a, for the backward";
  EXPECT_THAT(tiled.ran, ::testing::ElementsAre(4, 4, 4, 1, 1, 1, 4, 4, 4, 4, 4, 4, 1, 4, 1));
}

TEST(TiledMlp, WhatIsNone) {
  const std::string text = std::string(kInputs) + kStep;
  const auto found = [](const std::string& changed) {
    const ir::Graph g = parsed(changed);
    std::vector<std::int64_t> live = passes::predictMemory(g, {}).live;
    const std::vector<std::int64_t> before = live;
    const TiledMlps out = tileMlps(g, live);
    EXPECT_EQ(live == before, out.mlps == 0);
    return out.mlps;
  };
  EXPECT_EQ(found(text), 1);
  EXPECT_EQ(found(with(text, "aten.relu.default(self=%u)", "aten.mul.Tensor(self=%u, other=%other)")), 0) << "it reads another value of tokens";
  EXPECT_EQ(found(with(text, "aten.relu.default(self=%u)", "aten._softmax.default(self=%u, dim=0, half_to_float=false)")), 0) << "over tokens";
  EXPECT_EQ(found(with(text, "output user %dz", "output user %dz\n  output user %a")), 0) << "somebody wants what is inside";
  EXPECT_EQ(found(with(text, "mat2=%w2)", "mat2=%x)")), 0) << "no weight";
}

class TiledMlpPlan : public ::testing::Test {
 protected:
  std::vector<PlanRow> rows(const std::string& model, std::int64_t seq, int sp, const std::string& save) {
    PlanRequest what;
    what.open.path = std::string(SPSCOPE_SOURCE_DIR) + model;
    what.open.seq = seq;
    what.profile = madeUpDevice(1e12);
    what.profile.launch = {5, 10, "made up"};
    what.space.gpus = sp;
    what.space.sp = {sp};
    what.space.dp = {1};
    what.space.zero = {0};
    what.space.save = {save};
    what.space.tile_loss = {false};
    what.space.tile_mlp = {false, true};
    what.settings.threads = 1;
    what.settings.device = "cpu";
    what.want = PlanWant::kTable;
    Request request;
    request.diagnostics = &diagnostics_;
    Result<PlanOutcome> out = plan(what, request);
    EXPECT_TRUE(out) << out.error().format();
    if (!out) return {};
    std::sort(out->rows.begin(), out->rows.end(), [](const PlanRow& a, const PlanRow& b) { return a.configuration.tile_mlp < b.configuration.tile_mlp; });
    return std::move(out->rows);
  }
  DiagnosticSink diagnostics_;
};

/// Four layers of 192 inside: gate, its activation, up and their product are kept for the backward, unless tiles make them again.
TEST_F(TiledMlpPlan, WhatAllLayersKeepInsideIsFreedToTheByte) {
  for (const std::int64_t seq : {4096, 8192}) {
    const auto both = rows("/resources/samples/llama_gqa.pt2", seq, 1, "all");
    ASSERT_EQ(both.size(), 2U);
    ASSERT_FALSE(both[1].illegal) << both[1].illegal->message;
    const Footprint &whole = both[0].footprint, &tiled = both[1].footprint;
    EXPECT_EQ(whole.peak_high - tiled.peak_high, 4 * 4 * seq * 192 * 4);
    EXPECT_EQ(tiled.compiled_peak, whole.compiled_peak);
    ASSERT_EQ(tiled.modelled.size(), 1U);
    EXPECT_THAT(tiled.modelled[0], ::testing::HasSubstr("4 of them in " + std::to_string(seq / 128) + " tiles of 128 tokens"));
    EXPECT_GT(tiled.time.middle, whole.time.middle) << "made again, and started once a tile";
  }
}

TEST_F(TiledMlpPlan, EveryLayersMlpIsFoundWhateverItIsCalled) {
  const std::vector<std::pair<const char*, const char*>> models{
      {"gpt2_dyn_pos", "2 of them"}, {"gemma_pos", "2 of them"}, {"phi3_pos", "2 of them"}, {"opt", "2 of them"}, {"bert_pos", "2 of them"}, {"torch_encoder", "2 of them"}, {"llama_autocast_pos", "2 of them"}};
  for (const auto& [model, count] : models) {
    const auto both = rows("/tests/data/zoo/" + std::string(model) + ".pt2", 0, 1, "min-cut");
    ASSERT_EQ(both.size(), 2U);
    ASSERT_FALSE(both[1].illegal) << model << ": " << both[1].illegal->message;
    EXPECT_THAT(both[1].footprint.modelled[0], ::testing::HasSubstr(count)) << model;
    EXPECT_LT(both[1].footprint.peak_high, both[0].footprint.peak_high) << model;
  }
}

TEST_F(TiledMlpPlan, AModelWithoutOneIsToldSo) {
  const auto both = rows("/tests/data/zoo/torch_mha_seqfirst.pt2", 0, 1, "all");
  ASSERT_EQ(both.size(), 2U);
  ASSERT_TRUE(both[1].illegal);
  EXPECT_EQ(both[1].illegal->code, "plan-illegal");
  EXPECT_THAT(both[1].illegal->message, ::testing::HasSubstr("no MLP was found"));
}

}  // namespace
}  // namespace spscope::session
