// SPDX-License-Identifier: Apache-2.0
// The panels themselves, on the platform `offscreen` (no display, no GL): they paint in dark and light at sensible and at silly
// sizes, and a click does what the view-model says. With SPSCOPE_PICTURES=DIR their pictures are kept there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <QApplication>
#include <QComboBox>
#include <QDeadlineTimer>
#include <QLineEdit>
#include <QMouseEvent>
#include <QPushButton>
#include <QScrollBar>
#include <QTableWidget>
#include <QTextBrowser>
#include <QToolButton>
#include <QWheelEvent>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "ui/qt/panels/inspector_panel.h"
#include "ui/qt/panels/memory_panel.h"
#include "ui/qt/panels/plan_panel.h"
#include "ui/qt/panels/run_panel.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

QApplication& application() {
  static int argc = 1;
  static char name[] = "test_ui_panels";
  static char* argv[] = {name, nullptr};
  static auto* app = [] {
    if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    return new QApplication(argc, argv);  // lives as long as the process: Qt wants no order of destruction
  }();
  return *app;
}

class PanelsTest : public testing::Test {
 protected:
  QApplication& app = application();
  Workspace workspace{[](std::function<void()> f) { QMetaObject::invokeMethod(qApp, std::move(f), Qt::QueuedConnection); }};

  void SetUp() override { applyTheme(app, Theme(true)); }
  template <typename F>
  bool until(F&& condition) {
    for (QDeadlineTimer limit(60'000); !condition();) {
      if (limit.hasExpired()) return false;
      QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
    }
    QCoreApplication::processEvents();
    return true;
  }
  bool idle() {
    return until([&] { return !workspace.jobs().busy(); });
  }
  void compileModel() {
    workspace.open(SPSCOPE_SOURCE_DIR "/tests/data/zoo/llama_gqa_pos.pt2");
    ASSERT_TRUE(idle());
    ASSERT_TRUE(workspace.set("dtype", "float64"));
    ASSERT_TRUE(idle());
    workspace.compile();
    ASSERT_TRUE(idle());
    ASSERT_TRUE(workspace.compiled()) << workspace.compileError()->format();
  }
  void runRecorded() {
    const std::string trace = (std::filesystem::temp_directory_path() / ("ui-panels-" + std::to_string(getpid()))).string();
    ASSERT_TRUE(workspace.set("ranks", "virtual"));
    ASSERT_TRUE(workspace.set("steps", "5"));
    ASSERT_TRUE(workspace.set("profile", trace));
    workspace.run();
    ASSERT_TRUE(idle());
    std::filesystem::remove(trace);
    ASSERT_TRUE(workspace.trace());
  }
  static QImage grab(QWidget& panel, QSize size) {
    panel.resize(size);
    panel.show();
    QCoreApplication::processEvents();
    return panel.grab().toImage();
  }
  /// In both themes; a picture of one colour shows nothing.
  void look(QWidget& panel, const std::string& name, QSize size) {
    for (const bool dark : {true, false}) {
      applyTheme(app, Theme(dark));
      QCoreApplication::processEvents();
      const QImage image = grab(panel, size);
      ASSERT_FALSE(image.isNull());
      bool painted = false;
      for (int y = 0; y < image.height() && !painted; ++y)
        for (int x = 0; x < image.width() && !painted; ++x) painted = image.pixel(x, y) != image.pixel(0, 0);
      EXPECT_TRUE(painted) << name;
      std::int64_t follow = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) follow += (image.pixelColor(x, y).lightness() < 128) == dark;
      EXPECT_GT(follow, std::int64_t{image.width()} * image.height() * 6 / 10) << name << ": a surface that does not follow the theme";
      if (const char* folder = std::getenv("SPSCOPE_PICTURES")) image.save(QString::fromStdString(std::string(folder) + "/" + name + (dark ? "-dark.png" : "-light.png")));
    }
    applyTheme(app, Theme(true));
    QCoreApplication::processEvents();
  }
  static void click(QWidget& widget, QPointF at) {
    for (const auto type : {QEvent::MouseButtonPress, QEvent::MouseButtonRelease}) {
      QMouseEvent event(type, at, widget.mapToGlobal(at), Qt::LeftButton, type == QEvent::MouseButtonPress ? Qt::LeftButton : Qt::NoButton, Qt::NoModifier);
      QApplication::sendEvent(&widget, &event);
    }
  }
};

TEST_F(PanelsTest, EmptyPanelsSayWhatToDoAtAnySize) {
  InspectorPanel inspector(workspace);
  MemoryPanel memory(workspace);
  RunPanel run(workspace);
  for (const QSize size : {QSize(300, 480), QSize(60, 40), QSize(1800, 900)}) {
    grab(inspector, size);
    grab(memory, size);
    grab(run, size);
  }
  look(inspector, "inspector-empty", {300, 300});
  look(memory, "memory-empty", {640, 260});
  look(run, "run-empty", {1000, 320});
  EXPECT_FALSE(run.findChild<QPushButton*>(QStringLiteral("primary"))->isEnabled());
}

TEST_F(PanelsTest, TheInspectorsLinksSelect) {
  compileModel();
  workspace.showStage(static_cast<int>(workspace.stages().size()) - 1);
  InspectorPanel panel(workspace);
  Selection s;
  for (const ir::NodeId id : workspace.graph()->order)
    if (workspace.graph()->node(id).op.str().starts_with("sp.all_to_all")) s.node = id;
  ASSERT_NE(s.node, ir::kNone);
  workspace.select(s);
  EXPECT_EQ(panel.headline(), QString::fromStdString("%" + workspace.graph()->node(s.node).name));
  look(panel, "inspector", {320, 900});
  panel.copy();
  auto* text = panel.findChild<QTextBrowser*>();
  EXPECT_TRUE(text->toPlainText().contains(QStringLiteral("all")));
  // A link of the page: its last section lists who reads it.
  Q_EMIT text->anchorClicked(QUrl(QStringLiteral("row/8/0")));
  EXPECT_NE(workspace.selection().node, s.node);
  Q_EMIT text->anchorClicked(QUrl(QStringLiteral("row/99/99")));
}

TEST_F(PanelsTest, TheInspectorReadsNumbers) {
  compileModel();
  workspace.showStage(static_cast<int>(workspace.stages().size()) - 1);
  InspectorPanel panel(workspace);
  Selection s;
  for (const ir::NodeId id : workspace.graph()->order)
    if (s.node == ir::kNone && ir::isAttention(workspace.graph()->node(id).op)) s.node = id;
  workspace.select(s);
  auto* text = panel.findChild<QTextBrowser*>();
  EXPECT_TRUE(text->toPlainText().contains(QStringLiteral("Run a step of virtual ranks")));
  Q_EMIT text->anchorClicked(QUrl(QStringLiteral("row/9/0")));  // its only row
  ASSERT_TRUE(idle());
  EXPECT_TRUE(text->toPlainText().contains(QStringLiteral("equal within the tolerance"))) << text->toPlainText().toStdString();
  text->verticalScrollBar()->setValue(text->verticalScrollBar()->maximum());
  look(panel, "inspector-numbers", {380, 900});
}

TEST_F(PanelsTest, AClickOnTheMemoryPeakSelectsItsNode) {
  compileModel();
  runRecorded();
  MemoryPanel panel(workspace);
  ASSERT_TRUE(workspace.set("memory-limit", std::to_string(1.15 * static_cast<double>(workspace.compiled()->figures.memory.peak) / 1073741824.0)));
  panel.view().show("unsharded", true);
  panel.view().show("all", true);
  ASSERT_TRUE(idle());
  look(panel, "memory", {760, 300});
  ASSERT_TRUE(panel.plot().peakPoint());
  click(panel.plot(), *panel.plot().peakPoint());
  ASSERT_NE(workspace.selection().node, ir::kNone);
  EXPECT_EQ(workspace.graph()->node(workspace.selection().node).name, workspace.compiled()->figures.peak_node);
  // Zoomed in around it, the peak stays in sight.
  const QPointF at = *panel.plot().peakPoint();
  for (int i = 0; i < 6; ++i) {
    QWheelEvent wheel(at, panel.plot().mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
    QApplication::sendEvent(&panel.plot(), &wheel);
  }
  ASSERT_TRUE(panel.plot().peakPoint());
  EXPECT_LT(panel.plot().viewport().to - panel.plot().viewport().from, 0.5);
  QMouseEvent move(QEvent::MouseMove, at, panel.plot().mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(&panel.plot(), &move);
  look(panel, "memory-zoomed", {520, 220});
  // The measured curve is a button like the others.
  auto* measured = panel.findChild<QToolButton*>(QStringLiteral("measured:0"));
  ASSERT_NE(measured, nullptr);
  if (!measured->isChecked()) measured->click();
  ASSERT_TRUE(idle());
  measured->click();
  EXPECT_TRUE(panel.headline().contains(QStringLiteral("peak")));
  look(panel, "memory-measured", {760, 300});
}

TEST_F(PanelsTest, ARunFromItsFormToItsPlotsAndTheVerdict) {
  compileModel();
  RunPanel panel(workspace);
  auto* ranks = panel.findChild<QComboBox*>(QStringLiteral("ranks"));
  ASSERT_NE(ranks, nullptr);
  ranks->setCurrentText(QStringLiteral("virtual"));
  Q_EMIT ranks->textActivated(ranks->currentText());
  EXPECT_EQ(workspace.settings().run.ranks, "virtual");
  auto* start = panel.findChild<QPushButton*>(QStringLiteral("primary"));
  ASSERT_TRUE(start->isEnabled());
  start->click();
  EXPECT_FALSE(start->isEnabled());
  ASSERT_TRUE(idle());
  EXPECT_TRUE(start->isEnabled());
  const auto table = [&](const char* name) {
    for (auto* t : panel.findChildren<QTableWidget*>())
      if (t->accessibleName().startsWith(QLatin1String(name))) return t;
    return static_cast<QTableWidget*>(nullptr);
  };
  ASSERT_NE(table("Ranks"), nullptr);
  EXPECT_EQ(table("Ranks")->rowCount(), 2);
  look(panel, "run", {1000, 340});
  workspace.verify();
  ASSERT_TRUE(idle());
  look(panel, "verify", {1000, 340});
  auto* gradients = table("Gradients");
  ASSERT_GT(gradients->rowCount(), 3);
  Q_EMIT gradients->cellClicked(0, 0);
  EXPECT_NE(workspace.selection().node, ir::kNone);
}

TEST_F(PanelsTest, AClickOnARowOfWhatFitsSetsAndCompilesIt) {
  workspace.open(SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2");
  ASSERT_TRUE(idle());
  PlanPanel panel(workspace);
  look(panel, "plan-empty", {720, 240});
  grab(panel, QSize(60, 40));
  ASSERT_TRUE(panel.view().set("device", "CPU-24"));
  ASSERT_TRUE(panel.view().set("gpus", "2"));
  ASSERT_TRUE(panel.view().set("want", "table"));
  panel.findChild<QPushButton*>(QStringLiteral("primary"))->click();
  ASSERT_TRUE(idle());
  ASSERT_FALSE(panel.view().error()) << panel.view().error()->format();
  auto* table = panel.findChild<QTableWidget*>();
  ASSERT_EQ(table->rowCount(), static_cast<int>(panel.view().outcome()->rows.size()));
  EXPECT_EQ(table->horizontalHeaderItem(0)->text(), QStringLiteral("sp x dp"));
  look(panel, "plan", {720, 240});
  int row = -1;
  for (std::size_t i = 0; i < panel.view().outcome()->rows.size(); ++i)
    if (const auto& r = panel.view().outcome()->rows[i]; !r.illegal && r.configuration.sp == 2 && r.configuration.save == "all" && r.configuration.zero == 1) row = static_cast<int>(i);
  ASSERT_GE(row, 0);
  const std::int64_t peak = panel.view().outcome()->rows[static_cast<std::size_t>(row)].footprint.compiled_peak;
  table->scrollToItem(table->item(row, 0));
  click(*table->viewport(), table->visualItemRect(table->item(row, 0)).center());
  ASSERT_TRUE(idle());
  ASSERT_TRUE(workspace.compiled());
  EXPECT_EQ(workspace.settings().compile.save, "all");
  EXPECT_EQ(workspace.settings().compile.zero, 1);
  EXPECT_EQ(workspace.compiled()->figures.memory.peak, peak);
  EXPECT_EQ(table->currentRow(), row);
}

/// A field that loses the keyboard says what it holds, also when the panel that listens is half gone.
TEST_F(PanelsTest, AFieldWithTheKeyboardGoesWithItsPanel) {
  compileModel();
  const auto typeAndGo = [&](std::unique_ptr<QWidget> panel, const char* field, const char* text) {
    auto* box = panel->findChild<QComboBox*>(QLatin1String(field));
    ASSERT_NE(box, nullptr) << field;
    panel->show();
    panel->activateWindow();
    box->lineEdit()->setFocus();
    ASSERT_TRUE(until([&] { return box->lineEdit()->hasFocus(); })) << field;
    box->lineEdit()->setText(QLatin1String(text));
    panel.reset();
  };
  typeAndGo(std::make_unique<PlanPanel>(workspace), "plan-gpus", "none");
  typeAndGo(std::make_unique<RunPanel>(workspace), "steps", "none");
  EXPECT_NE(workspace.settings().run.steps, 7);
  typeAndGo(std::make_unique<RunPanel>(workspace), "steps", "7");
  EXPECT_EQ(workspace.settings().run.steps, 7) << "what was typed is taken";
}

TEST_F(PanelsTest, AFailureIsShownWhereItArose) {
  compileModel();
  RunPanel panel(workspace);
  ASSERT_TRUE(workspace.set("ranks", "virtual"));
  ASSERT_TRUE(workspace.set("inputs", "/nonexistent.safetensors"));
  workspace.run();
  ASSERT_TRUE(idle());
  auto* failure = panel.findChild<QTextBrowser*>();
  panel.show();
  EXPECT_TRUE(failure->isVisible());
  EXPECT_TRUE(failure->toPlainText().contains(QStringLiteral("nonexistent")));
  look(panel, "run-failed", {1000, 340});
}

}  // namespace
}  // namespace spscope::ui
