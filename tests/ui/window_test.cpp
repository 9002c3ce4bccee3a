// SPDX-License-Identifier: Apache-2.0
// The window on the platform `offscreen` (and under Xvfb: the same program): what a user does from the start page to the profile
// of a run, with mouse and keyboard. Waits for conditions, never for a time.
#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QComboBox>
#include <QLineEdit>
#include <QMimeData>
#include <QDropEvent>
#include <QPushButton>
#include <QTest>
#include <QWheelEvent>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ui/qt/graph_view.h"
#include "ui/qt/log_panel.h"
#include "ui/qt/main_window.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/search_popup.h"
#include "ui/qt/settings_bar.h"
#include "ui/qt/stage_strip_view.h"

namespace spscope::ui {
namespace {

const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/data/zoo/nanogpt.pt2";
constexpr int kLimit = 90'000;  // of a loaded machine; what is waited for comes much earlier

/// Processes whose parent is this one: the ranks.
std::vector<pid_t> rankProcesses() {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "stat");
    std::stringstream whole;
    whole << in.rdbuf();
    const std::string text = whole.str();
    const std::size_t name = text.rfind(')');
    if (name == std::string::npos) continue;
    std::istringstream rest(text.substr(name + 1));
    char state = 0;
    long parent = 0;
    rest >> state >> parent;
    if (parent == ::getpid() && state != 'Z') out.push_back(std::stoi(entry.path().filename().string()));
  }
  return out;
}

int children() { return static_cast<int>(rankProcesses().size()); }

class WindowTest : public testing::Test {
 protected:
  std::string folder = testing::TempDir() + "window-test-XXXXXX";
  std::unique_ptr<WindowModel> model;
  std::unique_ptr<MainWindow> window;

  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    make(false);
  }
  void TearDown() override {
    window.reset();
    model.reset();
    std::filesystem::remove_all(folder);
  }
  void make(bool restore) {
    window.reset();
    model = std::make_unique<WindowModel>();
    WindowOptions options;
    options.session_path = folder + "/session";
    options.restore = restore;
    options.samples = {kModel};
    options.profile_path = folder + "/run.sptrace";
    window = std::make_unique<MainWindow>(*model, std::move(options));
    window->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(window.get(), kLimit));
  }
  Workspace& workspace() { return model->workspace; }
  testing::AssertionResult waitFor(const std::function<bool()>& condition) {
    if (QTest::qWaitFor(condition, kLimit)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "waited in vain";
  }
  bool idle() { return !workspace().jobs().busy(); }
  void openModel() {
    window->openFiles({kModel});
    ASSERT_TRUE(waitFor([&] { return idle() && model->graph.scene() != nullptr; }));
  }
  void clickBox(std::int32_t box, bool twice = false) {
    const QPoint place = window->graphView().boxOnScreen(box).topLeft().toPoint() + QPoint(8, 6);
    if (twice) QTest::mouseDClick(&window->graphView(), Qt::LeftButton, {}, place);
    else QTest::mouseClick(&window->graphView(), Qt::LeftButton, {}, place);
  }
  std::int32_t boxOfKind(SceneBox::Kind kind) {
    const GraphDrawing& scene = model->graph.scene()->scene();
    const QRectF room(window->graphView().rect());
    for (std::size_t i = 0; i < scene.boxes.size(); ++i)
      if (scene.boxes[i].kind == kind && room.contains(window->graphView().boxOnScreen(static_cast<std::int32_t>(i)).adjusted(0, 0, -1, -1))) return static_cast<std::int32_t>(i);
    return -1;
  }
};

TEST_F(WindowTest, FourClicksFromTheStartPageToAProfiledRun) {
  // One: the sample.
  QPushButton* sample = nullptr;
  for (QPushButton* b : window->findChildren<QPushButton*>())
    if (b->accessibleName() == QStringLiteral("Open nanogpt.pt2")) sample = b;
  ASSERT_NE(sample, nullptr);
  QTest::mouseClick(sample, Qt::LeftButton);
  ASSERT_TRUE(waitFor([&] { return workspace().model() && model->graph.scene() != nullptr && idle(); }));
  // Two: compile.
  QPushButton* compile = nullptr;
  QPushButton* run = nullptr;
  for (QPushButton* b : window->settingsBar().findChildren<QPushButton*>()) {
    if (b->text() == QStringLiteral("Compile")) compile = b;
    if (b->text() == QStringLiteral("Run")) run = b;
  }
  ASSERT_TRUE(compile != nullptr && run != nullptr);
  QTest::mouseClick(compile, Qt::LeftButton);
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
  QTest::mouseClick(run, Qt::LeftButton);
  EXPECT_TRUE(workspace().runProgress().running);
  ASSERT_TRUE(waitFor([&] { return idle(); }));
  ASSERT_FALSE(workspace().runProgress().error) << workspace().runProgress().error->format();
  EXPECT_EQ(workspace().runProgress().steps.size(), 2u);
  ASSERT_TRUE(workspace().trace());
  EXPECT_EQ(workspace().trace()->trace.ranks.size(), 2u);
  EXPECT_EQ(children(), 0);
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
  for (QPushButton* button : window->findChildren<QPushButton*>())
    if (button->isVisible()) EXPECT_FALSE(button->accessibleName().isEmpty() && button->text().isEmpty()) << button->objectName().toStdString();
  for (QComboBox* box : window->settingsBar().findChildren<QComboBox*>()) EXPECT_FALSE(box->accessibleName().isEmpty());
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
