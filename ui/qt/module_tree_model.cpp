// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/module_tree_model.h"

#include "ui/qt/qt_theme.h"

namespace spscope::ui {

void ModuleTreeModel::setSource(std::shared_ptr<const GraphSource> source) {
  beginResetModel();
  source_ = std::move(source);
  row_of_.clear();
  if (source_) {
    row_of_.assign(source_->tree->modules().size(), 0);
    for (const Module& m : source_->tree->modules())
      for (std::size_t i = 0; i < m.children.size(); ++i) row_of_[static_cast<std::size_t>(m.children[i])] = static_cast<int>(i);
  }
  endResetModel();
}

ModuleIndex ModuleTreeModel::moduleOf(const QModelIndex& index) const { return index.isValid() ? static_cast<ModuleIndex>(index.internalId()) : 0; }

QModelIndex ModuleTreeModel::indexOf(ModuleIndex module) const {
  if (!source_ || module <= 0) return {};
  return createIndex(row_of_[static_cast<std::size_t>(module)], 0, static_cast<quintptr>(module));
}

QModelIndex ModuleTreeModel::index(int row, int column, const QModelIndex& parent) const {
  if (!source_ || row < 0 || column < 0 || column >= 2 || parent.column() > 0) return {};
  const Module& m = source_->tree->at(moduleOf(parent));
  if (static_cast<std::size_t>(row) >= m.children.size()) return {};
  return createIndex(row, column, static_cast<quintptr>(m.children[static_cast<std::size_t>(row)]));
}

QModelIndex ModuleTreeModel::parent(const QModelIndex& child) const {
  if (!source_ || !child.isValid()) return {};
  return indexOf(source_->tree->at(moduleOf(child)).parent);
}

int ModuleTreeModel::rowCount(const QModelIndex& parent) const {
  if (!source_ || parent.column() > 0) return 0;
  return static_cast<int>(source_->tree->at(moduleOf(parent)).children.size());
}

int ModuleTreeModel::columnCount(const QModelIndex&) const { return 2; }

QVariant ModuleTreeModel::data(const QModelIndex& index, int role) const {
  if (!source_ || !index.isValid()) return {};
  const ModuleRow row = moduleRow(*source_, moduleOf(index));
  switch (role) {
    case Qt::DisplayRole: return toQt(index.column() == 0 ? row.label : row.detail);
    case Qt::ToolTipRole: return toQt(row.tip);
    case Qt::AccessibleTextRole: return toQt(row.label + ", " + row.detail);
    case Qt::ForegroundRole: return index.column() == 1 ? QVariant(tone(row.changed ? Tone::kChanged : Tone::kSecondary)) : QVariant();
    case Qt::FontRole: return index.column() == 1 ? QVariant(smallFont()) : QVariant();
    case Qt::TextAlignmentRole: return index.column() == 1 ? QVariant(Qt::AlignRight | Qt::AlignVCenter) : QVariant();
    default: return {};
  }
}

QVariant ModuleTreeModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section == 0 ? QStringLiteral("module") : QString();
}

}  // namespace spscope::ui
