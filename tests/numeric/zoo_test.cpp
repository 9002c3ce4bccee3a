// SPDX-License-Identifier: Apache-2.0
// Every model of tests/data/zoo on P virtual ranks in float64: the sharded step gives the loss and the gradients that PyTorch
// computed for the exported graph. What cannot be sharded is refused by its code.
#include <gmock/gmock.h>

#include <set>

#include "tests/support/figures.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using testing::Contains;

/// Models that are refused, and why.
const std::map<std::string, std::string> kRefused{
    {"mixtral_grouped_pos", "op-unknown"},      // the grouped matmul is a Python op of transformers
};

bool hasReference(const Json& ref) { return ref.contains("loss_f64") && ref["loss_f64"].is_number(); }

class Zoo : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& model() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(Zoo, GivesTheReference) {
  const Json ref = reference(model());
  const bool has_f64 = hasReference(ref);
  Case what = caseOf(model(), ranks());
  if (!has_f64 && ref.contains("grads")) what.dtype.reset();  // bfloat16 weights and autocast: as they are
  const auto verified = verify(what);
  if (const auto refused = kRefused.find(model()); refused != kRefused.end()) {
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().code, refused->second) << verified.error().format();
    EXPECT_EQ(verified.error().outcome, Outcome::kRefused);
    EXPECT_FALSE(verified.error().node.empty());
    return;
  }
  ASSERT_TRUE(verified) << verified.error().format();
  expectEqual(*verified);
  EXPECT_TRUE(verified->outcome.compiled.figures.gathers.empty());
  if (model() == "vit") {  // no sharded embedding: every rank computes everything, and the user is told
    EXPECT_THAT(verified->warnings, Contains("nothing-sharded"));
  } else {
    EXPECT_TRUE(verified->outcome.compiled.sharded);
    EXPECT_GT(verified->outcome.compiled.figures.inserted_all_to_all, 0);
  }
  const auto& figures = verified->outcome.compiled.figures;
  EXPECT_EQ(figures.recomputed_collectives, 0);
  EXPECT_EQ(figures.recomputed_attention, 0);

  if (!ref.contains("grads")) return;  // live dropout: PyTorch draws other numbers
  const Distance far = distance(verified->outcome.loss, verified->gradients, ref, has_f64 ? "f64" : "f32");
  EXPECT_GT(far.gradients, 0);
  // bfloat16: partial sums of the ranks are rounded (measured: up to 1e-2 of a gradient's norm).
  EXPECT_LE(far.loss, has_f64 ? 1e-10 : 1e-3);
  EXPECT_LE(far.gradient, has_f64 ? 1e-8 : 5e-2) << far.worst;
  if (has_f64) {
    const std::string p = ", P = " + std::to_string(ranks());
    WorstFigures::table().add("zoo against .ref.json" + p, far.loss, far.gradient, model() + ": " + far.worst);
    WorstFigures::table().add("zoo against unsharded" + p, verified->outcome.loss_rel, verified->outcome.gradients.rel_max,
                              model() + ": " + verified->outcome.gradients.worst);
  }
}

// Eight ranks: fewer heads than ranks (4 heads: four ranks idle in attention; 2 kv heads are repeated four times).
INSTANTIATE_TEST_SUITE_P(All, Zoo, testing::Combine(testing::ValuesIn(names()), testing::Values(2, 3, 4, 8)), nameWithRanks);

TEST(ZooData, HasAtLeast36ModelsWithReferences) {
  int with_f64 = 0;
  for (const std::string& name : names()) with_f64 += hasReference(reference(name));
  EXPECT_GE(with_f64, 36);
}

// --- the comparison itself ----------------------------------------------------------------------------------------

TEST(ZooData, DistanceSeesAWrongLossAndAWrongGradient) {
  const auto verified = verify(caseOf("nanogpt", 2));
  ASSERT_TRUE(verified) << verified.error().format();
  const Json ref = reference("nanogpt");
  EXPECT_GT(distance(verified->outcome.loss * (1 + 1e-9), verified->gradients, ref, "f64").loss, 1e-10);
  exec::TensorBag lacking = verified->gradients;
  ASSERT_TRUE(lacking.erase("blocks.0.attn.qkv.weight"));
  const Distance far = distance(verified->outcome.loss, lacking, ref, "f64");
  EXPECT_GE(far.gradient, 0.99);
  EXPECT_THAT(far.worst, testing::StartsWith("blocks.0.attn.qkv.weight"));
  // A gradient that is off by a hundred millionth of one element's neighbourhood.
  auto values = verified->gradients.values("wpe.weight").value();
  for (double& v : values) v *= 1 + 1e-7;
  const auto entry = verified->gradients.entry("wpe.weight").value();
  exec::TensorBag scaled = verified->gradients;
  ASSERT_TRUE(scaled.add(entry.name, entry.dtype, entry.shape, std::as_bytes(std::span(values))));
  EXPECT_GT(distance(verified->outcome.loss, scaled, ref, "f64").gradient, 1e-8);
}

}  // namespace
}  // namespace spscope::zoo
