// SPDX-License-Identifier: Apache-2.0
// Optimizers against their formulas, their states through a file, and the comparison of gradients.
#include "core/torch/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "core/torch/compare.h"
#include "tests/unit/torch/exec_support.h"

namespace spscope::exec {
namespace {
using ir::DType;
using testing::put;
using Kind = OptimizerOptions::Kind;

TensorBag bag(const std::string& name, std::vector<double> values) {
  TensorBag b;
  put(b, name, DType::kF64, {static_cast<std::int64_t>(values.size())}, values);
  return b;
}

TEST(Optimizer, AdamWFollowsItsFormula) {
  TensorBag parameters = bag("w", {1.0, -2.0, 0.5});
  OptimizerOptions options;
  options.lr = 0.1;
  auto optimizer = Optimizer::create(options, parameters, {"w"});
  ASSERT_TRUE(optimizer) << optimizer.error().format();
  std::vector<double> w = {1.0, -2.0, 0.5}, m(3, 0.0), v(3, 0.0);
  for (int step = 1; step <= 5; ++step) {
    std::vector<double> g;
    for (int i = 0; i < 3; ++i) g.push_back(std::sin(step + i));
    ASSERT_TRUE(optimizer->apply(bag("w", g)));
    for (std::size_t i = 0; i < 3; ++i) {
      w[i] -= 0.1 * 0.01 * w[i];  // torch's default weight decay, decoupled
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      const double mh = m[i] / (1 - std::pow(0.9, step)), vh = v[i] / (1 - std::pow(0.999, step));
      w[i] -= 0.1 * mh / (std::sqrt(vh) + 1e-8);
    }
    const auto got = *parameters.values("w");  // updated in place
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], w[i], 1e-13);
  }
  EXPECT_EQ(optimizer->stateBytes(), 2 * 3 * 8);
  EXPECT_EQ(optimizer->steps(), 5);
}

TEST(Optimizer, SgdWithMomentum) {
  TensorBag parameters = bag("w", {1.0});
  OptimizerOptions options;
  options.kind = Kind::kSgd;
  options.lr = 0.5;
  options.momentum = 0.9;
  auto optimizer = Optimizer::create(options, parameters, {"w"});
  ASSERT_TRUE(optimizer);
  double w = 1.0, m = 0.0;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(optimizer->apply(bag("w", {0.25 + step})));
    m = 0.9 * m + 0.25 + step;
    w -= 0.5 * m;
    EXPECT_NEAR(*parameters.scalar("w"), w, 1e-14);
  }
}

TEST(Optimizer, ClipsByTheGlobalNorm) {
  TensorBag parameters = bag("a", {0.0});
  put<double>(parameters, "b", DType::kF64, {1}, {0.0});
  OptimizerOptions options;
  options.kind = Kind::kSgd;
  options.lr = 1.0;
  options.clip = 1.0;
  auto optimizer = Optimizer::create(options, parameters, {"a", "b"});
  TensorBag gradients = bag("a", {3.0});
  put<double>(gradients, "b", DType::kF64, {1}, {4.0});
  auto report = optimizer->apply(gradients);
  ASSERT_TRUE(report);
  EXPECT_DOUBLE_EQ(report->gradient_norm, 5.0);
  EXPECT_TRUE(report->clipped);
  EXPECT_NEAR(*parameters.scalar("a"), -3.0 / (5 + 1e-6), 1e-12);
  EXPECT_NEAR(*parameters.scalar("b"), -4.0 / (5 + 1e-6), 1e-12);
}

TEST(Optimizer, ClipsAGradientThatTwoParametersShareOnce) {
  TensorBag parameters = bag("a", {0.0});
  put<double>(parameters, "b", DType::kF64, {1}, {0.0});
  OptimizerOptions options;
  options.kind = Kind::kSgd;
  options.lr = 1.0;
  options.clip = 1.0;
  auto optimizer = Optimizer::create(options, parameters, {"a", "b"});
  TensorBag gradients = bag("a", {3.0});
  ASSERT_TRUE(gradients.share(gradients, "a", "b"));
  ASSERT_TRUE(optimizer->apply(gradients));
  EXPECT_NEAR(*parameters.scalar("b"), -1 / std::sqrt(2.0), 1e-6);
  EXPECT_EQ(*parameters.scalar("b"), *parameters.scalar("a"));
}

TEST(Optimizer, RestoredStatesGoOnAsIfNothingHappened) {
  const auto gradient = [](int step) { return bag("w", {std::cos(step), std::sin(step)}); };
  OptimizerOptions options;
  TensorBag through = bag("w", {1.0, 2.0});
  auto one = Optimizer::create(options, through, {"w"});
  for (int s = 0; s < 6; ++s) ASSERT_TRUE(one->apply(gradient(s)));

  TensorBag first = bag("w", {1.0, 2.0});
  auto two = Optimizer::create(options, first, {"w"});
  for (int s = 0; s < 3; ++s) ASSERT_TRUE(two->apply(gradient(s)));
  const TensorBag saved = two->states().clone();
  TensorBag second = first.clone();
  auto three = Optimizer::create(options, second, {"w"});
  ASSERT_TRUE(three->restore(saved));
  EXPECT_EQ(three->steps(), 3);
  for (int s = 3; s < 6; ++s) ASSERT_TRUE(three->apply(gradient(s)));
  EXPECT_EQ(*second.values("w"), *through.values("w"));

  TensorBag wrong = saved;
  ASSERT_TRUE(wrong.erase("exp_avg.w"));
  EXPECT_EQ(three->restore(wrong).error().code, "tensor-missing");
}

/// Zeros and ones of a 16-bit type.
TensorBag half(DType type, const std::vector<double>& values) {
  TensorBag wide = bag("w", values), out;
  std::vector<std::uint16_t> bits;
  for (const double v : values) {
    EXPECT_TRUE(v == 0.0 || v == 1.0);
    bits.push_back(v == 0.0 ? 0 : type == DType::kBF16 ? 0x3f80 : 0x3c00);
  }
  EXPECT_TRUE(out.add("w", type, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(bits))));
  return out;
}
TensorBag single(const std::vector<double>& values) {
  TensorBag out;
  put(out, "w", DType::kF32, {static_cast<std::int64_t>(values.size())}, std::vector<float>(values.begin(), values.end()));
  return out;
}

TEST(Optimizer, MastersTakeStepsThatA16BitWeightLoses) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    TensorBag master = half(type, {1.0, 0.0}), plain = half(type, {1.0, 0.0}), wide = single({1.0, 0.0});
    OptimizerOptions options;
    options.lr = 1e-4;  // half a unit in the last place below 1 is 2.0e-3 in bfloat16, 2.4e-4 in float16
    auto with = Optimizer::create(options, master, {"w"}), reference = Optimizer::create(options, wide, {"w"});
    options.master_weights = false;
    auto without = Optimizer::create(options, plain, {"w"});
    ASSERT_TRUE(with && without && reference);
    EXPECT_EQ(with->stateBytes(), 2 * 12);
    EXPECT_EQ(without->stateBytes(), 2 * 4);
    for (int step = 0; step < 40; ++step) {
      const std::vector<double> g = {1.0 + 0.25 * (step % 3), -2.0};
      ASSERT_TRUE(with->apply(single(g)));
      ASSERT_TRUE(reference->apply(single(g)));
      ASSERT_TRUE(without->apply(single(g)));  // float32 gradients are taken by both
    }
    EXPECT_EQ(*with->states().values("master.w"), *wide.values("w"));  // as float32 training, to the last bit
    EXPECT_EQ(plain.values("w")->at(0), 1.0);                          // 40 steps lost
    EXPECT_LT(master.values("w")->at(0), 1.0);
    EXPECT_NEAR(master.values("w")->at(0), wide.values("w")->at(0), 2e-3);
    EXPECT_EQ(master.entry(0).dtype, type);
  }
}

TEST(Optimizer, MastersAreSavedAndRestoredExactly) {
  const auto gradient = [](int step) { return single({std::cos(step), std::sin(step), 1.0}); };
  OptimizerOptions options;
  TensorBag through = half(DType::kBF16, {1.0, 0.0, 1.0});
  auto one = Optimizer::create(options, through, {"w"});
  for (int s = 0; s < 6; ++s) ASSERT_TRUE(one->apply(gradient(s)));
  TensorBag first = half(DType::kBF16, {1.0, 0.0, 1.0});
  auto two = Optimizer::create(options, first, {"w"});
  for (int s = 0; s < 3; ++s) ASSERT_TRUE(two->apply(gradient(s)));
  const TensorBag saved = two->states().clone();
  TensorBag second = first.clone();
  auto three = Optimizer::create(options, second, {"w"});
  ASSERT_TRUE(three->restore(saved));
  for (int s = 3; s < 6; ++s) ASSERT_TRUE(three->apply(gradient(s)));
  EXPECT_EQ(*second.values("w"), *through.values("w"));
  EXPECT_EQ(*three->states().values("master.w"), *one->states().values("master.w"));
  // A block of them, out of whole ones.
  options.shards = 2, options.shard = 1;
  auto block = Optimizer::create(options, second, {"w"});
  ASSERT_TRUE(block->restore(saved));
  EXPECT_EQ(*block->states().values("master.w"), (std::vector<double>{saved.values("master.w")->at(2)}));
  // Plain states are another kind.
  options = {};
  options.master_weights = false;
  auto plain = Optimizer::create(options, second, {"w"});
  const Status refused = plain->restore(saved);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "optimizer-state");
  EXPECT_NE(refused.error().message.find("AdamW on float32 master weights"), std::string::npos) << refused.error().message;
}

TEST(Optimizer, ClipsFloat32GradientsOf16BitParameters) {
  TensorBag parameters = half(DType::kBF16, {0.0, 0.0});
  OptimizerOptions options;
  options.kind = Kind::kSgd;
  options.lr = 1.0;
  options.clip = 1.0;
  auto optimizer = Optimizer::create(options, parameters, {"w"});
  auto report = optimizer->apply(single({3.0, 4.0}));
  ASSERT_TRUE(report);
  EXPECT_DOUBLE_EQ(report->gradient_norm, 5.0);
  EXPECT_NEAR(optimizer->states().values("master.w")->at(1), -0.8, 1e-6);
  TensorBag wrong = bag("w", {3.0, 4.0});
  EXPECT_EQ(optimizer->apply(wrong).error().code, "gradient-shape");  // float64 is nobody's
}

TEST(Compare, RelativeToTheReferenceWithAFloor) {
  TensorBag want = bag("big", {3.0, 4.0});
  put<double>(want, "tiny", DType::kF64, {1}, {1e-9});
  TensorBag got = bag("big", {3.0, 4.0 + 1e-6});
  put<double>(got, "tiny", DType::kF64, {1}, {2e-9});
  auto c = compareGradients(got, want, 1e-6);
  ASSERT_TRUE(c);
  EXPECT_NEAR(c->parameters[0].rel, 1e-6 / 5, 1e-15);
  EXPECT_EQ(c->parameters[0].worst_index, 1);
  EXPECT_NEAR(c->parameters[1].rel, 1e-9 / 5e-6, 1e-12);  // by the floor, not 1
  EXPECT_EQ(c->worst, "tiny");
  EXPECT_FALSE(c->within(Tolerance::of(DType::kF64)));
}

TEST(Compare, NotFiniteAndMissingAreDifferent) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto c = compareGradients(bag("w", {1.0, nan}), bag("w", {1.0, 2.0}), 1e-6);
  ASSERT_TRUE(c);
  EXPECT_TRUE(std::isinf(c->rel_max));
  EXPECT_EQ(c->parameters[0].worst_index, 1);
  EXPECT_FALSE(c->within(Tolerance{1, 1e300, 1e-6}));
  c = compareGradients(TensorBag(), bag("w", {1.0}), 1e-6);
  EXPECT_EQ(c->rel_max, 1.0);
  c = compareGradients(bag("w", {1.0}), TensorBag(), 1e-6);
  EXPECT_TRUE(std::isinf(c->rel_max));
  EXPECT_EQ(compareGradients(bag("w", {1.0}), bag("w", {1.0, 2.0}), 0).error().code, "gradient-shape");
}

TEST(Compare, Fingerprint) {
  const auto s = statistics(bag("w", {1.0, -3.0}), "w");
  ASSERT_TRUE(s);
  EXPECT_DOUBLE_EQ(s->norm, std::sqrt(10.0));
  EXPECT_DOUBLE_EQ(s->sum, -2.0);
  EXPECT_DOUBLE_EQ(s->absmax, 3.0);
  EXPECT_DOUBLE_EQ(s->dot_sin, std::sin(1.0) - 3 * std::sin(2.0));
}

TEST(TensorBag, ClonesAreIndependentAndSharedOnesAreNot) {
  TensorBag a = bag("w", {1.0, 2.0});
  ASSERT_TRUE(a.share(a, "w", "tied"));
  EXPECT_EQ(a.bytes(), 16);
  TensorBag copy = a.clone();
  EXPECT_EQ(copy.bytes(), 16);  // still tied
  TensorBag shared = a;
  OptimizerOptions options;
  options.kind = Kind::kSgd;
  options.lr = 1.0;
  auto optimizer = Optimizer::create(options, a, {"w"});
  ASSERT_TRUE(optimizer->apply(bag("w", {1.0, 1.0})));
  EXPECT_EQ(*shared.values("tied"), (std::vector<double>{0.0, 1.0}));
  EXPECT_EQ(*copy.values("w"), (std::vector<double>{1.0, 2.0}));
  EXPECT_EQ(a.entry("ties").error().code, "tensor-missing");
  EXPECT_EQ(a.add("x", DType::kF64, {3}, {}).error().code, "tensor-bytes");
}

}  // namespace
}  // namespace spscope::exec
