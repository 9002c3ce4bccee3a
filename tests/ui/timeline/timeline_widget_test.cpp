// SPDX-License-Identifier: Apache-2.0
// The timeline as a widget, on the platform offscreen: it paints, a click on an event chooses its node everywhere, what is
// chosen elsewhere is shown, keys and wheel move it, and it rests when nothing happens.
#include "ui/imgui/timeline_widget.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QImage>
#include <QTemporaryDir>
#include <QTest>
#include <QWheelEvent>
#include <set>
#include <utility>

#include "profiler/store/store.h"
#include "tests/support/trace_builder.h"

namespace spscope::ui {
namespace {

using trace::test::TraceBuilder;

QApplication& application() {
  static int argc = 1;
  static char name[] = "test";
  static char* argv[] = {name, nullptr};
  static QApplication* app = [] {
    if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    return new QApplication(argc, argv);
  }();
  return *app;
}

/// Four ranks with a graph of two nodes, exchanges in which rank 3 comes late, memory.
trace::Trace fourRanks() {
  TraceBuilder b;
  const auto mm = b.node("%mm_1", "aten.mm.default", "layers.0.mlp"), sdpa = b.node("%sdpa_2", "aten._scaled_dot_product_attention.default", "layers.0.attn");
  b.trace.nodes[0].id = 41, b.trace.nodes[1].id = 42;
  for (int r = 0; r < 4; ++r) {
    b.rank(r);
    for (int i = 0; i < 4; ++i) {
      const double at = 1000.0 * i;
      b.op(r, "aten.mm.default", at, at + 200, 1, mm);
      b.exchange(r, i, at + (r == 3 ? 400 : 200), at + 450, at + 600, 1 << 20, 4);
      b.op(r, "aten._scaled_dot_product_attention.default", at + 600, at + 950, 1, sdpa);
      b.memory(r, at + 1, 1 << 20), b.memory(r, at + 700, -(1 << 19));
    }
  }
  return std::move(b.trace);
}

class TimelineWidgetTest : public testing::Test {
 protected:
  TimelineWidgetTest() { application(); }
  void SetUp() override {
    file_ = folder_.filePath(QStringLiteral("four.sqlite")).toStdString();
    ASSERT_TRUE(trace::writeStore(fourRanks(), file_));
  }
  /// Events are handled until it holds; false after 20 s.
  template <typename F>
  static bool until(F&& condition) {
    return QTest::qWaitFor(condition, 20000);
  }
  Post post() {
    return [](std::function<void()> f) { QMetaObject::invokeMethod(&application(), std::move(f), Qt::QueuedConnection); };
  }
  void open(Workspace& workspace, TimelineWidget& widget) {
    widget.resize(1200, 640);
    widget.show();
    workspace.openTraces({file_});
    ASSERT_TRUE(until([&] { return workspace.trace() || workspace.traceError(); }));
    ASSERT_TRUE(workspace.trace()) << workspace.traceError()->format();
    ASSERT_TRUE(until([&] { return !widget.eventRect(0).isEmpty(); }));
  }
  QTemporaryDir folder_;
  std::string file_;
};

std::size_t coloursOf(const QImage& image) {
  std::set<QRgb> seen;
  for (int y = 0; y < image.height(); y += 2)
    for (int x = 0; x < image.width(); x += 2) seen.insert(image.pixel(x, y));
  return seen.size();
}

TEST_F(TimelineWidgetTest, WithoutATraceItSaysWhatToDo) {
  Workspace workspace(post());
  TimelineWidget widget(workspace);
  widget.resize(600, 200);
  widget.show();
  ASSERT_TRUE(until([&] { return widget.frames() > 0; }));
  EXPECT_GT(coloursOf(widget.grab().toImage()), 2u) << "a text is there";
  EXPECT_TRUE(widget.summary().isEmpty());
  EXPECT_TRUE(widget.eventRect(0).isEmpty());
}

TEST_F(TimelineWidgetTest, AClickOnAnEventChoosesItsNodeEverywhere) {
  Workspace workspace(post());
  TimelineWidget widget(workspace);
  ASSERT_NO_FATAL_FAILURE(open(workspace, widget));
  const auto& t = workspace.trace()->trace;
  int event = -1;
  for (std::size_t i = 0; i < t.events.size(); ++i)
    if (t.events.node[i] != trace::kNoIndex && t.nodes[static_cast<std::size_t>(t.events.node[i])].id == 42 && t.tracks[static_cast<std::size_t>(t.events.track[i])].rank == 2) event = static_cast<int>(i);
  ASSERT_GE(event, 0);
  const QRect rect = widget.eventRect(event);
  ASSERT_FALSE(rect.isEmpty());
  const QImage before = widget.grab().toImage();
  EXPECT_GT(coloursOf(before), 12u);
  // Press and release between two frames: neither is lost.
  QTest::mouseClick(widget.childAt(rect.center()), Qt::LeftButton, {}, widget.childAt(rect.center())->mapFrom(&widget, rect.center()));
  ASSERT_TRUE(until([&] { return workspace.selection().event == event; }));
  EXPECT_EQ(workspace.selection().node, 42);
  EXPECT_EQ(workspace.selection().rank, 2);
  const int frames = widget.frames();
  ASSERT_TRUE(until([&] { return widget.frames() > frames || widget.grab().toImage() != before; }));
  EXPECT_NE(widget.grab().toImage(), before) << "the choice is seen";
}

TEST_F(TimelineWidgetTest, WhatIsChosenElsewhereIsShown) {
  Workspace workspace(post());
  TimelineWidget widget(workspace);
  ASSERT_NO_FATAL_FAILURE(open(workspace, widget));
  Selection selection;
  selection.node = 41;
  workspace.select(selection);
  ASSERT_TRUE(until([&] { return widget.model().chosen().node == 41; }));
  selection = {};
  selection.event = 5;
  workspace.select(selection);
  ASSERT_TRUE(until([&] { return widget.model().chosen().event == 5; }));
  workspace.back();
  ASSERT_TRUE(until([&] { return widget.model().chosen().event == -1 && widget.model().chosen().node == 41; }));
}

TEST_F(TimelineWidgetTest, WheelKeysAndSearch) {
  Workspace workspace(post());
  TimelineWidget widget(workspace);
  ASSERT_NO_FATAL_FAILURE(open(workspace, widget));
  QWidget* host = widget.focusProxy();
  const double fit = widget.model().view().ns_per_px;
  const QPointF at(700, 300);
  QWheelEvent wheel(at, host->mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
  QApplication::sendEvent(host, &wheel);
  ASSERT_TRUE(until([&] { return widget.model().view().ns_per_px < fit; }));
  QTest::keyClick(host, Qt::Key_F);
  ASSERT_TRUE(until([&] { return widget.model().view().ns_per_px == fit; }));
  const double start = widget.model().view().start_ns;
  QTest::keyClick(host, Qt::Key_W);
  QTest::keyClick(host, Qt::Key_D);
  ASSERT_TRUE(until([&] { return widget.model().view().start_ns > start && widget.model().view().ns_per_px < fit; }));
  widget.focusSearch();
  const int frames = widget.frames();
  ASSERT_TRUE(until([&] { return widget.frames() > frames + 1; }));
  QTest::keyClicks(host, QStringLiteral("layers.0.attn"));
  ASSERT_TRUE(until([&] { return widget.model().matches().size() == 16; }));
  QTest::keyClick(host, Qt::Key_Return);
  ASSERT_TRUE(until([&] { return workspace.selection().node == 42; }));
}

TEST_F(TimelineWidgetTest, TwoTracesAndALightPalette) {
  Workspace workspace(post());
  TimelineWidget widget(workspace);
  ASSERT_NO_FATAL_FAILURE(open(workspace, widget));
  workspace.openTracesBeside({file_});
  ASSERT_TRUE(until([&] { return widget.model().boxOf(1, 0).has_value(); }));
  QPalette light;
  light.setColor(QPalette::Window, Qt::white);
  widget.setPalette(light);
  const int frames = widget.frames();
  ASSERT_TRUE(until([&] { return widget.frames() > frames; }));
  EXPECT_GT(qGray(widget.grab().toImage().pixel(3, widget.height() - 40)), 200);
  workspace.closeTraceBeside();
  EXPECT_EQ(widget.model().shown().size(), 1u);
}

TEST_F(TimelineWidgetTest, RestsWhenNothingHappens) {
  Workspace workspace(post());
  TimelineWidget widget(workspace);
  ASSERT_NO_FATAL_FAILURE(open(workspace, widget));
  // Until a whole pass of the event queue brings no frame.
  int before = -1;
  ASSERT_TRUE(until([&] { return std::exchange(before, widget.frames()) == widget.frames() && !workspace.jobs().busy(); }));
  const int settled = widget.frames();
  for (int i = 0; i < 200; ++i) application().processEvents();
  EXPECT_EQ(widget.frames(), settled);
}

}  // namespace
}  // namespace spscope::ui
