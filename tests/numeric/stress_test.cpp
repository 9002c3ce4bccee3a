// SPDX-License-Identifier: Apache-2.0
// Models that each have one thing that breaks sequence parallelism (tests/data/stress): right all the same,
// with no more gathers than the prototype needed.
#include "tests/support/figures.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

const Json& entryOf(const std::string& name) {
  for (const Json& model : manifest(true))
    if (model["name"] == name) return model;
  throw std::runtime_error("no such model: " + name);
}

class Stress : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Stress, IsRight) {
  const auto& [name, ranks] = GetParam();
  const auto verified = verify(caseOf(name, ranks, true));
  ASSERT_TRUE(verified) << verified.error().format();  // a refusal would be honest, but none is needed
  expectEqual(*verified);
  const auto& gathers = verified->outcome.compiled.figures.gathers;
  for (const session::GatherNote& g : gathers) EXPECT_FALSE(g.node.empty() || g.reason.empty());
  if (ranks == 4) {
    std::string list;
    for (const session::GatherNote& g : gathers) list += "\n  " + g.node + ": " + g.reason;
    // Chunks of a query need fewer than the prototype's: only their cut and the way back.
    const int allowed = name == "s_q_chunks" ? 2 : entryOf(name)["prototype_P4"]["gathers"].get<int>();
    EXPECT_LE(static_cast<int>(gathers.size()), allowed) << list;
    const Json& exchanges = entryOf(name)["prototype_P4"]["all_to_all"];
    if (exchanges.is_number()) {
      EXPECT_EQ(verified->outcome.compiled.figures.inserted_all_to_all, exchanges.get<int>());
    }
  }
  const Distance far = distance(verified->outcome.loss, verified->gradients, reference(name, true), "f64");
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
  WorstFigures::table().add("stress against .ref.json, P = " + std::to_string(ranks), far.loss, far.gradient, name + ": " + far.worst);
}

INSTANTIATE_TEST_SUITE_P(All, Stress, testing::Combine(testing::ValuesIn(names(true)), testing::Values(2, 3, 4, 8)), nameWithRanks);

}  // namespace
}  // namespace spscope::zoo
