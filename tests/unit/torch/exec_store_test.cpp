// SPDX-License-Identifier: Apache-2.0
// Seeded weights and inputs, checks of given inputs, files; and weights out of an archive of the zoo.
#include "core/torch/tensor_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "core/io/program.h"
#include "core/ir/convert_dtype.h"
#include "core/torch/threads.h"
#include "tests/unit/torch/exec_support.h"

namespace spscope::exec {
namespace {
using ir::DType;
using ir::InputKind;
using testing::Builder;
using testing::put;
using A = Builder;

/// ids -> view -> embedding -> scores; labels -> pad -> slice -> cross entropy.
Builder model() {
  Builder b;
  const auto table = b.input("embed.weight", DType::kF64, {50, 4}, InputKind::kParameter);
  b.input("norm.weight", DType::kF64, {4}, InputKind::kParameter);
  b.input("proj.bias", DType::kF64, {4}, InputKind::kParameter);
  b.input("rotary.inv_freq", DType::kF64, {8}, InputKind::kBuffer);
  b.input("embed.embed_scale", DType::kF64, {}, InputKind::kBuffer);
  const auto ids = b.input("input_ids", DType::kI64, {2, 6});
  const auto labels = b.input("labels", DType::kI64, {2, 6});
  b.input("position_ids", DType::kI64, {2, 6});
  b.input("attention_mask", DType::kI64, {2, 6});
  b.input("num_items_in_batch", DType::kI64, {});
  b.input("extra", DType::kF64, {3});
  const auto flat = b.op("aten.view.default", DType::kI64, {12}, {A::t("self", ids), A::list("size", {12})});
  const auto x = b.op("aten.embedding.default", DType::kF64, {12, 4}, {A::t("weight", table), A::t("indices", flat)});
  const auto moved = b.op("aten.slice.Tensor", DType::kI64, {2, 5}, {A::t("self", labels), A::i("dim", 1), A::i("start", 1)});
  const auto target = b.op("aten.reshape.default", DType::kI64, {10}, {A::t("self", moved), A::list("shape", {-1})});
  const auto rows = b.op("aten.slice.Tensor", DType::kF64, {10, 4}, {A::t("self", x), A::i("end", 10)});
  b.output(b.op("aten.cross_entropy_loss.default", DType::kF64, {}, {A::t("self", rows), A::t("target", target)}),
           ir::OutputKind::kLoss);
  return b;
}

TEST(Seeded, WeightsLookLikeATrainedNet) {
  const Builder b = model();
  auto state = seedState(b.graph, 1);
  ASSERT_TRUE(state) << state.error().format();
  EXPECT_EQ(*state->values("norm.weight"), std::vector<double>(4, 1.0));
  EXPECT_EQ(*state->values("proj.bias"), std::vector<double>(4, 0.0));
  const auto inv_freq = *state->values("rotary.inv_freq");
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(inv_freq[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 16), 1e-15);
  EXPECT_EQ(*state->values("embed.embed_scale"), std::vector<double>(1, 2.0));  // the table is 4 wide
  const auto w = *state->values("embed.weight");
  double sum = 0, squares = 0;
  for (const double v : w) {
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(std::sqrt(squares / 200), 0.02, 0.003);
  EXPECT_NEAR(sum / 200, 0.0, 0.005);
}

TEST(Seeded, TheSameSeedGivesTheSameWeightsWhateverTheOrderAndType) {
  const Builder b = model();
  auto one = seedState(b.graph, 1);
  auto two = seedState(b.graph, 2);
  EXPECT_NE(*one->values("embed.weight"), *two->values("embed.weight"));
  Builder turned = model();
  std::swap(turned.graph.inputs[0], turned.graph.inputs[2]);
  turned.graph.value(turned.graph.inputs[2].value).dtype = DType::kF32;
  auto other = seedState(turned.graph, 1);
  const auto doubles = *one->values("embed.weight"), floats = *other->values("embed.weight");
  for (std::size_t i = 0; i < doubles.size(); ++i) EXPECT_EQ(floats[i], static_cast<double>(static_cast<float>(doubles[i])));
}

TEST(Seeded, RefusesABufferWhoseNameSaysNothing) {
  Builder b;
  b.input("model.scale", DType::kF64, {3}, InputKind::kBuffer);
  auto state = seedState(b.graph, 1);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, "weightless-buffer");
}

TEST(Seeded, WeightlessWithoutASeedIsRefused) {
  DiagnosticSink sink;
  auto state = loadState(model().graph, nullptr, std::nullopt, sink);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, "weightless");
}

TEST(Seeded, InputsFitTheModel) {
  const Builder b = model();
  const TensorBag bag = seedInputs(b.graph, 3);
  EXPECT_EQ(*bag.values("position_ids"), (std::vector<double>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(*bag.values("attention_mask"), std::vector<double>(12, 1.0));
  EXPECT_EQ(*bag.scalar("num_items_in_batch"), 12.0);
  bool other_than_zero = false;
  const auto ids = *bag.values("input_ids"), labels = *bag.values("labels");
  for (const double v : ids) {
    EXPECT_GE(v, 0);
    EXPECT_LT(v, 50);
    other_than_zero = other_than_zero || v > 4;
  }
  EXPECT_TRUE(other_than_zero);
  for (const double v : labels) EXPECT_LT(v, 4);  // the classes of the loss
  EXPECT_NE(*bag.values("input_ids"), *seedInputs(b.graph, 4).values("input_ids"));
  DiagnosticSink sink;
  EXPECT_TRUE(inputsFrom(b.graph, bag, sink));
  EXPECT_TRUE(sink.all().empty());
}

TEST(Inputs, AreCheckedBeforeAnythingRuns) {
  const Builder b = model();
  const TensorBag good = seedInputs(b.graph, 3);
  const auto code = [&](const TensorBag& bag) {
    DiagnosticSink sink;
    auto r = inputsFrom(b.graph, bag, sink);
    return r ? std::string() : r.error().code;
  };
  TensorBag bag = good;
  bag.erase("labels");
  EXPECT_EQ(code(bag), "input-missing");
  bag = good;
  put<std::int64_t>(bag, "labels", DType::kI64, {2, 5}, std::vector<std::int64_t>(10, 0));
  EXPECT_EQ(code(bag), "input-shape");
  bag = good;
  put<double>(bag, "labels", DType::kF64, {2, 6}, std::vector<double>(12, 0));
  EXPECT_EQ(code(bag), "input-dtype");
  bag = good;
  std::vector<std::int64_t> ids(12, 1);
  ids[7] = 50;
  put(bag, "input_ids", DType::kI64, {2, 6}, ids);
  EXPECT_EQ(code(bag), "input-out-of-range");
  bag = good;
  std::vector<std::int64_t> labels(12, 1);
  labels[3] = -100;  // ignored, so allowed
  put(bag, "labels", DType::kI64, {2, 6}, labels);
  EXPECT_EQ(code(bag), "");
  labels[3] = 4;
  put(bag, "labels", DType::kI64, {2, 6}, labels);
  EXPECT_EQ(code(bag), "input-out-of-range");
  bag = good;
  put<std::int32_t>(bag, "input_ids", DType::kI32, {2, 6}, std::vector<std::int32_t>(12, 3));
  put<float>(bag, "extra", DType::kF32, {3}, {1, 2, 3});
  put<float>(bag, "unknown", DType::kF32, {1}, {1});
  DiagnosticSink sink;
  auto converted = inputsFrom(b.graph, bag, sink);
  ASSERT_TRUE(converted);
  EXPECT_EQ(converted->entry("input_ids")->dtype, DType::kI64);
  EXPECT_EQ(converted->entry("extra")->dtype, DType::kF64);
  ASSERT_EQ(sink.all().size(), 1u);
  EXPECT_EQ(sink.all()[0].code, "input-unused");
}

TEST(Files, BagsComeBackAsTheyWere) {
  TensorBag bag;
  put<double>(bag, "b", DType::kF64, {2, 2}, {1.5, -2, std::numeric_limits<double>::infinity(), 0});
  put<std::int64_t>(bag, "a", DType::kI64, {}, {7});
  put<float>(bag, "empty", DType::kF32, {0, 3}, {});
  const std::string path = ::testing::TempDir() + "/exec_store_test.safetensors";
  const Status saved = saveBag(bag, path);
  ASSERT_TRUE(saved) << saved.error().format();
  auto back = loadBag(path);
  ASSERT_TRUE(back) << back.error().format();
  EXPECT_EQ(back->size(), 3u);
  EXPECT_EQ(*back->values("b"), *bag.values("b"));
  EXPECT_EQ(*back->scalar("a"), 7.0);
  EXPECT_EQ(back->entry("empty")->shape, (ir::Dims{0, 3}));
  std::filesystem::remove(path);
}

TEST(Files, WeightsOfAnArchiveAreConvertedToTheGraphsType) {
  const std::string zoo = std::string(SPSCOPE_SOURCE_DIR) + "/../shared/zoo";
  const std::string path = zoo + "/llama_causal_gqa_pos.pt2";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  DiagnosticSink sink;
  auto model = io::openModel(path, {}, sink);
  ASSERT_TRUE(model) << model.error().format();
  const io::WeightSource source(model->archive);
  auto floats = loadState(model->graph, &source, std::nullopt, sink);
  ASSERT_TRUE(floats) << floats.error().format();
  ASSERT_TRUE(ir::convertFloat32To64(model->graph));
  auto doubles = loadState(model->graph, &source, std::nullopt, sink);
  ASSERT_TRUE(doubles) << doubles.error().format();
  ASSERT_EQ(floats->size(), doubles->size());
  for (const std::string& name : floats->names()) {
    EXPECT_EQ(*floats->values(name), *doubles->values(name)) << name;
    if (floats->entry(name)->dtype == DType::kF32) EXPECT_EQ(doubles->entry(name)->dtype, DType::kF64);
  }
  DiagnosticSink inputs;
  EXPECT_TRUE(loadInputs(model->graph, zoo + "/llama_causal_gqa_pos.inputs.safetensors", inputs));
  EXPECT_TRUE(inputs.all().empty());
}

TEST(Threads, AreSharedBetweenRanksAndNeverNone) {
  EXPECT_EQ(threadsPerRank(1000), 1);
  EXPECT_EQ(threadsPerRank(1), usableCores());
  EXPECT_EQ(threadsPerRank(4, 3), 3);
  const int before = threads();
  setThreads(2);
  EXPECT_EQ(threads(), 2);
  setThreads(before);
}

}  // namespace
}  // namespace spscope::exec
