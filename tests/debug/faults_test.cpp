// SPDX-License-Identifier: Apache-2.0
// Mistakes put into a program are found by breakpoints; programs without any stop nowhere.
#include <cmath>

#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

using ir::Graph;
using ir::NodeId;

class DebugFaults : public DebugSession {
 protected:
  /// Name of the first node for which `which` holds, of the program of rank 0.
  std::string nodeOf(const std::string& model, int ranks, const std::function<bool(const Graph&, const ir::Node&)>& which) {
    open(model, ranks, [](Graph&, int) {});
    const Graph& g = debugger_->graph(0);
    for (const NodeId id : g.order)
      if (which(g, g.node(id))) return g.node(id).name;
    throw std::runtime_error("no such node");
  }
  static bool isMm(const Graph&, const ir::Node& n) { return n.op.str() == "aten.mm.default" && n.phase == ir::Phase::kForward; }
};

TEST_F(DebugFaults, ANanOfOneRankIsFoundWhereItArises) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const std::string at = nodeOf("llama_causal_gqa_pos", ranks, isMm);
    open("llama_causal_gqa_pos", ranks, [&](Graph& g, int rank) {
      if (rank == ranks - 1) insertBehind(g, at, "aten.mul.Scalar", {{"other", std::nan("")}});
    });
    say("break if nan");
    const dbg::Stop stop = say("continue").stop.value();
    EXPECT_EQ(stop.reason, dbg::StopReason::kBreakpoint);
    EXPECT_EQ(stop.node, "fault");
    EXPECT_EQ(stop.rank, ranks - 1);
    EXPECT_THAT(stop.message, testing::HasSubstr("are NaN"));
    const dbg::ValueLook value = say("print %fault rank " + std::to_string(ranks - 1)).value.value();
    EXPECT_EQ(value.ranks.front().scan.nan, value.ranks.front().scan.count);
    EXPECT_EQ(value.ranks.front().scan.strange.front(), (ir::Dims(value.ranks.front().summary.shape.size(), 0)));
    // Its operand is still a number.
    const dbg::ValueLook operand = say("print %" + at + " rank " + std::to_string(ranks - 1)).value.value();
    EXPECT_EQ(operand.ranks.front().scan.nan, 0);
  }
}

TEST_F(DebugFaults, WhatIsTooLargeOrInfiniteOrZeroIsFound) {
  struct {
    double factor;
    const char* condition;
    const char* says;
  } const cases[] = {{1e200, "abs>1e150", "in magnitude"}, {INFINITY, "inf", "are infinite"}, {0.0, "zeros>0.9", "100 % of its elements are zero"}};
  const std::string at = nodeOf("llama_causal_gqa_pos", 2, isMm);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.condition);
    open("llama_causal_gqa_pos", 2, [&](Graph& g, int rank) {
      if (rank == 0) insertBehind(g, at, "aten.mul.Scalar", {{"other", c.factor}});
    });
    say(std::string("break %fault if ") + c.condition);
    const dbg::Stop stop = say("continue").stop.value();
    EXPECT_EQ(stop.node, "fault");
    EXPECT_EQ(stop.rank, 0);
    EXPECT_THAT(stop.message, testing::HasSubstr(c.says));
  }
}

TEST_F(DebugFaults, AWrongValueOfOneRankDiffersFromTheUnshardedOne) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const std::string at = nodeOf("llama_causal_gqa_pos", ranks, isMm);
    open("llama_causal_gqa_pos", ranks, [&](Graph& g, int rank) {
      if (rank == 1) insertBehind(g, at, "aten.mul.Scalar", {{"other", 1.01}});
    });
    say("break if differs");
    const dbg::Stop stop = say("continue").stop.value();
    EXPECT_EQ(stop.reason, dbg::StopReason::kBreakpoint);
    EXPECT_EQ(stop.rank, 1);
    // As the comparison of the whole step says.
    const auto wrong = say("wrong").wrong.value();
    ASSERT_TRUE(wrong.first);
    EXPECT_EQ(stop.node, wrong.first->node);
    EXPECT_THAT(wrong.first->ranks, testing::ElementsAre(1));
    const dbg::Comparison c = say("diff %" + stop.node).comparison.value();
    EXPECT_FALSE(c.within);
    EXPECT_THAT(c.off, testing::ElementsAre(1));
    EXPECT_NEAR(c.difference.got / c.difference.wanted, 1.01, 1e-9);
    const dbg::Comparison before = say("diff %" + at).comparison.value();
    EXPECT_TRUE(before.within);
  }
}

TEST_F(DebugFaults, AttentionWithoutItsMaskDiffers) {
  open("llama_causal_gqa_pos", 2, [&](Graph& g, int) {
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("is_causal", false);
  });
  say("break if differs");
  const dbg::Stop stop = say("continue").stop.value();
  EXPECT_EQ(stop.node, "scaled_dot_product_attention");
  const auto why = say("why %" + stop.node).why;
  EXPECT_TRUE(std::any_of(why.begin(), why.end(), [](const dbg::WhyRow& r) { return r.source == "lower-attention"; }));
}

TEST_F(DebugFaults, WhatShouldBeEqualOnAllRanksAndIsNot) {
  // The angles of the rotary embedding are computed whole on every rank; rank 1 adds the frequencies instead of multiplying by them.
  const std::string at = nodeOf("llama_causal_gqa_pos", 2, [](const Graph& g, const ir::Node& n) {
    const ir::Value& v = g.value(n.outputs[0]);
    return n.op.str() == "aten.mul.Tensor" && v.placement.isReplicated() && !v.factors.empty();
  });
  open("llama_causal_gqa_pos", 2, [&](Graph& g, int rank) {
    for (const NodeId id : g.order)
      if (rank == 1 && g.node(id).name == at) g.node(id).op = Symbol("aten.add.Tensor");
  });
  say("break if ranks");
  const dbg::Stop stop = say("continue").stop.value();
  EXPECT_EQ(stop.reason, dbg::StopReason::kBreakpoint);
  EXPECT_EQ(stop.node, at);
  EXPECT_EQ(stop.rank, 1);
  EXPECT_FALSE(say("diff %" + at + " rank 1 rank 0").comparison->within);
  EXPECT_THAT(say("diff %" + at).comparison->off, testing::ElementsAre(1));
}

class DebugRight : public DebugSession, public testing::WithParamInterface<std::tuple<std::string, int>> {};

TEST_P(DebugRight, AProgramWithoutMistakesStopsNowhere) {
  open(std::get<0>(GetParam()), std::get<1>(GetParam()));
  say("break if differs");
  say("break if nan");
  say("break if ranks");
  const dbg::Stop stop = say("continue").stop.value();
  EXPECT_EQ(stop.reason, dbg::StopReason::kEnd) << stop.message;
  const std::vector<dbg::Breakpoint> breakpoints = say("breakpoints").breakpoints.value();
  for (const dbg::Breakpoint& b : breakpoints) EXPECT_EQ(b.hits, 0) << b.text();
  EXPECT_FALSE(say("wrong").wrong->first);
}

INSTANTIATE_TEST_SUITE_P(Models, DebugRight,
                         testing::Combine(testing::Values("gpt2_pos", "llama_causal_gqa_pos", "llama_deadshard_pos", "bert_pos", "llama_packed_pos"), testing::Values(2, 4)), nameWithRanks);

}  // namespace
}  // namespace spscope::zoo
