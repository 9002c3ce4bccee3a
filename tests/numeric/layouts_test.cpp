// SPDX-License-Identifier: Apache-2.0
// Ops along the sequence (causal convolution, roll, token shift, flip, cumulative sums) and layouts (sequence first, other
// value heads, equal sizes everywhere, fewer tokens than ranks, odd lengths) against PyTorch in float64: tests/data/layouts.py.
// Also the user's mark on a value of the graph, and 16-bit models against float32.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "tests/support/figures.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

std::string layoutsFolder() { return std::string(SPSCOPE_SOURCE_DIR) + "/tests/data/layouts/"; }

std::vector<std::string> layouts() {
  const Json manifest = Json::parse(std::ifstream(layoutsFolder() + "manifest.json"));
  std::vector<std::string> out;
  for (const Json& model : manifest["models"]) out.push_back(model["name"]);
  return out;
}

/// Gathers on four ranks; of the others none. What is exchanged by edges needs even blocks.
const std::map<std::string, std::size_t> kGathers{{"causal_conv_inside", 1}, {"causal_conv_odd", 1}, {"flip", 1}, {"cumsum_odd", 1}};

class Layouts : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Layouts, SP_28_SP_58_what_crosses_the_sequence_and_odd_shapes_give_the_reference) {
  const auto& [name, ranks] = GetParam();
  Case what;
  what.path = layoutsFolder() + name + ".pt2";
  what.inputs = {layoutsFolder() + name + ".inputs.safetensors"};
  what.sp = ranks;
  const auto verified = verify(what);
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  const Distance far = distance(verified->outcome.loss, verified->gradients, Json::parse(std::ifstream(layoutsFolder() + name + ".ref.json")), "f64");
  EXPECT_GT(far.gradients, 0);
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
  EXPECT_TRUE(verified->outcome.compiled.sharded);
  EXPECT_EQ(verified->outcome.compiled.figures.inserted_all_to_all, 4);
  WorstFigures::table().add("layouts against .ref.json, P = " + std::to_string(ranks), far.loss, far.gradient, name + ": " + far.worst);
  const auto& gathers = verified->outcome.compiled.figures.gathers;
  std::string list;
  for (const session::GatherNote& g : gathers) {
    EXPECT_FALSE(g.source.empty()) << g.node;
    list += "\n  " + g.node + " " + g.source + ": " + g.reason;
  }
  if (ranks == 4) { EXPECT_EQ(gathers.size(), kGathers.contains(name) ? kGathers.at(name) : 0) << list; }
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::Combine(testing::ValuesIn(layouts()), testing::Values(2, 3, 4, 8)), nameWithRanks);

// An image model has no input that is a sequence of ids: the user names the value that is one. 17 patches on 2, 3, 4 and 8 ranks.
TEST(Marks, OnAValueOfTheGraphStartsTheSharding) {
  for (const int ranks : {2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    Case what = caseOf("vit", ranks);
    what.marks = {{"add", 1}};
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    EXPECT_TRUE(verified->outcome.compiled.sharded);
    EXPECT_GT(verified->outcome.compiled.figures.inserted_all_to_all, 0);
    EXPECT_LE(verified->outcome.compiled.figures.gathers.size(), 2u);
    const Distance far = distance(verified->outcome.loss, verified->gradients, reference("vit"), "f64");
    EXPECT_LE(far.loss, 1e-10);
    EXPECT_LE(far.gradient, 1e-8) << far.worst;
  }
}

class SixteenBits : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(SixteenBits, SP_32_gradients_are_as_near_to_float32_as_the_unsharded_ones) {
  const auto& [name, ranks] = GetParam();
  Case what = caseOf(name, ranks);
  const bool stored = name == "llama_bf16_pos" || name == "llama_autocast_pos";
  what.dtype = stored ? std::optional<ir::DType>() : ir::DType::kBF16;
  const auto verified = verify(what);
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  const auto& f = verified->outcome.float32;
  ASSERT_TRUE(f.has_value());
  EXPECT_LE(f->ratio(), 1.5);
  EXPECT_GT(f->unsharded_gradient, 1e-4) << "bfloat16 is no float32";
  EXPECT_LT(f->unsharded_gradient, 0.1);
  EXPECT_LT(f->sharded_loss, 1e-2);
  WorstFigures::table().add("16 bits: gradients against float32, times the unsharded error, P = " + std::to_string(ranks), f->sharded_loss,
                            f->ratio(), name);
}

INSTANTIATE_TEST_SUITE_P(All, SixteenBits,
                         testing::Combine(testing::Values("llama_bf16_pos", "llama_autocast_pos", "gpt2_pos", "mistral_sw_pos"),
                                          testing::Values(2, 4, 8)),
                         nameWithRanks);

TEST(SixteenBitsOnly, OfFloat32NothingIsCompared) {
  Case what = caseOf("llama_causal_gqa_pos", 2);
  what.dtype = ir::DType::kF32;
  const auto verified = verify(what);
  ASSERT_TRUE(verified) << verified.error().format();
  EXPECT_FALSE(verified->outcome.float32.has_value());
  const exec::Tolerance t = verified->outcome.tolerance;
  EXPECT_EQ(t.loss, 2e-5);
  EXPECT_EQ(t.gradient, 2e-4);
  EXPECT_EQ(t.floor, 1e-3);
  expectEqual(*verified);
}

}  // namespace
}  // namespace spscope::zoo
