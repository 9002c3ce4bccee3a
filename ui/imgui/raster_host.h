// SPDX-License-Identifier: Apache-2.0
// Shows an ImguiCore in a plain widget, painted on the CPU. Frames are made when something was asked for, never in a loop,
// and only what changed is shown anew.
#pragma once

#include <QImage>
#include <QWidget>

#include "ui/imgui/imgui_core.h"
#include "ui/imgui/raster.h"

namespace spscope::ui {

class RasterHost : public QWidget {
 public:
  explicit RasterHost(ImguiCore& core, QWidget* parent = nullptr);
  ~RasterHost() override;

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  void schedule();
  void makeFrame();

  ImguiCore& core_;
  Raster raster_;
  QImage image_;
  bool scheduled_ = false, stale_ = true;
};

}  // namespace spscope::ui
