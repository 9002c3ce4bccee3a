// SPDX-License-Identifier: Apache-2.0
// The debugger in the window, with mouse and keyboard: breakpoints beside nodes, the tool bar, ranks, values, the console. Waits for
// conditions, never for a time.
#include <gtest/gtest.h>

#include <QAction>
#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QTableWidget>
#include <QTextBrowser>

#include "app/commands/debug_answer.h"
#include "tests/ui/window_fixture.h"
#include "ui/qt/debug_bar.h"
#include "ui/qt/panels/console_panel.h"
#include "ui/qt/panels/debug_panel.h"
#include "ui/qt/panels/value_picture.h"
#include "ui/qt/panels/values_panel.h"

namespace spscope::ui {
namespace {

namespace dbg = session::debug;

class DebugWindowTest : public WindowTest {
 protected:
  DebugSession& debug() { return workspace().debug(); }
  /// The action of a key. Not the key itself: without a window manager (Xvfb) no window is active.
  void press(const char* keys) {
    for (QAction* action : window->actions())
      if (action->shortcuts().contains(QKeySequence(QLatin1String(keys)))) return action->trigger();
    ADD_FAILURE() << "nothing has the key " << keys;
  }
  void act(const char* name) { window->actionNamed(QString::fromLatin1(name))->trigger(); }
  bool settled() {
    return waitFor([&] { return idle() && !debug().busy() && !model->graph.busy(); });
  }
  void startDebugger() {
    openModel();
    debug().text = [](const dbg::Answer& answer) { return app::debugPage(answer).text(); };
    act("debug");
    ASSERT_TRUE(settled());
    ASSERT_EQ(debug().state(), DebugSession::State::kStopped) << (debug().startError() ? debug().startError()->format() : "");
  }
  QTableWidget* table(const char* name) {
    for (QTableWidget* t : window->findChildren<QTableWidget*>())
      if (t->accessibleName() == QLatin1String(name)) return t;
    return nullptr;
  }
  QLineEdit* line(const char* name) {
    for (QLineEdit* l : window->findChildren<QLineEdit*>())
      if (l->accessibleName() == QLatin1String(name)) return l;
    return nullptr;
  }
  std::string selected() {
    const ir::NodeId node = workspace().selection().node;
    return node == ir::kNone ? std::string() : workspace().graph()->node(node).name;
  }
  std::int32_t shownNode() {
    model->graph.openAll(0, 100);
    window->graphView().fit(false);
    return boxOfKind(SceneBox::Kind::kNode);
  }
};

TEST_F(DebugWindowTest, ABreakpointBesideANodeStopsTheRanksThere) {
  openModel();
  act("compile");
  ASSERT_TRUE(settled());
  workspace().showStages(static_cast<int>(workspace().stages().size()) - 1, -1);
  ASSERT_TRUE(settled());
  // A click on the dot beside the box; another one removes it.
  const std::int32_t box = shownNode();
  ASSERT_GE(box, 0);
  const QPoint dot = window->graphView().dotOnScreen(box).center().toPoint();
  const auto click = [&] { QTest::mouseClick(&window->graphView(), Qt::LeftButton, {}, dot); };
  click();
  ASSERT_EQ(debug().breakpoints().all().size(), 1u);
  EXPECT_EQ(workspace().selection().node, ir::kNone) << "nothing is selected by it";
  click();
  EXPECT_TRUE(debug().breakpoints().all().empty());
  // F9 at the selected node.
  clickBox(box);
  const std::string node = selected();
  ASSERT_NE(node, "");
  press("F9");
  ASSERT_EQ(debug().breakpoints().all().size(), 1u);
  EXPECT_EQ(debug().breakpoints().all()[0].text, "%" + node);
  // F5 starts, F5 again goes on.
  ASSERT_FALSE(all<DebugBar>().front()->isVisible());
  press("F5");
  ASSERT_TRUE(settled());
  ASSERT_EQ(debug().state(), DebugSession::State::kStopped);
  EXPECT_TRUE(all<DebugBar>().front()->isVisible());
  EXPECT_FALSE(all<DebugPanel>().front()->visibleRegion().isEmpty());
  EXPECT_FALSE(table("Values of the node")->viewport()->visibleRegion().isEmpty());
  if (debug().stop()->node != node) {
    press("F5");
    ASSERT_TRUE(settled());
    EXPECT_EQ(debug().stop()->reason, dbg::StopReason::kBreakpoint);
    EXPECT_EQ(debug().breakpoints().all()[0].hits, 1);
  }
  EXPECT_EQ(debug().stop()->node, node);
  EXPECT_EQ(selected(), node) << "the view follows";
  ASSERT_GE(model->graph.selectedBox(), 0);
  EXPECT_TRUE(window->graphView().room().intersects(window->graphView().boxOnScreen(model->graph.selectedBox())));
  const NodeMark& mark = debug().marks(workspace().graph()).at(workspace().selection().node);
  EXPECT_EQ(mark.dot, NodeMark::Dot::kOn);
  EXPECT_EQ(mark.ranks, (std::vector<int>{0, 1}));
}

TEST_F(DebugWindowTest, TheToolBarMovesTheRanksThereAndBack) {
  startDebugger();
  QTableWidget* ranks = table("Where the ranks stand");
  ASSERT_NE(ranks, nullptr);
  ASSERT_EQ(ranks->rowCount(), 2);
  EXPECT_FALSE(window->actionNamed(QStringLiteral("debug-back"))->isEnabled()) << "this is the beginning";
  press("F11");
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug().stop()->made, 1);
  EXPECT_EQ(ranks->item(0, 1)->text().toStdString(), "%" + debug().stop()->node);
  act("debug-collective");
  ASSERT_TRUE(settled());
  EXPECT_TRUE(debug().stop()->ranks[0].collective);
  EXPECT_EQ(ranks->item(1, 4)->text(), QStringLiteral("together"));
  const std::string there = debug().stop()->node;
  const std::int64_t made = debug().stop()->made;
  act("debug-step");
  ASSERT_TRUE(settled());
  act("debug-back");
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug().stop()->node, there);
  EXPECT_EQ(debug().stop()->made, made);
  // One rank alone comes to the collective and waits.
  debug().send("step rank 0");
  ASSERT_TRUE(settled());
  act("debug-restart");
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug().stop()->made, 0);
  // To the node that was chosen.
  debug().showNode(there);
  ASSERT_TRUE(settled());
  act("debug-to");
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug().stop()->node, there);
  EXPECT_FALSE(window->actionNamed(QStringLiteral("debug-to"))->isEnabled()) << "they are there";
  // A click on a rank looks at it alone; another one at all.
  QTest::mouseClick(ranks->viewport(), Qt::LeftButton, {}, ranks->visualItemRect(ranks->item(1, 1)).center());
  EXPECT_EQ(workspace().selection().rank, 1);
  ASSERT_TRUE(settled());
  QTest::mouseClick(ranks->viewport(), Qt::LeftButton, {}, ranks->visualItemRect(ranks->item(1, 1)).center());
  EXPECT_EQ(workspace().selection().rank, -1);
  act("debug-end");
  ASSERT_TRUE(settled());
  EXPECT_FALSE(all<DebugBar>().front()->isVisible());
  EXPECT_FALSE(ranks->isVisible());
}

TEST_F(DebugWindowTest, ValuesAreShownAndChosen) {
  startDebugger();
  debug().send("until op sp.all_to_all*");
  ASSERT_TRUE(settled());
  QTableWidget* values = table("Values of the node");
  ASSERT_GE(values->rowCount(), 2);
  ASSERT_TRUE(debug().look());
  EXPECT_EQ(values->item(0, 0)->text().toStdString(), "%" + debug().look()->values[0].name);
  ASSERT_EQ(all<ValuePicture>().size(), 1u);
  EXPECT_GT(all<ValuePicture>().front()->height(), 60);
  QTextBrowser* text = nullptr;
  for (QTextBrowser* t : window->findChildren<QTextBrowser*>())
    if (t->accessibleName() == QStringLiteral("Value")) text = t;
  ASSERT_NE(text, nullptr);
  EXPECT_TRUE(text->toPlainText().contains(QStringLiteral("equal"))) << text->toPlainText().toStdString();
  EXPECT_TRUE(text->toPlainText().contains(QStringLiteral("rank 1")));
  QTest::mouseClick(values->viewport(), Qt::LeftButton, {}, values->visualItemRect(values->item(values->rowCount() - 1, 0)).center());
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug().look()->chosen, values->rowCount() - 1);
  EXPECT_TRUE(text->toPlainText().contains(QStringLiteral("on its way between ranks"))) << text->toPlainText().toStdString();
}

TEST_F(DebugWindowTest, TheConsoleTakesEveryCommandWithHistoryAndCompletion) {
  startDebugger();
  ASSERT_TRUE(window->showPanel("console"));
  QLineEdit* typed = line("Command of the debugger");
  ASSERT_NE(typed, nullptr);
  typed->setFocus();
  QTest::keyClicks(typed, QStringLiteral("break phase backward"));
  QTest::keyClick(typed, Qt::Key_Return);
  QTest::keyClicks(typed, QStringLiteral("continue"));
  QTest::keyClick(typed, Qt::Key_Return);
  ASSERT_TRUE(settled());
  EXPECT_EQ(debug().stop()->ranks[0].next.phase, "backward");
  EXPECT_EQ(table("Breakpoints")->rowCount(), 1) << "it is in the list, too";
  QTest::keyClick(typed, Qt::Key_Up);
  EXPECT_EQ(typed->text(), QStringLiteral("continue"));
  QTest::keyClick(typed, Qt::Key_Up);
  EXPECT_EQ(typed->text(), QStringLiteral("break phase backward"));
  QTest::keyClick(typed, Qt::Key_Down);
  QTest::keyClick(typed, Qt::Key_Down);
  EXPECT_EQ(typed->text(), QString());
  QTest::keyClicks(typed, QStringLiteral("breakp"));
  QTest::keyClick(typed, Qt::Key_Tab);
  EXPECT_EQ(typed->text(), QStringLiteral("breakpoints "));
  QTest::keyClick(typed, Qt::Key_Return);
  QTest::keyClicks(typed, QStringLiteral("print %nothing_of_the_kind"));
  QTest::keyClick(typed, Qt::Key_Return);
  ASSERT_TRUE(settled());
  const QTextBrowser* answers = all<ConsolePanel>().front()->findChild<QTextBrowser*>();
  EXPECT_TRUE(answers->toPlainText().contains(QStringLiteral("phase backward"))) << answers->toPlainText().toStdString();
  EXPECT_TRUE(answers->toPlainText().contains(QStringLiteral("%nothing_of_the_kind")));
  EXPECT_TRUE(debug().console().back().failed);
}

TEST_F(DebugWindowTest, BreakpointsAreTypedChangedSwitchedOffAndRemembered) {
  openModel();
  ASSERT_TRUE(window->showPanel("debug"));
  QLineEdit* where = line("New breakpoint");
  QTest::keyClicks(where, QStringLiteral("op aten.mm*"));
  QTest::keyClick(where, Qt::Key_Return);
  ASSERT_EQ(debug().breakpoints().all().size(), 1u);
  EXPECT_EQ(where->text(), QString());
  QTest::keyClicks(where, QStringLiteral("if sideways"));
  QTest::keyClick(where, Qt::Key_Return);
  EXPECT_EQ(debug().breakpoints().all().size(), 1u);
  EXPECT_EQ(where->text(), QStringLiteral("if sideways")) << "it can be mended";
  bool refused = false;
  for (const QLabel* label : all<DebugPanel>().front()->findChildren<QLabel*>()) refused |= label->isVisible() && label->text().contains(QStringLiteral("Legal"));
  EXPECT_TRUE(refused);
  QTableWidget* table_of = table("Breakpoints");
  table_of->item(0, 1)->setText(QStringLiteral("if nan"));  // as its editor does
  EXPECT_EQ(debug().breakpoints().all()[0].text, "op aten.mm* if nan");
  table_of->item(0, 1)->setText(QStringLiteral("if never"));
  EXPECT_EQ(debug().breakpoints().all()[0].text, "op aten.mm* if nan");
  EXPECT_EQ(table_of->item(0, 1)->text(), QStringLiteral("if nan"));
  table_of->item(0, 0)->setCheckState(Qt::Unchecked);
  EXPECT_FALSE(debug().breakpoints().all()[0].enabled);
  window->close();
  make(true);
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().model(); }));
  ASSERT_EQ(debug().breakpoints().all().size(), 1u);
  EXPECT_FALSE(debug().breakpoints().all()[0].enabled);
  table("Breakpoints")->selectRow(0);
  for (QPushButton* b : all<DebugPanel>().front()->findChildren<QPushButton*>())
    if (b->text() == QStringLiteral("Delete")) QTest::mouseClick(b, Qt::LeftButton);
  EXPECT_TRUE(debug().breakpoints().all().empty());
}

TEST_F(DebugWindowTest, NothingIsCutAt1280By800WhileDebugging) {
  startDebugger();
  debug().send("until op sp.all_to_all*");
  ASSERT_TRUE(settled());
  ASSERT_TRUE(window->resizeTo(1280, 800));
  ASSERT_TRUE(window->screenshot(folder + "/shot.png"));
  for (QPushButton* b : window->findChildren<QPushButton*>())
    if (!b->visibleRegion().isEmpty()) {
      const QRect at(b->mapTo(window.get(), QPoint(0, 0)), b->size());
      EXPECT_TRUE(window->rect().contains(at)) << b->text().toStdString();
      EXPECT_GE(b->width(), b->fontMetrics().horizontalAdvance(b->text()) + 8) << b->text().toStdString();
    }
  EXPECT_GE(window->graphView().height(), 220);
  // What has no room in a panel scrolls inside of it: no panel is larger than what holds it.
  for (QWidget* panel : {static_cast<QWidget*>(all<ValuesPanel>().front()), static_cast<QWidget*>(all<DebugPanel>().front())})
    EXPECT_LE(panel->minimumSizeHint().height(), panel->height()) << panel->objectName().toStdString();
  EXPECT_LE(all<ValuesPanel>().front()->mapTo(window.get(), QPoint(0, 0)).y() + all<ValuesPanel>().front()->height(), window->graphView().mapTo(window.get(), QPoint(0, 0)).y() + window->graphView().height() + 60);
}

TEST_F(DebugWindowTest, ClosedWhileItRunsItLeavesNothingBehind) {
  startDebugger();
  debug().send("continue");
  window->close();
  window.reset();
  model.reset();  // does not wait for the end of the step
  SUCCEED();
}

}  // namespace
}  // namespace spscope::ui
