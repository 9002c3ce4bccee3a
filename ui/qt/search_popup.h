// SPDX-License-Identifier: Apache-2.0
// Ctrl+K: finds nodes by name, op, argument, shape, placement, module or source line, and goes to them.
#pragma once

#include <QFrame>

#include "ui/model/graph_document.h"

class QLabel;
class QLineEdit;
class QListWidget;

namespace spscope::ui {

class SearchPopup : public QFrame {
 public:
  SearchPopup(Workspace& workspace, GraphDocument& graph, QWidget* parent);
  void open(const QString& query = {});
  int found() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void refresh();
  void accept();
  void place();

  Workspace& workspace_;
  GraphDocument& graph_;
  QLineEdit* query_;
  QListWidget* hits_;
  QLabel* count_;
  std::vector<SearchHit> found_;
};

}  // namespace spscope::ui
