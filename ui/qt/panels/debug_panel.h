// SPDX-License-Identifier: Apache-2.0
// Where every rank stands, and the breakpoints with what they wait for and how often that was met. Draws only; the model is
// ui/model/debug/debug_session.h.
#pragma once

#include <QWidget>

#include "ui/model/debug/debug_session.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QTableWidget;

namespace spscope::ui {

class DebugPanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  explicit DebugPanel(Workspace& workspace, QWidget* parent = nullptr);
  ~DebugPanel() override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  QWidget* makeRanks();
  QWidget* makeBreakpoints();
  void fill();
  void fillRanks();
  void fillBreakpoints();
  void addTyped();
  void cellChanged(int row, int column);
  void refuse(const Status& status);

  Workspace& workspace_;
  int listener_ = 0;
  QTableWidget *ranks_ = nullptr, *breakpoints_ = nullptr;
  QLabel *ranks_absent_ = nullptr, *breakpoints_absent_ = nullptr, *refusal_ = nullptr;
  QLineEdit* where_ = nullptr;
  QComboBox* when_ = nullptr;
  QPushButton* remove_ = nullptr;
  bool filling_ = false;
};

}  // namespace spscope::ui
