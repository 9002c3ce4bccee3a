// SPDX-License-Identifier: Apache-2.0
// Shows an ImguiCore through OpenGL. Not to be shown on the platforms offscreen, minimal and vnc, where Qt 6.4 crashes, nor
// where GL is software: there raster_host.h is cheaper.
#pragma once

#include <QOpenGLWidget>

#include "ui/imgui/imgui_core.h"

namespace spscope::ui {

class GlHost : public QOpenGLWidget {
 public:
  explicit GlHost(ImguiCore& core, QWidget* parent = nullptr);
  ~GlHost() override;
  /// Whether this platform has a GL that is worth using; asks it once.
  static bool worthwhile();

 protected:
  void initializeGL() override;
  void paintGL() override;
  bool event(QEvent* event) override;

 private:
  void release();

  ImguiCore& core_;
  bool ready_ = false, drawn_ = false;
};

}  // namespace spscope::ui
