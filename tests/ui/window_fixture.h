// SPDX-License-Identifier: Apache-2.0
// A window with its model, for tests: on the platform `offscreen` and under Xvfb the same. Waits for conditions, never for a time.
#pragma once

#include <gtest/gtest.h>

#include <QPushButton>
#include <QTest>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "ui/qt/graph_view.h"
#include "ui/qt/main_window.h"
#include "ui/qt/settings_bar.h"
#include "ui/qt/stage_strip_view.h"
#ifdef SPSCOPE_HAVE_TIMELINE
#include "tests/support/temp_folder.h"
#include "ui/imgui/timeline_widget.h"
#endif

namespace spscope::ui {

inline const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/data/zoo/nanogpt.pt2";
constexpr int kLimit = 90'000;  // of a loaded machine; what is waited for comes much earlier

/// Processes whose parent is this one: the ranks.
inline std::vector<pid_t> rankProcesses() {
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

inline int children() { return static_cast<int>(rankProcesses().size()); }

class WindowTest : public testing::Test {
 protected:
  const TempFolder temporary;
  const std::string& folder = temporary.path();
  std::unique_ptr<WindowModel> model;
  std::unique_ptr<MainWindow> window;
#ifdef SPSCOPE_HAVE_TIMELINE
  TimelineWidget* timeline = nullptr;
#endif

  void SetUp() override { make(false); }
  void TearDown() override {
    window.reset();
    model.reset();
  }
  void make(bool restore) {
    window.reset();
    model = std::make_unique<WindowModel>();
    WindowOptions options;
    options.session_path = folder + "/session";
    options.restore = restore;
    options.samples = {kModel};
    options.profile_path = folder + "/run.sptrace";
#ifdef SPSCOPE_HAVE_TIMELINE
    options.make_timeline = [this](Workspace& w, QWidget* parent) -> QWidget* { return timeline = new TimelineWidget(w, parent); };
#endif
    window = std::make_unique<MainWindow>(*model, std::move(options));
    window->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(window.get(), kLimit));
  }
  Workspace& workspace() { return model->workspace; }
  /// Widgets of a class without Q_OBJECT: for such a one, findChildren() would give those of its base.
  template <typename T>
  std::vector<T*> all() {
    std::vector<T*> out;
    for (QWidget* w : window->findChildren<QWidget*>())
      if (auto* t = dynamic_cast<T*>(w)) out.push_back(t);
    return out;
  }
  QPushButton* button(const QString& text) {
    for (QPushButton* b : window->settingsBar().findChildren<QPushButton*>())
      if (b->text() == text) return b;
    return nullptr;
  }
  testing::AssertionResult waitFor(const std::function<bool()>& condition) {
    if (QTest::qWaitFor(condition, kLimit)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "waited in vain";
  }
  bool idle() { return !workspace().jobs().busy(); }
  void openModel(const std::string& path = kModel) {
    window->openFiles({path});
    ASSERT_TRUE(waitFor([&] { return idle() && model->graph.scene() != nullptr; }));
  }
  void clickBox(std::int32_t box, bool twice = false) {
    const QPoint place = window->graphView().boxOnScreen(box).topLeft().toPoint() + QPoint(8, 6);
    if (twice) QTest::mouseDClick(&window->graphView(), Qt::LeftButton, {}, place);
    else QTest::mouseClick(&window->graphView(), Qt::LeftButton, {}, place);
  }
  std::int32_t boxOfKind(SceneBox::Kind kind) {
    const GraphDrawing& scene = model->graph.scene()->scene();
    const QRectF room = window->graphView().room();
    for (std::size_t i = 0; i < scene.boxes.size(); ++i)
      if (scene.boxes[i].kind == kind && room.contains(window->graphView().boxOnScreen(static_cast<std::int32_t>(i)).adjusted(0, 0, -1, -1))) return static_cast<std::int32_t>(i);
    return -1;
  }
};

}  // namespace spscope::ui
