// SPDX-License-Identifier: Apache-2.0
// The inspector's page as text that can be selected; names of nodes and values are links. Draws only.
#pragma once

#include <QWidget>

#include "ui/model/inspector.h"

class QLabel;
class QPushButton;
class QTextBrowser;

namespace spscope::ui {

class InspectorPanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  InspectorPanel(Workspace& workspace, QWidget* parent = nullptr);
  /// "%linear_3", for the dock's title.
  QString headline() const;
  /// All of the page, to the clipboard.
  void copy() const;
  /// In the configured editor; what goes wrong is logged.
  void openSource();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void fill();

  Workspace& workspace_;
  Inspector inspector_;
  QLabel* title_ = nullptr;
  QLabel* subtitle_ = nullptr;
  QPushButton* copy_ = nullptr;
  QPushButton* open_ = nullptr;
  QTextBrowser* text_ = nullptr;
};

}  // namespace spscope::ui
