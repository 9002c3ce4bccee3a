// SPDX-License-Identifier: Apache-2.0
// What the selected node reads and makes, as it is now on the ranks that are debugged; one value closely. Draws only; the models are
// ui/model/debug/node_look.h and look_page.h.
#pragma once

#include <QWidget>

#include "ui/model/debug/look_page.h"
#include "ui/model/workspace.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QTableWidget;
class QTextBrowser;

namespace spscope::ui {

class ValuePicture;

class ValuesPanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  explicit ValuesPanel(Workspace& workspace, QWidget* parent = nullptr);
  ~ValuesPanel() override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void fill();
  void fillRanks();

  Workspace& workspace_;
  int listener_ = 0;
  InspectorPage page_;
  QLabel *title_, *subtitle_;
  QComboBox* rank_;
  QCheckBox* compare_;
  QTableWidget* values_;
  ValuePicture* picture_;
  QLineEdit* window_;
  QTextBrowser* text_;
  QWidget* close_;  ///< what is about one value
};

/// Why the selected node is as it is.
class WhyPanel final : public QWidget {
 public:
  explicit WhyPanel(Workspace& workspace, QWidget* parent = nullptr);
  ~WhyPanel() override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void fill();

  Workspace& workspace_;
  int listener_ = 0;
  QLabel* title_;
  QTextBrowser* text_;
};

}  // namespace spscope::ui
