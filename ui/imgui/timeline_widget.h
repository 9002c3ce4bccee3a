// SPDX-License-Identifier: Apache-2.0
// The timeline as a Qt widget: shows the workspace's trace, and the one beside it below, takes part in the one selection. Chooses between OpenGL and the
// CPU by what the machine has (environment SPSCOPE_TIMELINE=raster or gl insists).
#pragma once

#include <QRect>
#include <QString>
#include <QWidget>
#include <memory>

#include "ui/model/timeline/timeline_model.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

class TimelineWidget : public QWidget {
 public:
  explicit TimelineWidget(Workspace& workspace, QWidget* parent = nullptr);
  ~TimelineWidget() override;

  /// For actions and tests; call refresh() after a change.
  TimelineModel& model() { return model_; }
  void refresh();
  /// The keyboard goes to the search field.
  void focusSearch();
  /// Where an event of the workspace's trace is drawn, in this widget's coordinates; empty: not in sight, or not painted yet.
  QRect eventRect(int event) const;
  /// How many frames were built: 0 before the first.
  int frames() const { return frames_; }
  bool usesGl() const { return uses_gl_; }
  /// "4 ranks · overlap 71 % ...": for a panel's header; "" without a trace.
  QString summary() const;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Imgui;
  void showTraces();
  void followSelection();
  void chosen(int source, int event);
  void applyTheme();

  Workspace& workspace_;
  TimelineModel model_;
  std::shared_ptr<const TraceDocument> trace_, beside_;
  std::unique_ptr<Imgui> imgui_;
  QWidget* host_ = nullptr;
  int listener_ = 0, frames_ = 0;
  bool uses_gl_ = false;
};

}  // namespace spscope::ui
