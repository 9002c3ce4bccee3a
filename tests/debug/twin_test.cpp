// SPDX-License-Identifier: Apache-2.0
// What values are held against: the unsharded step, the same in float64, other memory policies, other steps.
#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

using testing::HasSubstr;

class DebugTwin : public DebugSession {
 protected:
  static constexpr const char* kModel = "llama_causal_gqa_pos";
  /// Values of nodes of the forward, spread over the program.
  std::vector<std::string> someValues(std::size_t every) {
    std::vector<std::string> out;
    const ir::Graph& g = debugger_->graph(0);
    for (std::size_t i = 0; i < g.order.size(); i += every) {
      const ir::Node& n = g.node(g.order[i]);
      if (n.phase != ir::Phase::kForward || n.outputs.size() != 1 || n.op.str().starts_with("sp.")) continue;
      if (ir::isFloating(g.value(n.outputs[0]).dtype)) out.push_back(g.value(n.outputs[0]).name);
    }
    return out;
  }
};

TEST_F(DebugTwin, InFloat64) {
  dtype_ = ir::DType::kF32;
  open(kModel, 2);
  EXPECT_THAT(say("twin").said, testing::EndsWith("the unsharded step"));
  EXPECT_THAT(say("twin float64").said, HasSubstr("float64"));
  say("continue");
  int compared = 0;
  double worst = 0.0;
  for (const std::string& value : someValues(7)) {
    const dbg::Answer answer = dbg::execute(*debugger_, "diff %" + value);
    if (answer.error) continue;  // nobody reads it
    const dbg::Comparison& c = *answer.comparison;
    EXPECT_THAT(c.twin, HasSubstr("float64"));
    if (!c.alone.empty()) continue;
    ++compared;
    EXPECT_TRUE(c.within) << value << ": " << c.rel;
    worst = std::max(worst, c.rel);
    EXPECT_EQ(debugger_->unsharded(value).value().entry(0).dtype, ir::DType::kF64);
  }
  EXPECT_GT(compared, 10);
  EXPECT_GT(worst, 1e-8);  // float32 is not float64
  EXPECT_LT(worst, 1e-5);
  EXPECT_THAT(say("twin unsharded").said, testing::EndsWith("the unsharded step"));
  EXPECT_TRUE(say("diff %" + someValues(7).front()).comparison->twin.empty());
}

TEST_F(DebugTwin, UnderAnotherPolicyEveryRankHasTheSameBits) {
  open(kModel, 2);
  say("twin save all");
  say("continue");
  int compared = 0;
  for (const std::string& value : someValues(11)) {
    const dbg::Answer answer = dbg::execute(*debugger_, "diff %" + value);
    if (answer.error || !answer.comparison->alone.empty()) continue;
    ++compared;
    EXPECT_TRUE(answer.comparison->by_rank);
    EXPECT_EQ(answer.comparison->rel, 0.0) << value;
    EXPECT_TRUE(answer.comparison->off.empty());
  }
  EXPECT_GT(compared, 10);
  EXPECT_EQ(refused("twin save everything").code, "setting-save");
}

TEST_F(DebugTwin, AFaultOfOneRankShowsAgainstTheRanksUnderAnotherPolicy) {
  open(kModel, 2, [](ir::Graph& g, int rank) {
    for (const ir::NodeId id : g.order)
      if (rank == 1 && g.node(id).op.str() == "aten.mm.default") return insertBehind(g, g.node(id).name, "aten.mul.Scalar", {{"other", 1.5}}), takeName(g, g.node(id).name, "fault");
  });
  std::string at;
  for (const ir::NodeId id : debugger_->graph(0).order)
    if (at.empty() && debugger_->graph(0).node(id).op.str() == "aten.mm.default") at = debugger_->graph(0).node(id).name;
  say("twin save all");
  say("continue");
  const dbg::Comparison c = say("diff %" + at).comparison.value();
  EXPECT_FALSE(c.within);
  EXPECT_THAT(c.off, testing::ElementsAre(1));
  EXPECT_NEAR(c.difference.got / c.difference.wanted, 1.5, 1e-12);
}

TEST_F(DebugTwin, InAnotherStepOfTheTraining) {
  open(kModel, 2);
  say("continue");
  const std::vector<std::string> values = someValues(13);
  say("twin step 0");
  int compared = 0;
  for (const std::string& value : values) {
    const dbg::Answer answer = dbg::execute(*debugger_, "diff %" + value);
    if (answer.error || !answer.comparison->alone.empty()) continue;
    ++compared;
    EXPECT_TRUE(answer.comparison->within) << value;
  }
  EXPECT_GT(compared, 5);
  EXPECT_THAT(say("twin step 2").said, HasSubstr("step 2"));
  int changed = 0;
  for (const std::string& value : values) {
    const dbg::Answer answer = dbg::execute(*debugger_, "diff %" + value);
    changed += !answer.error && answer.comparison->alone.empty() && !answer.comparison->within;
  }
  EXPECT_GT(changed, 5);  // other weights
  // AdamW moves each weight by the learning rate in its first steps.
  for (const ir::Input& input : debugger_->graph(0).inputs) {
    if (!input.trainable) continue;
    const dbg::Comparison c = say("diff %" + input.name).comparison.value();
    EXPECT_GT(c.difference.max_abs, 1e-4) << input.name;
    EXPECT_LT(c.difference.max_abs, 3e-3) << input.name;
    break;
  }
  EXPECT_EQ(refused("twin step two").code, "usage");
  EXPECT_EQ(refused("twin moon").code, "usage");
}

TEST_F(DebugTwin, WithoutItsModelThereIsOnlyTheUnshardedStep) {
  open(kModel, 2);
  setup_.origin.reset();
  debugger_ = dbg::Debugger::create(setup_, request_).value();
  EXPECT_EQ(refused("twin float64").code, "debug-no-origin");
  EXPECT_EQ(refused("curve").code, "debug-no-origin");
  say("twin unsharded");
}

}  // namespace
}  // namespace spscope::zoo
