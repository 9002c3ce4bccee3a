// SPDX-License-Identifier: Apache-2.0
// Numeric trouble put into programs: the node that makes it, the reason, the digits it costs, the rank that has it; and none where there
// is none.
#include <cmath>
#include <limits>

#include "tests/debug/debug_session.h"

namespace spscope::zoo {
namespace {

using ir::Graph;
using testing::ElementsAre;
using testing::HasSubstr;

class DebugNumbers : public DebugSession {
 protected:
  static constexpr const char* kModel = "llama_causal_gqa_pos";
  /// The first matrix product of the forward.
  std::string product(int ranks = 2) {
    open(kModel, ranks, [](Graph&, int) {});
    for (const ir::NodeId id : debugger_->graph(0).order)
      if (const ir::Node& n = debugger_->graph(0).node(id); n.op.str() == "aten.mm.default") return n.name;
    throw std::runtime_error("no product");
  }
  dbg::TroubleReport trouble() { return say("trouble").trouble.value(); }
  dbg::ErrorCurve curve() { return say("curve").curve.value(); }
};

TEST_F(DebugNumbers, ALogarithmOfANegativeNumberIsNamed) {
  const std::string at = product();
  open(kModel, 2, [&](Graph& g, int rank) {
    if (rank == 1) insertBehind(g, at, "aten.log.default", {});
  });
  const dbg::Trouble t = trouble().first.value();
  EXPECT_EQ(t.node.name, "fault");
  EXPECT_THAT(t.ranks, ElementsAre(1));
  EXPECT_TRUE(t.is_nan);
  EXPECT_TRUE(std::isnan(t.got));
  EXPECT_THAT(t.why, HasSubstr("the logarithm of a negative number, -"));
  ASSERT_EQ(t.operands.size(), 1u);
  EXPECT_EQ(t.operands[0].argument, "self");
  EXPECT_LT(t.operands[0].there.value(), 0.0);
  EXPECT_EQ(t.operands[0].nan, 0);
  // The debugged step has not moved.
  EXPECT_EQ(say("where").stop->made, 0);
}

TEST_F(DebugNumbers, ZeroByZeroIsNamed) {
  const std::string at = product();
  open(kModel, 2, [&](Graph& g, int) {
    insertBehind(g, at, "aten.mul.Scalar", {{"other", 0.0}});
    const ir::ValueId zero = g.node(g.order[static_cast<std::size_t>(std::find_if(g.order.begin(), g.order.end(), [&](ir::NodeId id) { return g.node(id).name == "fault"; }) - g.order.begin())]).outputs[0];
    insertBehind(g, "fault", "aten.div.Tensor", {{"other", ir::Use{zero}}});
  });
  const dbg::Trouble t = trouble().first.value();
  EXPECT_EQ(t.node.name, "fault.1");
  EXPECT_THAT(t.ranks, ElementsAre(0, 1));
  EXPECT_EQ(t.nan, t.count);
  EXPECT_TRUE(t.why == "0 / 0" || t.why == "-0 / 0" || t.why == "0 / -0" || t.why == "-0 / -0") << t.why;
  EXPECT_EQ(t.operands.size(), 2u);
  EXPECT_EQ(t.operands[1].there, 0.0);
}

TEST_F(DebugNumbers, AnOverflowSaysWhatFloat64Gives) {
  dtype_ = ir::DType::kF32;
  const std::string at = product();
  open(kModel, 2, [&](Graph& g, int rank) {
    if (rank != 0) return;
    insertBehind(g, at, "aten.mul.Scalar", {{"other", 1e30}});
    insertBehind(g, "fault", "aten.mul.Scalar", {{"other", 1e30}});
  });
  const dbg::Trouble t = trouble().first.value();
  EXPECT_EQ(t.node.name, "fault.1");
  EXPECT_THAT(t.ranks, ElementsAre(0));
  EXPECT_FALSE(t.is_nan);
  EXPECT_TRUE(std::isinf(t.got));
  EXPECT_THAT(t.why, testing::AllOf(HasSubstr("overflow: "), HasSubstr("is more than float32 holds (3.40282e+38)")));
  EXPECT_NEAR(t.exact.value() / (t.operands.at(0).there.value() * 1e30), 1.0, 1e-12);
}

TEST_F(DebugNumbers, AWeightThatIsNoNumberIsNamedBeforeAnyNode) {
  open(kModel, 2);
  const std::string name = setup_.sides.state.entry(1).name;
  int place = 0;
  changeState(name, [&](double x) { return place++ == 3 ? std::numeric_limits<double>::quiet_NaN() : x; });
  const dbg::Trouble t = trouble().first.value();
  EXPECT_TRUE(t.input);
  EXPECT_EQ(t.node.name, name);
  EXPECT_EQ(t.nan, 1);
}

TEST_F(DebugNumbers, MasksAreNoTrouble) {
  const std::pair<const char*, ir::DType> cases[] = {{"gpt2_eager", ir::DType::kBF16}, {"llama_eager_pos", ir::DType::kBF16}, {"llama_packed_pos", ir::DType::kF32}};
  for (const auto& [model, type] : cases) {
    SCOPED_TRACE(std::string(model) + " " + std::string(ir::longName(type)));
    dtype_ = type;
    open(model, 2);
    const dbg::TroubleReport report = trouble();
    EXPECT_FALSE(report.first) << report.first->node.name << ": " << report.first->why;
    EXPECT_GT(report.values, 100);
  }
}

TEST_F(DebugNumbers, TheCurveOfARightStepIsThatOfItsType) {
  for (const ir::DType type : {ir::DType::kF32, ir::DType::kBF16}) {
    SCOPED_TRACE(std::string(ir::longName(type)));
    dtype_ = type;
    open(kModel, 2);
    const dbg::ErrorCurve c = curve();
    EXPECT_EQ(c.working, type);
    EXPECT_EQ(c.roundoff, type == ir::DType::kF32 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -8));
    ASSERT_GT(c.points.size(), 100u);
    double worst = 0.0;
    for (const dbg::CurvePoint& p : c.points) worst = std::max(worst, p.error);
    EXPECT_GT(worst, c.roundoff);
    EXPECT_LT(worst, 5e3 * c.roundoff);
    EXPECT_THAT(c.out_of_line, testing::IsEmpty());
    EXPECT_THAT(c.out_of_range, testing::IsEmpty());
    for (std::size_t i = 1; i < c.losers.size(); ++i) EXPECT_GE(c.points[c.losers[i - 1]].growth, c.points[c.losers[i]].growth);
  }
}

TEST_F(DebugNumbers, TheOpThatLosesTheDigitsOfOneRankIsNamed) {
  dtype_ = ir::DType::kF32;
  const int ranks = 4;
  const std::string at = product(ranks);
  // Cancellation: 1e4 more and 1e4 less leave four digits fewer.
  open(kModel, ranks, [&](Graph& g, int rank) {
    if (rank != 1) return;
    insertBehind(g, at, "aten.add.Scalar", {{"other", 1e4}});
    insertBehind(g, "fault", "aten.sub.Scalar", {{"other", 1e4}});
    takeName(g, at, "fault.1");
  });
  const dbg::ErrorCurve c = curve();
  ASSERT_FALSE(c.losers.empty());
  const dbg::CurvePoint& first = c.points[c.losers.front()];
  EXPECT_EQ(first.value, at);
  EXPECT_GT(first.growth, 100.0);
  ASSERT_EQ(first.rank_error.size(), static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(first.rank_error[static_cast<std::size_t>(r)] > 1e-5, r == 1) << r;
  ASSERT_FALSE(c.out_of_line.empty());
  EXPECT_EQ(c.out_of_line.front().rank, 1);
  EXPECT_EQ(c.out_of_line.front().value, at);
}

TEST_F(DebugNumbers, WhatLeavesTheRangeOfItsTypeIsCounted) {
  dtype_ = ir::DType::kBF16;
  for (const double scale : {1e-30, 1e30}) {  // their squares, in the first norm, are too small and too large for bfloat16
    SCOPED_TRACE(scale);
    open(kModel, 2);
    std::string table;
    for (const ir::Input& input : debugger_->graph(0).inputs)
      if (input.name.find("embed_tokens") != std::string::npos) table = input.name;
    ASSERT_FALSE(table.empty());
    changeState(table, [&](double x) { return x * scale; });
    const dbg::ErrorCurve c = curve();
    ASSERT_FALSE(c.out_of_range.empty());
    const auto square = std::find_if(c.points.begin(), c.points.end(), [](const dbg::CurvePoint& p) { return p.node.op == "aten.pow.Tensor_Scalar"; });
    ASSERT_NE(square, c.points.end());
    EXPECT_GT(scale < 1 ? square->flushed : square->saturated, square->elements * 9 / 10);
    EXPECT_EQ(scale < 1 ? square->saturated : square->flushed, 0);
    EXPECT_THAT(c.out_of_range, testing::Contains(static_cast<std::size_t>(square - c.points.begin())));
    if (scale > 1) {
      const dbg::Trouble t = trouble().first.value();
      EXPECT_EQ(t.node.name, square->node.name);
      EXPECT_THAT(t.why, testing::AllOf(HasSubstr("overflow: "), HasSubstr("is more than bfloat16 holds (3.38953e+38)")));
    }
  }
}

}  // namespace
}  // namespace spscope::zoo
