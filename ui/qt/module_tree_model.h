// SPDX-License-Identifier: Apache-2.0
// The module tree of the shown graph for a QTreeView: name, and what there is to say (parameters, equal layers, changes).
#pragma once

#include <QAbstractItemModel>
#include <memory>
#include <vector>

#include "ui/model/graph/graph_source.h"

namespace spscope::ui {

class ModuleTreeModel : public QAbstractItemModel {
 public:
  using QAbstractItemModel::QAbstractItemModel;
  /// Null: empty.
  void setSource(std::shared_ptr<const GraphSource> source);
  ModuleIndex moduleOf(const QModelIndex& index) const;
  QModelIndex indexOf(ModuleIndex module) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& child) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::shared_ptr<const GraphSource> source_;
  std::vector<int> row_of_;  ///< by module: its place among its siblings
};

}  // namespace spscope::ui
