// SPDX-License-Identifier: Apache-2.0
// A line for any command of `spscope debug`, with history (up, down) and completion (Tab), and the answers above it. Draws only.
#pragma once

#include <QWidget>

#include "ui/model/debug/debug_session.h"
#include "ui/model/debug/line_history.h"

class QCompleter;
class QLineEdit;
class QStringListModel;
class QTextBrowser;

namespace spscope::ui {

class ConsolePanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  explicit ConsolePanel(Workspace& workspace, QWidget* parent = nullptr);
  ~ConsolePanel() override;

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void fill();
  void complete();

  Workspace& workspace_;
  int listener_ = 0;
  LineHistory history_;
  QTextBrowser* text_;
  QLineEdit* line_;
  QStringListModel* words_;
  QCompleter* completer_;
};

}  // namespace spscope::ui
