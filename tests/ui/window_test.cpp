// SPDX-License-Identifier: Apache-2.0
// The window on the platform `offscreen` (and under Xvfb: the same program): what a user does from the start page to the profile
// of a run, with mouse and keyboard. Waits for conditions, never for a time.
#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QAccessible>
#include <QApplication>
#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QDropEvent>
#include <QScrollBar>
#include <QTabBar>
#include <QTableWidget>
#include <QTextBrowser>
#include <QWheelEvent>

#include <csignal>
#include <filesystem>

#include "tests/ui/window_fixture.h"
#include "ui/qt/log_panel.h"
#include "ui/qt/panels/inspector_panel.h"
#include "ui/qt/panels/run_panel.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/search_popup.h"
#include "ui/qt/settings_popup.h"

namespace spscope::ui {
namespace {

TEST_F(WindowTest, FourClicksFromTheStartPageToAProfiledRun) {
  // One: the sample.
  QPushButton* sample = nullptr;
  for (QPushButton* b : window->findChildren<QPushButton*>())
    if (b->accessibleName() == QStringLiteral("Open nanogpt.pt2")) sample = b;
  ASSERT_NE(sample, nullptr);
  QTest::mouseClick(sample, Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return workspace().model() && model->graph.scene() != nullptr && idle(); }));
  // Two: compile.
  QTest::mouseClick(button(QStringLiteral("Compile")), Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  // Three: a stage, with what it did.
  StageChipButton* chip = window->strip().chipNamed(QStringLiteral("insert-all-to-all"));
  ASSERT_NE(chip, nullptr);
  QTest::mouseClick(chip, Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle() && model->graph.counts().has_value(); }));
  EXPECT_GT(model->graph.counts()->added, 0);
  EXPECT_TRUE(chip->chip().shown);
  // Four: run.
  ASSERT_TRUE(workspace().set("steps", "2"));
  QTest::mouseClick(button(QStringLiteral("Run")), Qt::LeftButton);
  EXPECT_TRUE(workspace().runProgress().running);
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  ASSERT_FALSE(workspace().runProgress().error) << workspace().runProgress().error->format();
  EXPECT_EQ(workspace().runProgress().steps.size(), 2u);
  ASSERT_TRUE(workspace().trace());
  EXPECT_EQ(workspace().trace()->trace.ranks.size(), 2u);
  EXPECT_EQ(children(), 0);
#ifdef SPSCOPE_HAVE_TIMELINE
  // The profile is in front without another click. An event of it is a node of the graph, everywhere.
  ASSERT_TRUE(waitFor([&] { return timeline->isVisible() && timeline->frames() > 0; }));
  const trace::Trace& t = workspace().trace()->trace;
  const auto clickable = [&] {
    int widest = -1;
    for (std::size_t e = 0; e < t.events.size(); ++e)
      if (t.events.node[e] != trace::kNoIndex && timeline->eventRect(static_cast<int>(e)).height() >= 3 && (widest < 0 || timeline->eventRect(static_cast<int>(e)).width() > timeline->eventRect(widest).width())) widest = static_cast<int>(e);
    return widest;
  };
  ASSERT_TRUE(waitFor([&] { return clickable() >= 0; }));
  const int event = clickable();
  const QPoint place = timeline->eventRect(event).center();
  QWidget* host = timeline->childAt(place);
  ASSERT_NE(host, nullptr);
  QTest::mouseClick(host, Qt::LeftButton, {}, host->mapFrom(timeline, place));
  ASSERT_TRUE(waitFor([&] { return workspace().selection().event == event && idle(); }));
  EXPECT_EQ(workspace().selection(), selectionOfEvent(t, event));
  const ir::NodeId node = workspace().selection().node;
  ASSERT_NE(node, ir::kNone) << t.strings.text(t.events.name[static_cast<std::size_t>(event)]);
  ASSERT_NE(std::find(workspace().graph()->order.begin(), workspace().graph()->order.end(), node), workspace().graph()->order.end())
      << t.strings.text(t.events.name[static_cast<std::size_t>(event)]) << " node " << node << " in " << workspace().stages()[static_cast<std::size_t>(workspace().stage())].name;
  const std::int32_t box = model->graph.selectedBox();
  ASSERT_GE(box, 0) << "the stage that has it is shown, the modules around it are open";
  EXPECT_GE(model->graph.scene()->scene().boxes[static_cast<std::size_t>(box)].node, 0);
  EXPECT_TRUE(window->graphView().room().intersects(window->graphView().boxOnScreen(box)));
  ASSERT_EQ(all<InspectorPanel>().size(), 1u);
  EXPECT_EQ(all<InspectorPanel>().front()->headline().toStdString(), "%" + workspace().graph()->node(node).name);
#endif
}

TEST_F(WindowTest, ClicksSelectAndDoubleClicksOpenInPlace) {
  openModel();
  model->graph.closeAll();
  window->graphView().fit(true);
  const std::int32_t box = boxOfKind(SceneBox::Kind::kModule);
  ASSERT_GE(box, 0);
  const std::string path = model->graph.selectionOf(box).module;
  clickBox(box);
  EXPECT_EQ(workspace().selection().module, path);
  const QPointF before = window->graphView().boxOnScreen(box).topLeft();
  clickBox(box, true);
  ASSERT_TRUE(model->graph.scene()->isOpen(model->graph.source()->tree->find(path)));
  const std::int32_t now = model->graph.selectedBox();
  ASSERT_GE(now, 0);
  EXPECT_EQ(model->graph.scene()->scene().boxes[static_cast<std::size_t>(now)].kind, SceneBox::Kind::kFrame);
  EXPECT_LT((window->graphView().boxOnScreen(now).topLeft() - before).manhattanLength(), 2.0) << "it opens where it is";
  // Back, forward, and the keys.
  const std::int32_t node = boxOfKind(SceneBox::Kind::kNode);
  ASSERT_GE(node, 0);
  clickBox(node);
  const Selection chosen = workspace().selection();
  EXPECT_NE(chosen.node, ir::kNone);
  window->actionNamed(QStringLiteral("back"))->trigger();
  EXPECT_EQ(workspace().selection().module, path);
  window->actionNamed(QStringLiteral("forward"))->trigger();
  EXPECT_EQ(workspace().selection(), chosen);
  QTest::keyClick(&window->graphView(), Qt::Key_Down);
  EXPECT_NE(workspace().selection(), chosen);
  const double zoom = window->graphView().zoom();
  QTest::keyClick(&window->graphView(), Qt::Key_Plus);
  EXPECT_GT(window->graphView().zoom(), zoom);
  const QPointF place(200, 150);
  QWheelEvent wheel(place, window->graphView().mapToGlobal(place), {}, QPoint(0, -240), Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
  QApplication::sendEvent(&window->graphView(), &wheel);
  EXPECT_LT(window->graphView().zoom(), zoom * 1.25);
}

TEST_F(WindowTest, ItemModelsKeepTheirPromises) {
  QAbstractItemModelTester tree(&window->moduleModel(), QAbstractItemModelTester::FailureReportingMode::Fatal);
  LogModel log(workspace());
  auto log_tester = std::make_unique<QAbstractItemModelTester>(&log, QAbstractItemModelTester::FailureReportingMode::Fatal);
  openModel();
  EXPECT_GT(window->moduleModel().rowCount(), 0);
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  for (int i = 0; i < static_cast<int>(workspace().stages().size()); ++i) {
    window->actionNamed(QStringLiteral("next-stage"))->trigger();
    ASSERT_TRUE(waitFor([&] { return idle(); }));
  }
  window->openFiles({"/nonexistent.pt2"});
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  EXPECT_GT(log.rowCount(), 0);
  for (int i = 0; i < 20; ++i) workspace().log({Severity::kWarning, "test", "", "line", {}, {}, {}});
  log_tester.reset();  // looks at every row at every change
  for (int i = 0; i < 6000; ++i) workspace().log({Severity::kRemark, "test", "", "line " + std::to_string(i), {}, {}, {}});
  EXPECT_EQ(log.rowCount(), static_cast<int>(workspace().logEntries().size())) << "old entries go";
}

TEST_F(WindowTest, SearchGoesToTheNode) {
  openModel();
  window->actionNamed(QStringLiteral("search"))->trigger();
  ASSERT_TRUE(window->searchPopup().isVisible());
  auto* query = window->searchPopup().findChild<QLineEdit*>();
  QTest::keyClicks(query, QStringLiteral("op:native_layer_norm"));
  if (window->searchPopup().found() == 0) {
    query->clear();
    QTest::keyClicks(query, QStringLiteral("op:layer_norm"));
  }
  ASSERT_GT(window->searchPopup().found(), 1);
  QTest::keyClick(query, Qt::Key_Down);
  QTest::keyClick(query, Qt::Key_Return);
  EXPECT_FALSE(window->searchPopup().isVisible());
  ASSERT_NE(workspace().selection().node, ir::kNone);
  EXPECT_NE(workspace().graph()->node(workspace().selection().node).op.str().find("layer_norm"), std::string::npos);
  const std::int32_t box = model->graph.selectedBox();
  ASSERT_GE(box, 0) << "shown, with the modules around it opened";
  EXPECT_TRUE(QRectF(window->graphView().rect()).intersects(window->graphView().boxOnScreen(box)));
}

TEST_F(WindowTest, SettingsAreChangedByTypingAndIllegalOnesAreRefusedWithTheReason) {
  openModel();
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  QComboBox* sp = window->settingsBar().boxOf("sp");
  sp->lineEdit()->selectAll();
  QTest::keyClicks(sp->lineEdit(), QStringLiteral("4"));
  QTest::keyClick(sp->lineEdit(), Qt::Key_Return);
  EXPECT_EQ(workspace().settings().compile.sp, 4);
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  EXPECT_EQ(workspace().compiled()->compiled.class_of_rank.size(), 4u) << "compiled again";
  sp->lineEdit()->selectAll();
  QTest::keyClicks(sp->lineEdit(), QStringLiteral("many"));
  QTest::keyClick(sp->lineEdit(), Qt::Key_Return);
  EXPECT_EQ(workspace().settings().compile.sp, 4);
  EXPECT_TRUE(sp->property("refused").toBool());
  EXPECT_TRUE(sp->toolTip().contains(QStringLiteral("many")));
}

/// Behind More: chosen there they are compiled, run and proved with, and come back with the session.
TEST_F(WindowTest, FurtherSettingsAreUsedAndRemembered) {
  openModel();
  QPushButton& more = window->settingsBar().moreButton();
  SettingsPopup& popup = window->furtherSettingsPopup();
  QTest::mouseClick(&more, Qt::LeftButton);
  ASSERT_TRUE(popup.isVisible());
  EXPECT_TRUE(window->rect().contains(popup.geometry()));
  const auto choose = [&](const char* setting, const char* value) {
    SettingBox* box = popup.boxOf(setting);
    ASSERT_NE(box, nullptr) << setting;
    box->setFocus();
    ASSERT_GE(box->findText(QLatin1String(value)), 0) << setting;
    if (box->isEditable()) {
      box->lineEdit()->selectAll();
      QTest::keyClicks(box->lineEdit(), QLatin1String(value));
      QTest::keyClick(box->lineEdit(), Qt::Key_Return);
    } else {
      for (int i = 0; i < box->count() && box->currentText() != QLatin1String(value); ++i) QTest::keyClick(box, Qt::Key_Down);
    }
  };
  choose("zero", "1");
  choose("accumulate", "2");
  choose("tile-loss", "on");
  EXPECT_EQ(workspace().settings().compile.zero, 1);
  EXPECT_EQ(workspace().settings().compile.accumulate, 2);
  EXPECT_TRUE(workspace().settings().compile.tile_loss);
  EXPECT_EQ(more.text(), QStringLiteral("More (3)")) << "what is set is not hidden";
  EXPECT_TRUE(more.toolTip().contains(QStringLiteral("ZeRO 1")));
  // What is none is refused where it was typed.
  SettingBox* accumulate = popup.boxOf("accumulate");
  accumulate->lineEdit()->selectAll();
  QTest::keyClicks(accumulate->lineEdit(), QStringLiteral("0"));
  QTest::keyClick(accumulate->lineEdit(), Qt::Key_Return);
  EXPECT_EQ(workspace().settings().compile.accumulate, 2);
  EXPECT_TRUE(accumulate->refusal().contains(QStringLiteral("cannot be 0")));
  QTest::keyClick(accumulate->lineEdit(), Qt::Key_Escape);
  EXPECT_FALSE(popup.isVisible());
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  const auto changed = [&](const std::string& name) {
    for (const Workspace::Stage& s : workspace().stages())
      if (s.name == name) return s.record != nullptr ? s.record->changed_nodes : 0;
    return std::int64_t{0};
  };
  EXPECT_GT(changed("shard-optimizer"), 0) << "ZeRO";
  EXPECT_GT(changed("tile-loss"), 0);
  window->actionNamed(QStringLiteral("verify"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && (workspace().verified() || workspace().verifyError()); }));
  ASSERT_TRUE(workspace().verified()) << workspace().verifyError()->format();
  EXPECT_TRUE(workspace().verified()->equal);
  ASSERT_TRUE(workspace().set("steps", "2"));
  window->actionNamed(QStringLiteral("run"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && !workspace().runProgress().running; }));
  ASSERT_FALSE(workspace().runProgress().error) << workspace().runProgress().error->format();
  EXPECT_EQ(workspace().runProgress().steps.size(), 2u);
  window->close();
  make(true);
  EXPECT_EQ(workspace().settings().compile.zero, 1);
  EXPECT_EQ(workspace().settings().compile.accumulate, 2);
  EXPECT_TRUE(workspace().settings().compile.tile_loss);
  EXPECT_EQ(window->settingsBar().moreButton().text(), QStringLiteral("More (3)"));
  ASSERT_TRUE(waitFor([&] { return idle(); }));
}

/// A model on which two right programs differ (tests/data/chaotic.py): from Verify to the node where it begins.
TEST_F(WindowTest, ADifferenceLeadsToTheNodeWhereItBegins) {
  openModel(SPSCOPE_SOURCE_DIR "/tests/data/chaotic.pt2");
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  QTest::mouseClick(button(QStringLiteral("Verify")), Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle() && (workspace().verified() || workspace().verifyError()); }));
  ASSERT_TRUE(workspace().verified()) << workspace().verifyError()->format();
  const session::VerifyOutcome& outcome = *workspace().verified();
  ASSERT_FALSE(outcome.equal);
  ASSERT_TRUE(outcome.first_difference);
  const session::FirstDifference& first = *outcome.first_difference;
  EXPECT_EQ(first.op, "aten.mul.Tensor");
  EXPECT_EQ(first.source, "chaotic.py:26");
  // Selected, in a stage that has it, in sight, in the inspector.
  ASSERT_TRUE(waitFor([&] { return idle() && model->graph.selectedBox() >= 0; }));
  ASSERT_NE(workspace().selection().node, ir::kNone);
  EXPECT_EQ(workspace().graph()->node(workspace().selection().node).name, first.node);
  EXPECT_TRUE(window->graphView().room().intersects(window->graphView().boxOnScreen(model->graph.selectedBox())));
  ASSERT_EQ(all<InspectorPanel>().size(), 1u);
  EXPECT_EQ(all<InspectorPanel>().front()->headline().toStdString(), "%" + first.node);
  // The verdict: above and in its panel, which is in front, with loss, rank, pass and the worst gradients.
  ASSERT_EQ(all<RunPanel>().size(), 1u);
  const auto* panel = all<RunPanel>().front();
  EXPECT_FALSE(panel->visibleRegion().isEmpty());
  QString said;
  for (const QLabel* label : panel->findChildren<QLabel*>())
    if (label->isVisible()) said += label->text() + QLatin1Char('\n');
  for (const char* part : {"different: worst gradient", "loss ", "unsharded", "first difference: ", "chaotic.py:26", "rank", "made by "}) EXPECT_TRUE(said.contains(QLatin1String(part))) << part << " in " << said.toStdString();
  QTableWidget* gradients = nullptr;
  for (QTableWidget* t : panel->findChildren<QTableWidget*>())
    if (t->accessibleName() == QStringLiteral("Gradients, the worst first")) gradients = t;
  ASSERT_NE(gradients, nullptr);
  ASSERT_EQ(gradients->rowCount(), 3);
  EXPECT_EQ(gradients->item(0, 0)->data(Qt::UserRole).toString(), QStringLiteral("e.weight"));
  const QList<QLabel*> labels = window->settingsBar().findChildren<QLabel*>();
  EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* l) { return l->text().contains(QStringLiteral("different")); }));
  // Away, and back by the link.
  QTest::mouseClick(gradients->viewport(), Qt::LeftButton, {}, gradients->visualItemRect(gradients->item(0, 0)).center());
  EXPECT_NE(workspace().graph()->node(workspace().selection().node).name, first.node);
  auto* link = panel->findChild<QLabel*>(QStringLiteral("first-difference"));
  ASSERT_NE(link, nullptr);
  Q_EMIT link->linkActivated(QString::fromStdString(first.node));
  EXPECT_EQ(workspace().graph()->node(workspace().selection().node).name, first.node);
}

TEST_F(WindowTest, EveryActionHasAShortcutAndATooltipAndNoTwoShareOne) {
  QMap<QString, QString> taken;
  int count = 0;
  for (QAction* action : window->actions()) {
    if (action->isSeparator()) continue;
    ++count;
    EXPECT_FALSE(action->toolTip().isEmpty()) << action->text().toStdString();
    ASSERT_FALSE(action->shortcuts().isEmpty()) << action->text().toStdString();
    for (const QKeySequence& key : action->shortcuts()) {
      EXPECT_FALSE(taken.contains(key.toString())) << key.toString().toStdString() << ": " << action->text().toStdString() << " and " << taken.value(key.toString()).toStdString();
      taken[key.toString()] = action->text();
    }
  }
  EXPECT_GT(count, 20);
}

/// What assistive technology reads, and what the pointer is told.
TEST_F(WindowTest, EveryWidgetThatTakesInputHasANameAndEveryButtonATooltip) {
  const auto walk = [&](const char* where) {
    int named = 0;
    for (QWidget* w : window->findChildren<QWidget*>()) {
      if (!w->isVisible()) continue;
      const std::string what = std::string(where) + ": " + w->metaObject()->className() + " " + w->objectName().toStdString() + " in " + (w->parentWidget() ? w->parentWidget()->metaObject()->className() : "");
      const bool pressed = qobject_cast<QAbstractButton*>(w) != nullptr || qobject_cast<QComboBox*>(w) != nullptr;
      // Parts of Qt's own widgets speak through them.
      if (w->objectName().startsWith(QLatin1String("qt_")) || qobject_cast<QComboBox*>(w->parentWidget()) != nullptr || qobject_cast<QTabBar*>(w->parentWidget()) != nullptr || qobject_cast<QLineEdit*>(w->parentWidget()) != nullptr) continue;
      if (const auto* label = qobject_cast<QLabel*>(w); label != nullptr && label->text().isEmpty()) continue;  // says nothing now
      if (w->focusPolicy() == Qt::NoFocus && !pressed) continue;
      if (w->metaObject() == &QWidget::staticMetaObject || qobject_cast<QHeaderView*>(w) != nullptr || qobject_cast<QScrollBar*>(w) != nullptr) continue;
      QAccessibleInterface* spoken = QAccessible::queryAccessibleInterface(w);
      ASSERT_NE(spoken, nullptr) << what;
      EXPECT_FALSE(spoken->text(QAccessible::Name).isEmpty()) << what;
      if (pressed) {
        EXPECT_FALSE(w->toolTip().isEmpty()) << what << " " << spoken->text(QAccessible::Name).toStdString();
      }
      ++named;
    }
    EXPECT_GT(named, 8) << where;
  };
  walk("start");
  openModel();
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  Selection s;
  s.node = workspace().graph()->order.front();
  workspace().select(s);
  for (const char* panel : {"modules", "inspector", "values", "why", "memory", "timeline", "run", "log", "debug", "console"}) {
    ASSERT_TRUE(window->showPanel(panel));
    QApplication::processEvents();
    walk(panel);
  }
  window->actionNamed(QStringLiteral("search"))->trigger();
  walk("search");
  window->searchPopup().hide();
  ASSERT_TRUE(window->showPanel("settings"));
  walk("settings");
}

TEST_F(WindowTest, NothingIsCutAt1280By800) {
  openModel();
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  const StageChipButton* last = window->strip().chipNamed(QStringLiteral("overlap-collectives"));
  ASSERT_NE(last, nullptr);
  ASSERT_TRUE(waitFor([&] { return last->isVisible(); }));  // Qt shows what is added to a layout a moment later
  ASSERT_TRUE(window->resizeTo(1280, 800));
  const std::string path = folder + "/shot.png";
  ASSERT_TRUE(window->screenshot(path));  // arranged
  EXPECT_EQ(window->width(), 1280);
  EXPECT_FALSE(window->strip().horizontalScrollBar()->isVisible()) << "all stages are in sight";
  int slim = 0;
  for (StageChipButton* chip : all<StageChipButton>()) {
    if (!chip->isVisible()) continue;
    EXPECT_GE(chip->width(), chip->minimumSizeHint().width()) << chip->chip().name;
    EXPECT_TRUE(!chip->slim() || chip->chip().canShrink()) << chip->chip().name;
    slim += chip->slim();
  }
  EXPECT_GT(slim, 0) << "stages that changed nothing give their room to the others";
  // A click on such a one opens it.
  for (StageChipButton* chip : all<StageChipButton>())
    if (chip->isVisible() && chip->slim()) {
      EXPECT_TRUE(chip->toolTip().contains(QString::fromStdString(chip->chip().name)));
      QTest::mouseClick(chip, Qt::LeftButton);
      EXPECT_FALSE(chip->slim());
      EXPECT_EQ(workspace().stage(), chip->chip().stage);
      break;
    }
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  EXPECT_GE(window->graphView().height(), 250);
  EXPECT_GE(window->graphView().room().width(), 480);
  // The map is beside the graph, not on it.
  window->graphView().zoomBy(4);
  EXPECT_LT(window->graphView().room().right(), window->graphView().width());
  for (QPushButton* b : window->findChildren<QPushButton*>())
    if (!b->visibleRegion().isEmpty()) {  // not those of the hidden tabs
      const QRect at(b->mapTo(window.get(), QPoint(0, 0)), b->size());
      EXPECT_TRUE(window->rect().contains(at)) << b->text().toStdString();
      EXPECT_GE(b->width(), b->fontMetrics().horizontalAdvance(b->text()) + 8) << b->text().toStdString();
    }
}

TEST_F(WindowTest, FilesAreDropped) {
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(QString::fromStdString(kModel))});
  QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window.get(), &enter);
  ASSERT_TRUE(enter.isAccepted());
  QDropEvent drop(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window.get(), &drop);
  EXPECT_TRUE(waitFor([&] { return workspace().model() != nullptr; }));
}

TEST_F(WindowTest, TheSessionComesBack) {
  openModel();
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  QTest::mouseClick(window->strip().chipNamed(QStringLiteral("insert-all-to-all")), Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  (void)window->setTheme(false);
  window->close();
  make(true);
  ASSERT_TRUE(waitFor([&] { return idle() && model->graph.counts().has_value(); }));
  EXPECT_EQ(workspace().stages()[static_cast<std::size_t>(workspace().stage())].name, "insert-all-to-all");
  EXPECT_FALSE(currentTheme().dark());
}

/// Killed without a word: what was saved a moment after the last change is there.
TEST_F(WindowTest, TheSessionComesBackThoughTheWindowWasNeverClosed) {
  openModel();
  ASSERT_TRUE(workspace().set("zero", "1"));
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  QTest::mouseClick(window->strip().chipNamed(QStringLiteral("shard-optimizer")), Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle() && loadSession(folder + "/session").stage == "shard-optimizer"; }));
  make(true);  // the old one goes without its close event
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled() && model->graph.counts().has_value(); }));
  EXPECT_EQ(workspace().settings().compile.zero, 1);
  EXPECT_EQ(workspace().stages()[static_cast<std::size_t>(workspace().stage())].name, "shard-optimizer");
}

/// What was open before stands on the start page and in the menu, the newest first.
TEST_F(WindowTest, RecentFilesAreOffered) {
  openModel(SPSCOPE_SOURCE_DIR "/tests/data/zoo/gpt2.pt2");
  openModel();
  window->close();
  make(false);
  std::vector<std::string> offered;
  for (const QPushButton* b : window->findChildren<QPushButton*>())
    if (b->isVisible() && b->accessibleName().startsWith(QLatin1String("Open "))) offered.push_back(b->accessibleName().toStdString());
  ASSERT_GE(offered.size(), 2u);
  const auto at = [&](const char* name) { return std::find(offered.begin(), offered.end(), name) - offered.begin(); };
  EXPECT_LT(at("Open nanogpt.pt2"), static_cast<std::ptrdiff_t>(offered.size()));
  EXPECT_LT(at("Open gpt2.pt2"), static_cast<std::ptrdiff_t>(offered.size()));
  QPushButton* older = nullptr;
  for (QPushButton* b : window->findChildren<QPushButton*>())
    if (b->accessibleName() == QStringLiteral("Open gpt2.pt2")) older = b;
  ASSERT_NE(older, nullptr);
  QTest::mouseClick(older, Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().model(); }));
  EXPECT_EQ(workspace().model()->display_name, "gpt2.pt2");
}

TEST_F(WindowTest, AHomeThatCannotBeWrittenIsSaidOnceAndNothingElse) {
  std::filesystem::create_directory(folder + "/session");  // a folder where the file would be
  openModel();
  window->close();
  int said = 0;
  for (const LogEntry& e : workspace().logEntries()) said += e.source == "session";
  EXPECT_EQ(said, 1);
}

TEST_F(WindowTest, ClosingDuringARunLeavesNoProcess) {
  openModel();
  ASSERT_TRUE(workspace().set("steps", "1000000"));
  window->actionNamed(QStringLiteral("run"))->trigger();
  ASSERT_TRUE(waitFor([&] { return workspace().runProgress().steps.size() >= 2; }));
  EXPECT_GE(children(), 2);
  window->close();
  window.reset();
  model.reset();
  EXPECT_EQ(children(), 0);
}

TEST_F(WindowTest, ARankThatIsKilledIsReportedWhereTheRunIs) {
  openModel();
  ASSERT_TRUE(workspace().set("steps", "1000000"));
  window->actionNamed(QStringLiteral("run"))->trigger();
  ASSERT_TRUE(waitFor([&] { return workspace().runProgress().steps.size() >= 2; }));
  const std::vector<pid_t> ranks = rankProcesses();
  ASSERT_GE(ranks.size(), 2u);
  ::kill(ranks.back(), SIGKILL);
  ASSERT_TRUE(waitFor([&] { return !workspace().runProgress().running && idle(); }));
  ASSERT_TRUE(workspace().runProgress().error);
  EXPECT_EQ(children(), 0);
  // As the launcher reports it: in the run panel and in the log, in no box of its own.
  const Error& error = *workspace().runProgress().error;
  EXPECT_NE(error.message.find("signal 9"), std::string::npos) << error.message;
  auto* failure = window->findChild<QTextBrowser*>(QStringLiteral("failure"));
  ASSERT_NE(failure, nullptr);
  ASSERT_TRUE(waitFor([&] { return failure->isVisible(); }));
  EXPECT_TRUE(failure->toPlainText().contains(QString::fromStdString(error.message))) << failure->toPlainText().toStdString();
  bool logged = false;
  for (const LogEntry& e : workspace().logEntries()) logged |= e.severity == Severity::kError && e.source == "run" && e.code == error.code && e.message == error.message;
  EXPECT_TRUE(logged);
  EXPECT_EQ(QApplication::activeModalWidget(), nullptr);
  EXPECT_TRUE(window->actionNamed(QStringLiteral("run"))->isEnabled()) << "and it can be tried again";
}

TEST_F(WindowTest, SideBySideMovesTogether) {
  openModel();
  window->actionNamed(QStringLiteral("compile"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle() && workspace().compiled(); }));
  QTest::mouseClick(window->strip().chipNamed(QStringLiteral("insert-all-to-all")), Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  window->actionNamed(QStringLiteral("side-by-side"))->trigger();
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  const QList<GraphView*> views = [&] {
    QList<GraphView*> out;
    for (QWidget* w : window->findChildren<QWidget*>(QStringLiteral("graph")))
      if (auto* v = dynamic_cast<GraphView*>(w)) out << v;
    return out;
  }();
  ASSERT_EQ(views.size(), 2);
  window->graphView().zoomBy(1.5);
  EXPECT_DOUBLE_EQ(views[0]->zoom(), views[1]->zoom());
  window->actionNamed(QStringLiteral("side-by-side"))->trigger();
  EXPECT_EQ(window->findChildren<QWidget*>(QStringLiteral("graph")).size(), 1);
}

TEST_F(WindowTest, PicturesAtEverySizeAndBothThemes) {
  openModel();
  for (const bool dark : {true, false})
    for (const auto& [w, h] : {std::pair{1280, 800}, {1600, 1000}}) {
      ASSERT_TRUE(window->setTheme(dark));
      ASSERT_TRUE(window->resizeTo(w, h));
      const std::string path = folder + "/shot.png";
      ASSERT_TRUE(window->screenshot(path));
      const QImage image(QString::fromStdString(path));
      EXPECT_EQ(image.size(), QSize(w, h) * window->devicePixelRatioF());
      // The background is the theme's.
      EXPECT_NEAR(image.pixelColor(image.width() / 2, 2).lightnessF(), dark ? 0.11 : 0.98, 0.12);
    }
  const QImage whole = window->graphView().wholeImage();
  EXPECT_GE(whole.width(), model->graph.scene()->scene().size.width * 0.99);
}

}  // namespace
}  // namespace spscope::ui

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();  // without a display
  QApplication application(argc, argv);
  return RUN_ALL_TESTS();
}
