// SPDX-License-Identifier: Apache-2.0
// What a node computes on each rank, read in a step of virtual ranks, as the inspector shows it; and the first difference of a
// verdict in words.
#include "tests/support/workspace_fixture.h"
#include "ui/model/inspector.h"
#include "ui/model/run_view.h"

namespace spscope::ui {
namespace {

class NumbersTest : public WorkspaceFixture {
 protected:
  const InspectorSection& numbers() {
    page_ = inspect(workspace, nullptr);
    const InspectorSection* s = page_.find("Numbers");
    if (s == nullptr) throw std::runtime_error("the page has no numbers");
    return *s;
  }
  std::string row(const std::string& label) {
    for (const InspectorRow& r : numbers().rows)
      if (r.label == label) return r.text;
    return "no row " + label;
  }
  void showLast() { workspace.showStage(static_cast<int>(workspace.stages().size()) - 1); }

 private:
  InspectorPage page_;
};

TEST_F(NumbersTest, AreReadWhenAskedFor) {
  openModel();
  selectNode(workspace.graph()->order.front());
  EXPECT_NE(numbers().absent.find("Compile"), std::string::npos);
  compileModel();
  showLast();
  const auto attention = find([](const ir::Node& n) { return ir::isAttention(n.op) && n.phase == ir::Phase::kForward; });
  selectNode(attention);
  ASSERT_EQ(numbers().rows.size(), 1u);
  const InspectorRow ask = numbers().rows[0];
  EXPECT_TRUE(ask.link());

  Inspector inspector(workspace);
  int changed = 0;
  inspector.on_changed = [&] { ++changed; };
  inspector.follow(ask);
  EXPECT_NE(numbers().absent.find("runs"), std::string::npos);
  ASSERT_TRUE(idle());
  EXPECT_GE(changed, 2);
  ASSERT_TRUE(workspace.nodeValues()) << (workspace.valuesError() ? workspace.valuesError()->format() : "");
  const session::NodeValues& v = *workspace.nodeValues();
  EXPECT_EQ(v.node, attention);
  ASSERT_EQ(v.ranks.size(), 2u);
  ASSERT_TRUE(v.unsharded) << v.alone;
  // Each rank has half of the heads, and the two halves are the whole.
  EXPECT_EQ(2 * v.ranks[0].count, v.unsharded->count);
  EXPECT_EQ(std::min(v.ranks[0].min, v.ranks[1].min), v.unsharded->min);
  EXPECT_EQ(std::max(v.ranks[0].max, v.ranks[1].max), v.unsharded->max);
  EXPECT_TRUE(v.within);
  EXPECT_LT(v.difference.error, 1e-4 * v.difference.norm);
  EXPECT_NE(row("rank 1").find("NaN 0"), std::string::npos) << row("rank 1");
  EXPECT_NE(row("put together").find("sharded on dimension 1"), std::string::npos) << row("put together");
  EXPECT_NE(row("difference").find("equal within the tolerance"), std::string::npos);
  EXPECT_NE(row("rank 0, spread").find("█"), std::string::npos);
  EXPECT_NE(row("rank 0, corner").find("  "), std::string::npos);
  EXPECT_TRUE(numbers().rows.back().link());

  // Numbers are those of the node that was asked for, and of this compilation.
  selectNode(workspace.graph()->order.front());
  EXPECT_EQ(row("rank 0"), "no row rank 0");
  workspace.compile();
  ASSERT_TRUE(idle());
  EXPECT_FALSE(workspace.nodeValues());
}

TEST_F(NumbersTest, OfWhatIsSummedAndOfWhatIsOnItsWay) {
  compileModel();
  showLast();
  const auto sum = find([](const ir::Node& n) { return n.op.str() == "aten.mm.default" && n.phase == ir::Phase::kBackward && n.name.ends_with(".bwd.mm"); });
  workspace.readValues(sum);
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.nodeValues());
  EXPECT_EQ(workspace.nodeValues()->how.kind, ir::PlacementKind::kPartial);  // of a weight's gradient
  EXPECT_TRUE(workspace.nodeValues()->within);
  const auto start = find([](const ir::Node& n) { return n.op.str() == "sp.all_to_all_start.default"; });
  workspace.readValues(start);
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.nodeValues());
  EXPECT_FALSE(workspace.nodeValues()->unsharded);
  EXPECT_NE(workspace.nodeValues()->alone.find("wait"), std::string::npos);
}

TEST_F(NumbersTest, SayWhyThereAreNone) {
  compileModel();
  const auto import = workspace.graph();
  const auto& program = *workspace.compiled()->compiled.programs.front();
  const auto gone = find([&](const ir::Node& n) { return std::find(program.order.begin(), program.order.end(), n.id) == program.order.end(); });
  selectNode(gone);
  EXPECT_NE(numbers().absent.find("replaced"), std::string::npos);
  EXPECT_TRUE(numbers().rows.empty());
  workspace.readValues(gone);
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.valuesError());
  EXPECT_EQ(workspace.valuesError()->code, "usage");
}

TEST_F(NumbersTest, AVerdictNamesTheFirstDifference) {
  session::VerifyOutcome outcome;
  outcome.first_difference.emplace();
  session::FirstDifference& d = *outcome.first_difference;
  d.node = "mul_5";
  d.op = "aten.mul.Tensor";
  d.source = "model.py:12";
  d.pass = "shard-sequence";
  d.ranks = {1, 3};
  d.remark = "so it is";
  const Verdict verdict = verdictOf(outcome);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kDifferent);
  EXPECT_EQ(verdict.first_node, "mul_5");
  EXPECT_EQ(verdict.first, "first difference: %mul_5 (aten.mul.Tensor, forward), model.py:12, ranks 1, 3, made by shard-sequence; so it is");
  outcome.equal = true;
  outcome.first_difference.reset();
  EXPECT_EQ(verdictOf(outcome).first, "");
}

}  // namespace
}  // namespace spscope::ui
