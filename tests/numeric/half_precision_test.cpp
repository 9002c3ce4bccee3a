// SPDX-License-Identifier: Apache-2.0
// Training with 16-bit parameters: float32 masters and states, float32 sums of gradients, on every grid and with ZeRO; what is
// saved goes on to the last bit; the plain form is there, and loses what it is known to lose.
#include <gmock/gmock.h>

#include "core/base/strings.h"
#include "tests/support/mesh_run.h"
#include "tests/support/zoo.h"

namespace spscope::mesh {
namespace {

using testing::HasSubstr;

Training halfTraining() {
  Training t;
  t.path = zoo::folder() + "llama_bf16_pos.pt2";
  t.dtype.reset();  // the file's: bfloat16
  return t;
}

exec::TensorBag saved(const session::RunOutcome& outcome, const char* file) {
  auto bag = exec::loadBag(outcome.saved_to + file);
  EXPECT_TRUE(bag) << outcome.saved_to;
  return bag ? *bag : exec::TensorBag();
}

/// Masters after the same steps; two right ones differ by the rounding of what ranks compute. Of all of them together: AdamW makes a
/// step of full length out of any gradient, also of one that is all rounding.
double mastersApart(const session::RunOutcome& a, const session::RunOutcome& b, double* moved) {
  const exec::TensorBag x = saved(a, "/optimizer.safetensors"), y = saved(b, "/optimizer.safetensors"), w = saved(b, "/weights.safetensors");
  double off = 0.0, all = 0.0;
  int masters = 0;
  for (const std::string& name : y.names()) {
    if (!name.starts_with("exp_avg.")) continue;
    EXPECT_EQ(y.entry(name)->dtype, ir::DType::kF32);
    const std::string parameter = name.substr(8);
    EXPECT_EQ(w.entry(parameter)->dtype, ir::DType::kBF16);
    ++masters;
    const auto p = x.values(name).value(), q = y.values(name).value(), m = y.values("master." + parameter).value(), bf = w.values(parameter).value();
    for (std::size_t i = 0; i < q.size(); ++i) {
      off += (p[i] - q[i]) * (p[i] - q[i]), all += q[i] * q[i];
      EXPECT_LE(std::abs(m[i] - bf[i]), std::abs(m[i]) / 256) << parameter;  // the weight is the master, rounded
      *moved += m[i] != bf[i];
    }
  }
  EXPECT_GT(masters, 10);
  return std::sqrt(off / all);
}

TEST(HalfPrecision, GridsAgreeWithOneRank) {
  const Folder folder;
  Training one = halfTraining();
  one.inputs = unevenBatches(one, 4, 6, folder.path);
  one.accumulate = 2, one.clip = 0.5;
  one.save_to = folder.path + "/one";
  const session::RunOutcome want = train(one);
  ASSERT_EQ(want.steps.size(), 3u);
  for (const auto& [dp, sp] : {std::pair{1, 4}, {2, 2}}) {
    session::RunOutcome of_zero[2];
    for (const int zero : {0, 1}) {
      Training t = one;
      t.dp = dp, t.sp = sp, t.zero = zero;
      t.save_to = strf("%s/%dx%d-%d", folder.path.c_str(), dp, sp, zero);
      of_zero[zero] = train(t);
      const session::RunOutcome& got = of_zero[zero];
      ASSERT_EQ(got.steps.size(), 3u);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_LE(exec::relativeError(got.steps[i].loss, want.steps[i].loss), 5e-3) << t.save_to << " step " << i;
        EXPECT_LE(exec::relativeError(got.steps[i].gradient_norm, want.steps[i].gradient_norm), 2e-2) << t.save_to << " step " << i;
      }
      double moved = 0;
      EXPECT_LE(mastersApart(got, want, &moved), 5e-2) << t.save_to;
      EXPECT_GT(moved, 1000) << "masters hold no more than the weights";
    }
    // Sums are made in the order of the ranks either way, in float32: not one bit differs.
    EXPECT_EQ(distance(of_zero[1].saved_to + "/weights.safetensors", of_zero[0].saved_to + "/weights.safetensors"), 0.0);
    EXPECT_EQ(distance(of_zero[1].saved_to + "/optimizer.safetensors", of_zero[0].saved_to + "/optimizer.safetensors"), 0.0);
  }
}

TEST(HalfPrecision, SmallUpdatesAreNotLost) {
  const Folder folder;
  Training t = halfTraining();
  t.inputs = unevenBatches(t, 4, 1, folder.path);
  t.lr = 1.5e-4, t.steps = 25;  // a step is a third at most of what would change a weight of a norm; all together are some times that
  t.save_to = folder.path + "/masters";
  const session::RunOutcome with = train(t);
  t.master_weights = false;
  t.save_to = folder.path + "/plain";
  const session::RunOutcome without = train(t);
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  const auto model = session::open(openOf(t), request);
  ASSERT_TRUE(model);
  const auto before = session::loadState(**model, {}, request)->values("model.model.norm.weight").value();
  const auto count = [&](const session::RunOutcome& o) {
    const auto after = saved(o, "/weights.safetensors").values("model.model.norm.weight").value();
    int moved = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_GT(before[i], 0.25);
      moved += after[i] != before[i];
    }
    return moved;
  };
  EXPECT_EQ(count(without), 0);
  EXPECT_GT(count(with), 0);
  EXPECT_FALSE(saved(without, "/optimizer.safetensors").contains("master.model.model.norm.weight"));
}

/// What the ranks add is the same; only the sum is rounded or not.
TEST(HalfPrecision, SumsInFloat32KeepWhat16BitsLose) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  const Training t = halfTraining();
  const auto model = session::open(openOf(t), request);
  ASSERT_TRUE(model) << model.error().format();
  session::VerifyRequest proof;
  proof.settings.dp = 4, proof.settings.sp = 4, proof.settings.batch = t.batch;
  const auto wide = session::verify(**model, proof, request);
  proof.settings.wide_gradients = false;
  const auto narrow = session::verify(**model, proof, request);
  ASSERT_TRUE(wide) << wide.error().format();
  ASSERT_TRUE(narrow) << narrow.error().format();
  ASSERT_TRUE(wide->float32 && narrow->float32);
  EXPECT_TRUE(wide->equal);
  EXPECT_LT(wide->float32->sharded_gradient, narrow->float32->sharded_gradient);
  const auto sent = [](const session::VerifyOutcome& o) {
    for (const passes::CollectiveTotal& c : o.compiled.figures.collectives)
      if (c.kind == "all_reduce") return c.bytes;
    return std::int64_t{0};
  };
  EXPECT_GT(sent(*wide), 19 * sent(*narrow) / 10);  // twice, but for the loss
}

/// Masters, wide gradients and sums of batches to the byte: what is left is the workspace of bfloat16 attention, the same in each form.
TEST(HalfPrecision, MemoryIsPredicted) {
  std::optional<std::int64_t> left;
  for (const int zero : {0, 1})
    for (const bool plain : {false, true}) {
      Training t = halfTraining();
      t.steps = 2, t.dp = t.sp = 2, t.zero = zero, t.accumulate = plain ? 1 : 2;
      t.master_weights = t.wide_gradients = !plain;
      const session::RunOutcome o = train(t);
      ASSERT_EQ(o.peak_bytes.size(), 4u);
      for (std::size_t r = 0; r < 4; ++r) {
        const std::int64_t off = o.peak_bytes[r] - o.predicted_peak_bytes[r];
        if (!left) left = off;
        EXPECT_EQ(off, *left) << "zero " << zero << (plain ? " plain" : " masters") << " rank " << r;
        EXPECT_LE(std::abs(static_cast<double>(off)), 0.04 * static_cast<double>(o.predicted_peak_bytes[r]));
      }
    }
}

TEST(HalfPrecision, WhatWasSavedGoesOnToTheLastBit) {
  const Folder folder;
  Training whole = halfTraining();
  whole.inputs = unevenBatches(whole, 4, 4, folder.path);
  whole.dp = whole.sp = 2, whole.zero = 1, whole.steps = 4;
  whole.save_to = folder.path + "/whole";
  Training first = whole, second = whole;
  first.steps = second.steps = 2;
  first.save_to = second.resume = folder.path + "/first";
  const session::RunOutcome want = train(whole);
  train(first);
  for (const int zero : {0, 1}) {
    second.zero = zero;
    second.save_to = strf("%s/second%d", folder.path.c_str(), zero);
    const session::RunOutcome got = train(second);
    for (const char* file : {"/weights.safetensors", "/optimizer.safetensors"}) EXPECT_EQ(distance(got.saved_to + file, want.saved_to + file), 0.0) << file;
  }
  second.master_weights = false;
  const auto refused = tryTrain(second);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "optimizer-state");
  EXPECT_THAT(refused.error().message, HasSubstr("master weights"));
}

TEST(HalfPrecision, ProcessesTrainAsVirtualRanks) {
  const Folder folder;
  Training t = halfTraining();
  t.inputs = unevenBatches(t, 4, 3, folder.path);
  t.dp = t.sp = 2, t.zero = 1, t.clip = 0.5;
  t.save_to = folder.path + "/virtual";
  const session::RunOutcome want = train(t);
  t.ranks = "gloo";
  t.save_to = folder.path + "/gloo";
  const session::RunOutcome got = train(t);
  for (const char* file : {"/weights.safetensors", "/optimizer.safetensors"}) EXPECT_EQ(distance(got.saved_to + file, want.saved_to + file), 0.0) << file;
  for (std::size_t r = 0; r < got.peak_bytes.size(); ++r)
    EXPECT_NEAR(static_cast<double>(got.peak_bytes[r]), static_cast<double>(got.predicted_peak_bytes[r]), 0.04 * static_cast<double>(got.predicted_peak_bytes[r]));
}

// --- accumulation, proved ----------------------------------------------------------------------------------------------

session::VerifyOutcome prove(const std::string& model, int accumulate, const std::vector<std::string>& inputs, std::optional<ir::DType> dtype = ir::DType::kF64) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  Training t;
  t.path = zoo::folder() + model + ".pt2", t.dtype = dtype, t.batch = 2;
  session::VerifyRequest proof;
  proof.open = openOf(t);
  proof.settings.sp = 2, proof.settings.batch = t.batch, proof.settings.accumulate = accumulate;
  proof.data.inputs = inputs;
  const auto opened = session::open(proof.open, request);
  if (!opened) return ADD_FAILURE() << opened.error().format(), session::VerifyOutcome();
  auto outcome = session::verify(**opened, proof, request);
  if (!outcome) return ADD_FAILURE() << outcome.error().format(), session::VerifyOutcome();
  return std::move(*outcome);
}

TEST(VerifyAccumulated, AgainstOneBatchOfAllRows) {
  const Folder folder;
  Training t;
  t.path = zoo::folder() + "llama_causal_gqa_pos.pt2", t.batch = 2;
  const auto inputs = unevenBatches(t, 2, 3, folder.path);
  const session::VerifyOutcome three = prove("llama_causal_gqa_pos", 3, inputs), one = prove("llama_causal_gqa_pos", 1, inputs);
  EXPECT_TRUE(three.equal) << three.loss_rel << " " << three.gradients.rel_max;
  EXPECT_EQ(three.reference, "one unsharded batch of 6 rows");
  EXPECT_GT(exec::relativeError(three.loss, one.loss), 1e-3);  // it is the loss of all batches
  EXPECT_EQ(one.reference, "");
}

TEST(VerifyAccumulated, OtherwiseAgainstTheBatchesAndSaysWhy) {
  const session::VerifyOutcome items = prove("llama_numitems_pos", 2, zoo::caseOf("llama_numitems_pos", 2).inputs);
  EXPECT_TRUE(items.equal) << items.loss_rel << " " << items.gradients.rel_max;
  EXPECT_THAT(items.reference, HasSubstr("2 unsharded batches"));
  EXPECT_THAT(items.reference, HasSubstr("an input has no dimension that counts rows"));
  const session::VerifyOutcome dropout = prove("gpt2_dropout_pos", 2, {});
  EXPECT_TRUE(dropout.equal) << dropout.loss_rel << " " << dropout.gradients.rel_max;
  EXPECT_THAT(dropout.reference, HasSubstr("random ops"));
  const session::VerifyOutcome half = prove("llama_bf16_pos", 2, {}, std::nullopt);
  EXPECT_TRUE(half.equal) << half.gradients.rel_max;
  ASSERT_TRUE(half.float32);
  EXPECT_LE(half.float32->ratio(), session::AgainstFloat32::kMargin);
}

}  // namespace
}  // namespace spscope::mesh
