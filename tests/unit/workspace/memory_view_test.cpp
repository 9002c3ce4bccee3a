// SPDX-License-Identifier: Apache-2.0
// The memory panel's model: curves of the right programs, a picture that holds the peak and stays in its frame, and places that
// are nodes.
#include "ui/model/memory_view.h"

#include <algorithm>
#include <numeric>

#include "core/base/strings.h"
#include "tests/support/workspace_fixture.h"

namespace spscope::ui {
namespace {

const MemoryViewport kFrame{600, 200, 0, 1};

class MemoryViewTest : public WorkspaceFixture {
 protected:
  static const MemoryChoice* choice(const MemoryView& view, const std::string& key) {
    for (const MemoryChoice& c : view.choices())
      if (c.key == key) return &c;
    return nullptr;
  }
};

TEST_F(MemoryViewTest, SaysWhatToDoBeforeThereIsAnything) {
  MemoryView view(workspace);
  EXPECT_NE(view.header().find("Open a model"), std::string::npos);
  EXPECT_EQ(view.picture(kFrame).absent, view.header());
  openModel();
  EXPECT_NE(view.header().find("Compile"), std::string::npos);
  EXPECT_FALSE(view.at(kFrame, 300));
  view.click(kFrame, 300);
  view.selectPeak();
}

TEST_F(MemoryViewTest, TheCompiledProgramsPeakIsTheAnswer) {
  compileModel();
  MemoryView view(workspace);
  const auto& figures = workspace.compiled()->figures;
  EXPECT_NE(view.header().find(formatBytes(figures.memory.peak)), std::string::npos) << view.header();
  EXPECT_NE(view.header().find("%" + figures.peak_node), std::string::npos) << view.header();
  EXPECT_FALSE(view.overLimit());
  ASSERT_TRUE(workspace.set("memory-limit", "0.0001"));
  EXPECT_TRUE(view.overLimit());
  EXPECT_NE(view.header().find(" of "), std::string::npos) << view.header();
  ASSERT_FALSE(view.atPeak().empty());
  EXPECT_TRUE(std::is_sorted(view.atPeak().begin(), view.atPeak().end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
  // What lives at the peak are whole values of the program: none takes more than the peak.
  EXPECT_LT(view.atPeak().front().bytes, figures.memory.peak);
}

TEST_F(MemoryViewTest, ClassesSumToTheCurveAtEveryPlace) {
  compileModel();
  const StepMemory curve = predictedCurve(*workspace.compiled(), workspace.settings().compile);
  ASSERT_EQ(curve.places.size(), workspace.compiled()->figures.memory.live.size());
  EXPECT_GT(curve.backward_begins, 0);
  EXPECT_LT(curve.backward_begins, static_cast<std::int32_t>(curve.places.size()));
  for (const StepMemory::Place& p : curve.places) EXPECT_EQ(std::accumulate(p.classes.begin(), p.classes.end(), std::int64_t{0}), p.live);
}

TEST_F(MemoryViewTest, OtherPoliciesAreCompiledOnceAndTold) {
  compileModel();
  MemoryView view(workspace);
  view.show("unsharded", true);
  view.show("all", true);
  EXPECT_TRUE(choice(view, "all")->waiting);
  ASSERT_TRUE(idle());
  EXPECT_GT(choice(view, "all")->peak, 0);
  EXPECT_GT(choice(view, "unsharded")->peak, choice(view, "sac")->peak);
  EXPECT_GE(choice(view, "all")->peak, choice(view, "sac")->peak);
  EXPECT_EQ(view.picture(kFrame).outlines.size(), 3u);
  view.show("all", false);
  view.show("all", true);
  EXPECT_FALSE(choice(view, "all")->waiting) << "it is known";
  EXPECT_FALSE(workspace.jobs().busy("memory"));
  // Other settings: other curves.
  const std::int64_t before = choice(view, "all")->peak;
  ASSERT_TRUE(workspace.set("sp", "4"));
  ASSERT_TRUE(idle());
  EXPECT_GT(choice(view, "all")->peak, 0);
  EXPECT_LT(choice(view, "all")->peak, before);
  // The policy of the settings is the one that is focused, and follows them.
  ASSERT_TRUE(workspace.set("save", "min-cut"));
  ASSERT_TRUE(idle());
  EXPECT_TRUE(choice(view, "min-cut")->focused);
  EXPECT_EQ(choice(view, "min-cut")->peak, workspace.compiled()->figures.memory.peak);
}

TEST_F(MemoryViewTest, ThePictureHoldsThePeakAndStaysInItsFrame) {
  compileModel();
  MemoryView view(workspace);
  view.show("unsharded", true);
  ASSERT_TRUE(workspace.set("memory-limit", "0.0004"));
  ASSERT_TRUE(idle());
  for (const MemoryViewport& frame : {kFrame, MemoryViewport{200, 80, 0, 1}, MemoryViewport{1200, 300, 0.3, 0.5}, MemoryViewport{600, 200, 0.99999, 1}, MemoryViewport{1, 1, 0, 1}}) {
    const MemoryPicture p = view.picture(frame);
    EXPECT_EQ(p.absent, "");
    const auto inside = [&](const PlotPoint& q) { return q.x >= p.left - 1e-6 && q.x <= p.right + 1e-6 && q.y >= p.top - 1e-6 && q.y <= p.bottom + 1e-6; };
    for (const auto& area : p.areas)
      for (const PlotPoint& q : area.outline) EXPECT_TRUE(inside(q)) << q.x << " " << q.y;
    for (const auto& outline : p.outlines)
      for (const PlotPoint& q : outline.points) EXPECT_TRUE(inside(q)) << outline.key << " " << q.x << " " << q.y;
  }
  const MemoryPicture p = view.picture(kFrame);
  ASSERT_TRUE(p.peak);
  double top = 1e9;
  for (const auto& outline : p.outlines)
    if (outline.focused)
      for (const PlotPoint& q : outline.points) top = std::min(top, q.y);
  EXPECT_NEAR(top, p.peak->y, 1e-6) << "no peak is lost between pixels";
  EXPECT_EQ(p.phases.size(), 2u);
}

TEST_F(MemoryViewTest, AClickOnThePeakSelectsItsNode) {
  compileModel();
  MemoryView view(workspace);
  const MemoryPicture p = view.picture(kFrame);
  ASSERT_TRUE(p.peak);
  view.click(kFrame, p.peak->x);
  const auto graph = workspace.graph();
  EXPECT_EQ(workspace.stage(), static_cast<int>(workspace.stages().size()) - 1) << "the stage that has the node";
  ASSERT_NE(workspace.selection().node, ir::kNone);
  EXPECT_EQ(graph->node(workspace.selection().node).name, workspace.compiled()->figures.peak_node);
  const MemoryPicture marked = view.picture(kFrame);
  ASSERT_EQ(marked.selected.size(), 1u);
  EXPECT_NEAR(marked.selected[0], p.peak->x, 1e-6);
  // Anything of the largest values, too.
  for (const StepMemory::Living& l : view.atPeak()) {
    if (l.node == ir::kNone) continue;
    view.selectNode(l.node, "%" + graph->node(l.node).name);
    EXPECT_EQ(workspace.selection().node, l.node);
  }
}

TEST_F(MemoryViewTest, ARecordedRunIsMeasuredAlongTheSameNodes) {
  compileModel();
  MemoryView view(workspace);
  runRecorded();
  ASSERT_TRUE(idle());
  const MemoryChoice* measured = choice(view, "measured:0");
  ASSERT_NE(measured, nullptr);
  ASSERT_EQ(measured->absent, "");
  const StepMemory curve = measuredCurve(*workspace.trace(), 0);
  ASSERT_FALSE(curve.places.empty()) << curve.absent;
  EXPECT_NE(curve.note.find("step"), std::string::npos);
  // Prediction and measurement of one program differ by little (the launcher's own figures show the same), at the same nodes.
  const StepMemory predicted = predictedCurve(*workspace.compiled(), workspace.settings().compile);
  EXPECT_NEAR(static_cast<double>(curve.peak), static_cast<double>(predicted.peak), 0.05 * static_cast<double>(predicted.peak));
  EXPECT_EQ(curve.places.size(), predicted.places.size());
  for (std::size_t i = 0; i < std::min(curve.places.size(), predicted.places.size()); ++i) EXPECT_EQ(curve.places[i].node, predicted.places[i].node) << i;
  for (const StepMemory::Place& p : curve.places) EXPECT_EQ(std::accumulate(p.classes.begin(), p.classes.end(), std::int64_t{0}), p.live);
  EXPECT_FALSE(curve.at_peak.empty());
  EXPECT_NE(measuredCurve(*workspace.trace(), 7).absent, "");
  workspace.closeTrace();
  EXPECT_EQ(choice(view, "measured:0"), nullptr);
}

}  // namespace
}  // namespace spscope::ui
