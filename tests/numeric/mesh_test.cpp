// SPDX-License-Identifier: Apache-2.0
// Meshes of replicas and sequence ranks: whatever the grid, ZeRO, accumulation and clipping, the numbers are those of one rank.
// Labels are uneven on purpose: rows and shards without any valid one.
#include <gmock/gmock.h>

#include "tests/support/figures.h"
#include "tests/support/mesh_run.h"
#include "tests/support/zoo.h"

namespace spscope::mesh {
namespace {

using testing::HasSubstr;

struct Grid {
  int dp, sp;
};
constexpr Grid kGrids[] = {{1, 4}, {2, 2}, {4, 1}};

Training trainingOf(const std::string& model) {
  Training t;
  t.path = zoo::folder() + model + ".pt2";
  return t;
}

void expectSame(const session::RunOutcome& got, const session::RunOutcome& want, const std::string& what) {
  ASSERT_EQ(got.steps.size(), want.steps.size()) << what;
  for (std::size_t i = 0; i < want.steps.size(); ++i) {
    EXPECT_LE(exec::relativeError(got.steps[i].loss, want.steps[i].loss), 1e-8) << what << " step " << i;
    if (want.steps[i].gradient_norm != 0.0)
      EXPECT_LE(exec::relativeError(got.steps[i].gradient_norm, want.steps[i].gradient_norm), 1e-8) << what << " step " << i;
  }
  for (const char* file : {"/weights.safetensors", "/optimizer.safetensors"})
    EXPECT_LE(distance(got.saved_to + file, want.saved_to + file), 1e-8) << what << file;
}

class Mesh : public testing::TestWithParam<std::tuple<int, double>> {};

TEST_P(Mesh, GridsAgreeWithOneRank) {
  const auto [accumulate, clip] = GetParam();
  const Folder folder;
  Training one = trainingOf("llama_causal_gqa_pos");
  one.inputs = unevenBatches(one, 4, 5, folder.path);
  one.accumulate = accumulate;
  one.clip = clip;
  one.save_to = folder.path + "/one";
  const session::RunOutcome want = train(one);
  ASSERT_EQ(want.steps.size(), 3u);
  EXPECT_EQ(want.steps[0].gradient_norm > 0.0, clip > 0.0);
  for (const Grid grid : kGrids)
    for (const int zero : {0, 1}) {
      Training t = one;
      t.dp = grid.dp, t.sp = grid.sp, t.zero = zero;
      const std::string what = std::to_string(grid.dp) + "x" + std::to_string(grid.sp) + " zero " + std::to_string(zero);
      t.save_to = folder.path + "/" + what;
      expectSame(train(t), want, what);
    }
}
INSTANTIATE_TEST_SUITE_P(Training, Mesh, testing::Combine(testing::Values(1, 3), testing::Values(0.0, 0.05)), [](const auto& info) {
  return "accumulate" + std::to_string(std::get<0>(info.param)) + (std::get<1>(info.param) > 0 ? "_clipped" : "");
});

/// Several batches per step are one batch of all their rows: not the mean of their means.
TEST(Mesh, AccumulationIsOneLargeBatch) {
  const Folder folder;
  Training small = trainingOf("llama_causal_gqa_pos");
  small.batch = 2;
  small.inputs = unevenBatches(small, 2, 4, folder.path);
  small.accumulate = 2, small.dp = 2, small.sp = 2, small.zero = 1, small.clip = 0.05, small.steps = 2;
  small.save_to = folder.path + "/small";
  Training large = small;
  large.dp = large.sp = large.accumulate = 1, large.zero = 0, large.batch = 4;
  large.inputs = {joined({small.inputs[0], small.inputs[1]}, folder.path + "/a.safetensors"), joined({small.inputs[2], small.inputs[3]}, folder.path + "/b.safetensors")};
  large.save_to = folder.path + "/large";
  expectSame(train(small), train(large), "2 x 2 rows against 4 rows");
}

TEST(Mesh, WhatZeroSavedGoesOnAnywhere) {
  const Folder folder;
  Training whole = trainingOf("gpt2_pos");
  whole.inputs = unevenBatches(whole, 4, 4, folder.path);
  whole.steps = 4;
  whole.save_to = folder.path + "/whole";
  Training first = whole, second = whole;
  first.steps = second.steps = 2;
  first.dp = first.sp = 2, first.zero = 1;
  first.save_to = folder.path + "/first";
  const session::RunOutcome begun = train(first);
  ASSERT_FALSE(begun.saved_to.empty());
  second.resume = folder.path + "/first";
  const session::RunOutcome want = train(whole);
  for (const auto [dp, sp, zero] : {std::tuple{1, 1, 0}, {4, 1, 1}, {1, 3, 1}}) {
    second.dp = dp, second.sp = sp, second.zero = zero;
    second.save_to = folder.path + "/second" + std::to_string(sp);
    const session::RunOutcome got = train(second);
    ASSERT_EQ(got.steps.size(), 2u);
    EXPECT_LE(exec::relativeError(got.steps[1].loss, want.steps[3].loss), 1e-8);
    EXPECT_LE(distance(got.saved_to + "/weights.safetensors", want.saved_to + "/weights.safetensors"), 1e-8);
    EXPECT_LE(distance(got.saved_to + "/optimizer.safetensors", want.saved_to + "/optimizer.safetensors"), 1e-8);
  }
}

TEST(Mesh, MemoryIsPredictedAndSharded) {
  for (const int accumulate : {1, 2}) {
    Training t = trainingOf("llama_causal_gqa_pos");
    t.dtype = ir::DType::kF32;
    t.steps = 2, t.accumulate = accumulate;
    t.dp = t.sp = 2;
    const session::RunOutcome whole = train(t);
    t.zero = 1;
    const session::RunOutcome sharded = train(t);
    const auto optimizer = [](const session::RunOutcome& o) { return o.compiled.figures.memory.at_peak[static_cast<std::size_t>(passes::MemoryClass::kOptimizer)]; };
    EXPECT_NEAR(static_cast<double>(optimizer(sharded)), static_cast<double>(optimizer(whole)) / 4.0, 0.02 * static_cast<double>(optimizer(whole)));
    for (const auto* o : {&whole, &sharded})
      for (std::size_t r = 0; r < o->peak_bytes.size(); ++r)
        EXPECT_NEAR(static_cast<double>(o->peak_bytes[r]), static_cast<double>(o->predicted_peak_bytes[r]), 0.02 * static_cast<double>(o->predicted_peak_bytes[r]));
    std::int64_t gathered = 0;
    for (const auto& c : sharded.compiled.figures.collectives) gathered += c.kind == "all_gather" ? c.bytes : 0;
    EXPECT_GT(gathered, 0);
  }
}

TEST(Mesh, ABatchThatDoesNotDivideIsRefused) {
  Training t = trainingOf("llama_causal_gqa_pos");
  t.dp = 3, t.sp = 2;
  const auto outcome = tryTrain(t);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, "setting-dp");
  EXPECT_EQ(outcome.error().outcome, Outcome::kRefused);
  EXPECT_THAT(outcome.error().legal, HasSubstr("--dp 1, 2, 4"));
  EXPECT_THAT(outcome.error().legal, HasSubstr("--batch 6"));
  EXPECT_EQ(outcome.error().node, "%input_ids");
}

// --- field cases -------------------------------------------------------------------------------------------------------

/// One clipped step: loss and gradient norm of the batch.
session::StepLine stepOn(Training t, int dp, int sp, int zero) {
  t.dp = dp, t.sp = sp, t.zero = zero;
  t.steps = 1, t.clip = 1e-3;
  const session::RunOutcome outcome = train(t);
  return outcome.steps.empty() ? session::StepLine{} : outcome.steps[0];
}

TEST(FieldCases, SP_10_the_gradient_norm_is_the_same_with_zero_0_and_1) {
  const Folder folder;
  Training t = trainingOf("gpt2_pos");
  t.inputs = unevenBatches(t, 4, 1, folder.path);
  const session::StepLine want = stepOn(t, 1, 1, 0);
  EXPECT_GT(want.gradient_norm, 1e-3);
  for (const auto& line : {stepOn(t, 1, 4, 0), stepOn(t, 1, 4, 1), stepOn(t, 4, 1, 0)}) {
    EXPECT_LE(exec::relativeError(line.gradient_norm, want.gradient_norm), 1e-10);
    EXPECT_LE(exec::relativeError(line.loss, want.loss), 1e-12);
  }
}

TEST(FieldCases, SP_11_two_by_four_and_eight_replicas_give_the_same_and_print_the_rule) {
  const Folder folder;
  Training t = trainingOf("llama_causal_gqa_pos");
  t.batch = 8;
  t.inputs = unevenBatches(t, 8, 1, folder.path);
  t.steps = 1, t.clip = 1.0;
  Training a = t, b = t;
  a.dp = 2, a.sp = 4;
  b.dp = 8, b.sp = 1;
  const session::RunOutcome x = train(a), y = train(b);
  ASSERT_EQ(x.steps.size(), 1u);
  ASSERT_EQ(y.steps.size(), 1u);
  EXPECT_LE(exec::relativeError(x.steps[0].gradient_norm, y.steps[0].gradient_norm), 1e-10);
  EXPECT_LE(exec::relativeError(x.steps[0].loss, y.steps[0].loss), 1e-12);
  EXPECT_THAT(x.compiled.scaling, HasSubstr("nothing is divided by the number of ranks"));
  EXPECT_THAT(x.compiled.scaling, HasSubstr("2 x 4 ranks"));
}

TEST(FieldCases, SP_16_replicas_with_unequal_tokens_equal_one_with_all_rows) {
  const Folder folder;
  Training t = trainingOf("llama_causal_gqa_pos");
  t.inputs = unevenBatches(t, 4, 1, folder.path);  // two rows of few labels for the second replica, all of them for the first
  const session::StepLine one = stepOn(t, 1, 1, 0), two = stepOn(t, 2, 1, 0);
  EXPECT_LE(exec::relativeError(two.loss, one.loss), 1e-12);
  EXPECT_LE(exec::relativeError(two.gradient_norm, one.gradient_norm), 1e-10);
}

TEST(FieldCases, SP_17_all_grids_agree) {
  const Folder folder;
  Training t = trainingOf("mixtral_batched_pos");  // its balance loss is a product of means over all tokens
  t.inputs = unevenBatches(t, 4, 1, folder.path);
  const session::StepLine want = stepOn(t, 1, 1, 0);
  for (const Grid grid : kGrids) {
    const session::StepLine got = stepOn(t, grid.dp, grid.sp, 1);
    EXPECT_LE(exec::relativeError(got.loss, want.loss), 1e-12) << grid.dp << "x" << grid.sp;
    EXPECT_LE(exec::relativeError(got.gradient_norm, want.gradient_norm), 1e-10) << grid.dp << "x" << grid.sp;
  }
}

TEST(FieldCases, SP_62_replicas_draw_for_their_rows_and_sequence_ranks_alike) {
  // One row per replica, too: then no dimension of the value counts rows any more.
  for (const auto [batch, dp, sp] : {std::tuple{2, 2, 2}, {4, 2, 2}, {4, 4, 1}, {6, 3, 1}})
    for (const char* save : {"sac", "budget=0"}) {
      zoo::Case what = zoo::caseOf("gpt2_dropout_pos", sp);
      what.inputs.clear();
      what.batch = batch, what.dp = dp, what.zero = 1, what.save = save;
      const auto verified = zoo::verify(what);
      ASSERT_TRUE(verified) << verified.error().format();
      EXPECT_TRUE(verified->outcome.equal) << batch << " rows on " << dp << "x" << sp << " " << save << ": loss off by " << verified->outcome.loss_rel;
    }
}

// --- every model of the zoo on a 2 x 2 mesh against PyTorch's figures --------------------------------------------------

class Zoo2x2 : public testing::TestWithParam<std::string> {};

TEST_P(Zoo2x2, GivesTheReference) {
  const zoo::Json ref = zoo::reference(GetParam());
  if (!ref.contains("loss_f64") || !ref["loss_f64"].is_number()) GTEST_SKIP() << "has no float64 reference";
  zoo::Case what = zoo::caseOf(GetParam(), 2);
  what.dp = 2, what.zero = 1;
  const auto verified = zoo::verify(what);
  if (!verified && (verified.error().code == "random-op-sharded" || verified.error().code == "op-unknown")) return;
  ASSERT_TRUE(verified) << verified.error().format();
  zoo::expectEqual(*verified);
  EXPECT_TRUE(verified->outcome.compiled.figures.gathers.empty()) << verified->outcome.compiled.figures.gathers[0].reason;
  const zoo::Distance far = zoo::distance(verified->outcome.loss, verified->gradients, ref, "f64");
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
  zoo::WorstFigures::table().add("zoo, 2 x 2, ZeRO 1", far.loss, far.gradient, GetParam() + ": " + far.worst);
}
INSTANTIATE_TEST_SUITE_P(All, Zoo2x2, testing::ValuesIn(zoo::names()), [](const auto& info) { return info.param; });

class Stress2x2 : public testing::TestWithParam<std::string> {};

TEST_P(Stress2x2, GivesTheReference) {
  zoo::Case what = zoo::caseOf(GetParam(), 2, true);
  what.dp = 2;
  const auto verified = zoo::verify(what);
  if (!verified && verified.error().code == "setting-dp") return;  // one row, or three
  ASSERT_TRUE(verified) << verified.error().format();
  EXPECT_TRUE(verified->outcome.equal) << verified->outcome.gradients.worst << " off by " << verified->outcome.gradients.rel_max;
  const zoo::Distance far = zoo::distance(verified->outcome.loss, verified->gradients, zoo::reference(GetParam(), true), "f64");
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
}
INSTANTIATE_TEST_SUITE_P(All, Stress2x2, testing::ValuesIn(zoo::names(true)), [](const auto& info) { return info.param; });

// --- real processes ----------------------------------------------------------------------------------------------------

class GlooMesh : public testing::TestWithParam<std::tuple<std::string, int, int>> {};

TEST_P(GlooMesh, TwentyStepsGiveTheCurveOfOneRank) {
  const auto [model, dp, zero] = GetParam();
  const Folder folder;
  Training one = trainingOf(model);
  one.inputs = unevenBatches(one, 4, 5, folder.path);
  one.steps = 20;
  one.clip = 0.5;
  one.save_to = folder.path + "/one";
  const session::RunOutcome want = train(one);
  Training t = one;
  t.dp = dp, t.sp = 4 / dp, t.zero = zero;
  t.ranks = "gloo";
  t.save_to = folder.path + "/mesh";
  const session::RunOutcome got = train(t);
  expectSame(got, want, "processes");
  EXPECT_LT(got.steps[19].loss, got.steps[0].loss);
  ASSERT_EQ(got.last_loss.size(), 4u);
  for (const double loss : got.last_loss) EXPECT_EQ(loss, got.last_loss[0]);
  for (std::size_t r = 0; r < 4; ++r)
    EXPECT_NEAR(static_cast<double>(got.peak_bytes[r]), static_cast<double>(got.predicted_peak_bytes[r]), 0.02 * static_cast<double>(got.predicted_peak_bytes[r]));
}
INSTANTIATE_TEST_SUITE_P(Real, GlooMesh, testing::Combine(testing::Values("llama_causal_gqa_pos", "gpt2_pos"), testing::Values(1, 2), testing::Values(0, 1)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) == 1 ? "_1x4" : "_2x2") + "_zero" + std::to_string(std::get<2>(info.param));
                         });

}  // namespace
}  // namespace spscope::mesh
