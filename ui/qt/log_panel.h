// SPDX-License-Identifier: Apache-2.0
// The log: what was said while opening, compiling, verifying and running, with code, place and remedy. Double click selects the
// node that an entry names.
#pragma once

#include <QAbstractTableModel>
#include <QWidget>

#include "ui/model/workspace.h"

class QTableView;

namespace spscope::ui {

class LogModel : public QAbstractTableModel {
 public:
  explicit LogModel(Workspace& workspace, QObject* parent = nullptr);
  ~LogModel() override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  Workspace& workspace_;
  std::vector<LogEntry> shown_;  ///< a copy, so that rows and model agree at any time
  int listener_ = 0;
};

class LogPanel : public QWidget {
 public:
  LogPanel(Workspace& workspace, std::function<void(const std::string&)> select_node, QWidget* parent = nullptr);

 private:
  LogModel* model_;
  QTableView* table_;
};

}  // namespace spscope::ui
