// SPDX-License-Identifier: Apache-2.0
// A budget's proof that fails: no right program gives one, so what verify found is made up here.
#include <gmock/gmock.h>

#include "core/session/check.h"

namespace spscope::session {
namespace {

TEST(CheckProof, GradientsThatDifferBreakTheRuleAndNameTheWorst) {
  const Result<Budget> budget = parseBudget("b.toml", "[proof]\ngradients = \"equal\"\n");
  ASSERT_TRUE(budget);
  VerifyOutcome proof;
  proof.loss_rel = 1e-9;
  proof.gradients.worst = "model.embed.weight";
  proof.gradients.rel_max = 0.5;
  proof.worst_rank = 3;
  const RuleResult broken = judgeProof(budget->rules[0], proof);
  EXPECT_FALSE(broken.ok);
  EXPECT_THAT(broken.value, ::testing::HasSubstr("worst gradient 0.5"));
  ASSERT_EQ(broken.places.size(), 1u);
  EXPECT_EQ(broken.places[0].node, "model.embed.weight");
  EXPECT_THAT(broken.places[0].reason, ::testing::HasSubstr("rank 3"));
  proof.equal = true;
  EXPECT_TRUE(judgeProof(budget->rules[0], proof).ok);
}

}  // namespace
}  // namespace spscope::session
