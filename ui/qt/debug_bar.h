// SPDX-License-Identifier: Apache-2.0
// The tool bar of the debugger, in sight while something is debugged: its actions, and where the ranks stand.
#pragma once

#include <QFrame>
#include <vector>

#include "ui/model/debug/debug_session.h"

class QAction;
class QLabel;

namespace spscope::ui {

class DebugBar : public QFrame {
 public:
  /// Groups of actions, with a gap between them.
  DebugBar(Workspace& workspace, const std::vector<std::vector<QAction*>>& groups, QWidget* parent = nullptr);
  ~DebugBar() override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();

  Workspace& workspace_;
  int listener_ = 0;
  QLabel* state_;
};

}  // namespace spscope::ui
