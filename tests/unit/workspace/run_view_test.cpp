// SPDX-License-Identifier: Apache-2.0
// The run panel's model: the form, the plots, the rows of ranks, a failure in words, the verdict and what a click selects.
#include "ui/model/run_view.h"

#include <algorithm>
#include <cmath>

#include "tests/support/workspace_fixture.h"

namespace spscope::ui {
namespace {

class RunViewTest : public WorkspaceFixture {};

TEST_F(RunViewTest, SaysWhatToDoBeforeThereIsAnything) {
  RunView view(workspace);
  EXPECT_NE(view.whyNotRun(), "");
  EXPECT_NE(view.header().find("Open a model"), std::string::npos);
  EXPECT_NE(view.lossPlot(300, 100).absent, "");
  EXPECT_NE(view.ranksAbsent(), "");
  EXPECT_EQ(view.verdict().kind, Verdict::Kind::kNone);
  EXPECT_FALSE(view.failure());
  for (const RunField& f : view.fields()) {
    EXPECT_FALSE(f.info.label.empty()) << f.info.name;
    EXPECT_TRUE(view.set(f.info.name, f.value)) << f.info.name << " does not take its own text";
  }
  EXPECT_GE(view.fields().size(), 8u);
}

TEST_F(RunViewTest, StepsBecomePlots) {
  compileModel();
  RunView view(workspace);
  ASSERT_TRUE(view.set("ranks", "virtual"));
  ASSERT_TRUE(view.set("steps", "4"));
  EXPECT_EQ(view.whyNotRun(), "");
  view.start();
  EXPECT_TRUE(view.running());
  EXPECT_NE(view.whyNotRun(), "");
  ASSERT_TRUE(idle());
  ASSERT_FALSE(view.failure()) << view.failure()->message;
  const RunPlot loss = view.lossPlot(300, 100);
  ASSERT_EQ(loss.line.size(), 4u);
  EXPECT_EQ(loss.absent, "");
  const auto& steps = workspace.runProgress().steps;
  // A lower loss lies lower, and all in the frame.
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(steps[i].loss < steps[i - 1].loss, loss.line[i].y > loss.line[i - 1].y);
  for (const RunPlot& plot : {loss, view.timePlot(300, 100)})
    for (const RunPlot::Point& p : plot.line) {
      EXPECT_GE(p.x, 0);
      EXPECT_LE(p.x, 300);
      EXPECT_GE(p.y, 0);
      EXPECT_LE(p.y, 100);
    }
  const auto ranks = view.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_FALSE(ranks[1].memory.empty());
  EXPECT_FALSE(ranks[1].predicted.empty());
  EXPECT_NE(view.header().find("step 4 of 4"), std::string::npos) << view.header();
}

TEST_F(RunViewTest, LossesThatAreNoNumbersAreLeftOutOfTheLine) {
  RunView view(workspace);
  RunPlot plot = view.lossPlot(-5, 0);  // a panel that is too small to show anything
  EXPECT_NE(plot.absent, "");
}

TEST_F(RunViewTest, ARefusalIsToldWithItsRemedy) {
  compileModel();
  RunView view(workspace);
  ASSERT_TRUE(view.set("inputs", "/nonexistent.safetensors"));
  ASSERT_TRUE(view.set("ranks", "virtual"));
  view.start();
  ASSERT_TRUE(idle());
  const auto failure = view.failure();
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->title.find("refused"), std::string::npos);
  EXPECT_NE(failure->message.find("nonexistent"), std::string::npos) << failure->message;
  EXPECT_FALSE(view.running());
}

TEST_F(RunViewTest, TheVerdictListsTheWorstFirstAndLeadsToTheReader) {
  openModel();
  ASSERT_TRUE(workspace.set("dtype", "float64"));
  ASSERT_TRUE(idle());
  workspace.compile();
  ASSERT_TRUE(idle());
  RunView view(workspace);
  view.verify();
  EXPECT_EQ(view.verdict().kind, Verdict::Kind::kRunning);
  ASSERT_TRUE(idle());
  const Verdict verdict = view.verdict();
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.detail;
  ASSERT_GT(verdict.rows.size(), 3u);
  EXPECT_TRUE(std::is_sorted(verdict.rows.begin(), verdict.rows.end(), [](const VerdictRow& a, const VerdictRow& b) { return a.rel > b.rel; }));
  EXPECT_EQ(verdict.rows.front().rel, workspace.verified()->gradients.rel_max);
  for (const int stage : {0, static_cast<int>(workspace.stages().size()) - 1}) {
    workspace.showStage(stage);
    view.selectParameter(verdict.rows.front().name);
    const Selection& s = workspace.selection();
    ASSERT_NE(s.value, ir::kNone);
    ASSERT_NE(s.node, ir::kNone);
    EXPECT_EQ(workspace.graph()->value(s.value).producer, ir::kNone) << "the parameter itself";
    EXPECT_FALSE(workspace.graph()->node(s.node).op.str().starts_with("sp."));
  }
}

TEST_F(RunViewTest, ANodeThatARankNamesIsSelectedInTheStageThatHasIt) {
  compileModel();
  RunView view(workspace);
  const auto program = workspace.stages().back().graph;
  const ir::Node& last = program->node(program->order.back());
  view.selectNode("%" + last.name);
  EXPECT_EQ(workspace.selection().node, last.id);
  EXPECT_EQ(workspace.stage(), static_cast<int>(workspace.stages().size()) - 1);
  const Selection before = workspace.selection();
  view.selectNode("no such node");
  EXPECT_EQ(workspace.selection(), before);
}

}  // namespace
}  // namespace spscope::ui
