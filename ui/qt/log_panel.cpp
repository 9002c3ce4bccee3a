// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/log_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QMenu>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

enum Column { kSeverity, kSource, kCode, kMessage, kNode, kPlace, kColumns };

bool sameEntry(const LogEntry& a, const LogEntry& b) { return a.source == b.source && a.code == b.code && a.message == b.message && a.node == b.node; }

}  // namespace

LogModel::LogModel(Workspace& workspace, QObject* parent) : QAbstractTableModel(parent), workspace_(workspace), shown_(workspace.logEntries()) {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic != Topic::kLog) return;
    const std::vector<LogEntry>& now = workspace_.logEntries();
    if (now.size() > shown_.size() && (shown_.empty() || sameEntry(now[shown_.size() - 1], shown_.back()))) {
      beginInsertRows({}, static_cast<int>(shown_.size()), static_cast<int>(now.size()) - 1);
      shown_.insert(shown_.end(), now.begin() + static_cast<std::ptrdiff_t>(shown_.size()), now.end());
      endInsertRows();
    } else {  // old ones were dropped
      beginResetModel();
      shown_ = now;
      endResetModel();
    }
  });
}

LogModel::~LogModel() { workspace_.unlisten(listener_); }

int LogModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(shown_.size()); }
int LogModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : kColumns; }

QVariant LogModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= static_cast<int>(shown_.size())) return {};
  const LogEntry& e = shown_[static_cast<std::size_t>(index.row())];
  if (role == Qt::ForegroundRole) {
    if (index.column() == kSeverity) return tone(e.severity == Severity::kError ? Tone::kBad : e.severity == Severity::kWarning ? Tone::kWarning : Tone::kSecondary);
    if (index.column() != kMessage) return tone(Tone::kSecondary);
    return {};
  }
  if (role == Qt::ToolTipRole) return toQt(e.message + (e.remedy.empty() ? "" : "\n" + e.remedy));
  if (role != Qt::DisplayRole && role != Qt::AccessibleTextRole) return {};
  switch (index.column()) {
    case kSeverity: return e.severity == Severity::kError ? QStringLiteral("error") : e.severity == Severity::kWarning ? QStringLiteral("warning") : QStringLiteral("note");
    case kSource: return toQt(e.source);
    case kCode: return toQt(e.code);
    case kMessage: return toQt(e.remedy.empty() ? e.message : e.message + "  \u2192 " + e.remedy);
    case kNode: return toQt(e.node);
    case kPlace: return toQt(e.place);
    default: return {};
  }
}

QVariant LogModel::headerData(int section, Qt::Orientation orientation, int role) const {
  static const char* const names[] = {"", "from", "code", "message", "node", "source"};
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole || section < 0 || section >= kColumns) return {};
  return QString::fromLatin1(names[section]);
}

LogPanel::LogPanel(Workspace& workspace, std::function<void(const std::string&)> select_node, QWidget* parent) : QWidget(parent), model_(new LogModel(workspace, this)), table_(new QTableView) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(table_);
  table_->setModel(model_);
  table_->setAccessibleName(QStringLiteral("Log"));
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setShowGrid(false);
  table_->setWordWrap(false);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(22);
  table_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  const int widths[] = {70, 70, 170, 600, 150, 180};
  for (int c = 0; c < kColumns; ++c) table_->setColumnWidth(c, widths[c]);
  table_->horizontalHeader()->setSectionResizeMode(kMessage, QHeaderView::Stretch);
  connect(table_, &QTableView::doubleClicked, this, [this, select_node](const QModelIndex& index) {
    const QString node = model_->data(model_->index(index.row(), kNode), Qt::DisplayRole).toString();
    if (!node.isEmpty()) select_node(node.toStdString());
  });
  table_->setContextMenuPolicy(Qt::ActionsContextMenu);
  auto* copy = new QAction(QStringLiteral("Copy"), table_);
  copy->setShortcut(QKeySequence::Copy);
  copy->setShortcutContext(Qt::WidgetShortcut);
  connect(copy, &QAction::triggered, this, [this] {
    QStringList lines;
    for (const QModelIndex& row : table_->selectionModel()->selectedRows()) {
      QStringList cells;
      for (int c = 0; c < kColumns; ++c) cells << model_->data(model_->index(row.row(), c), Qt::DisplayRole).toString();
      lines << cells.join(QLatin1Char('\t'));
    }
    QApplication::clipboard()->setText(lines.join(QLatin1Char('\n')));
  });
  table_->addAction(copy);
  connect(model_, &QAbstractItemModel::rowsInserted, table_, [this] { table_->scrollToBottom(); });
}

}  // namespace spscope::ui
