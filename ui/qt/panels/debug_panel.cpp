// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/debug_panel.h"

#include <QAction>
#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSplitter>
#include <QTableWidget>
#include <QVBoxLayout>

#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {
namespace {

namespace dbg = session::debug;

enum RankColumn { kRank, kNode, kOp, kPhase, kWaits, kRankColumns };
enum BreakColumn { kWhere, kWhen, kMet, kBreakColumns };

QLabel* noteIn(QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setWordWrap(true);
  label->setMargin(8);
  label->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  return label;
}

/// What stands behind the place: "if nan do log".
QString whenText(const ListedBreakpoint& b) { return toQt(b.text).mid(toQt(b.parsed.where.text()).size()).trimmed(); }

}  // namespace

DebugPanel::DebugPanel(Workspace& workspace, QWidget* parent) : QWidget(parent), workspace_(workspace) {
  setObjectName(QStringLiteral("debug"));
  auto* split = new QSplitter(this);
  split->addWidget(makeRanks());
  split->addWidget(makeBreakpoints());
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 2);
  split->setSizes({540, 420});
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(split);
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kDebug || topic == Topic::kModel) fill();
    if (topic == Topic::kSelection) fillRanks();
  });
  fill();
}

DebugPanel::~DebugPanel() {
  workspace_.unlisten(listener_);
  stopHearing(*this);
}

QWidget* DebugPanel::makeRanks() {
  auto* side = new QWidget(this);
  ranks_ = tableOf({tr("rank"), tr("next node"), tr("op"), tr("phase"), tr("waits for")}, tr("Where the ranks stand"), side);
  ranks_->setToolTip(tr("A click looks at that rank, and shows where it stands; another one looks at all"));
  ranks_->horizontalHeader()->setStretchLastSection(false);
  for (const auto column : {kNode, kOp}) ranks_->horizontalHeader()->setSectionResizeMode(column, QHeaderView::Stretch);
  for (const auto& [column, width] : {std::pair{kRank, 44}, {kPhase, 66}, {kWaits, 74}}) ranks_->setColumnWidth(column, width);
  ranks_absent_ = noteIn(side);
  connect(ranks_, &QTableWidget::cellClicked, this, [this](int row, int) {
    DebugSession& debug = workspace_.debug();
    const auto& stop = debug.stop();
    if (!stop || row >= static_cast<int>(stop->ranks.size())) return;
    const bool again = workspace_.selection().rank == row;
    debug.lookAtRank(again ? -1 : row);
    const dbg::RankPlace& at = stop->ranks[static_cast<std::size_t>(row)];
    if (!again && !at.ended) debug.showNode(at.next.name);
  });
  auto* column = new QVBoxLayout(side);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(ranks_absent_);
  column->addWidget(ranks_, 1);
  return side;
}

QWidget* DebugPanel::makeBreakpoints() {
  auto* side = new QWidget(this);
  breakpoints_ = tableOf({tr("breakpoint"), tr("stops"), tr("met")}, tr("Breakpoints"), side);
  breakpoints_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed);
  breakpoints_->setToolTip(tr("A double click changes one: %name, op GLOB, module GLOB, source FILE:LINE, phase, collective; if nan, inf, abs>X, zeros>SHARE, ranks, differs; hit N; do log"));
  breakpoints_->horizontalHeader()->setStretchLastSection(false);
  breakpoints_->horizontalHeader()->setSectionResizeMode(kWhere, QHeaderView::Stretch);
  breakpoints_->setColumnWidth(kWhen, 110);
  breakpoints_->setColumnWidth(kMet, 46);
  breakpoints_absent_ = noteIn(side);
  breakpoints_absent_->setText(tr("No breakpoints. F9, a click beside a node of the graph, or the line below sets one."));
  connect(breakpoints_, &QTableWidget::cellChanged, this, [this](int row, int column) { cellChanged(row, column); });
  connect(breakpoints_, &QTableWidget::cellClicked, this, [this](int row, int) {
    const auto& all = workspace_.debug().breakpoints().all();
    if (row < static_cast<int>(all.size()) && all[static_cast<std::size_t>(row)].parsed.where.by == dbg::NodeQuery::By::kName) workspace_.debug().showNode(all[static_cast<std::size_t>(row)].parsed.where.pattern);
  });
  remove_ = new QPushButton(tr("Delete"), side);
  remove_->setToolTip(tr("Removes the selected breakpoint (Delete)"));
  const auto remove = [this] {
    if (breakpoints_->currentRow() >= 0) workspace_.debug().removeBreakpoint(static_cast<std::size_t>(breakpoints_->currentRow()));
  };
  connect(remove_, &QPushButton::clicked, this, remove);
  auto* key = new QAction(tr("Delete"), breakpoints_);
  key->setShortcut(QKeySequence::Delete);
  key->setShortcutContext(Qt::WidgetShortcut);
  connect(key, &QAction::triggered, this, remove);
  breakpoints_->addAction(key);
  connect(breakpoints_, &QTableWidget::itemSelectionChanged, this, [this] { remove_->setEnabled(breakpoints_->currentRow() >= 0); });
  where_ = new QLineEdit(side);
  where_->setPlaceholderText(tr("%node, op aten.mm*, module layers.0, source model.py:71 \u2026"));
  where_->setAccessibleName(tr("New breakpoint"));
  where_->setToolTip(tr("Where to stop; Enter adds it. Empty with a condition: wherever that is met"));
  when_ = new QComboBox(side);
  when_->setAccessibleName(tr("Condition of the new breakpoint"));
  when_->setToolTip(tr("Under which condition it stops"));
  when_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  when_->setMinimumContentsLength(7);
  for (const char* choice : {"always", "if nan", "if inf", "if differs", "if ranks", "if abs>1000", "if zeros>0.99"}) when_->addItem(QLatin1String(choice));
  refusal_ = new QLabel(side);
  refusal_->setWordWrap(true);
  refusal_->setMargin(4);
  refusal_->hide();
  connect(where_, &QLineEdit::returnPressed, this, [this] { addTyped(); });
  auto* add = new QPushButton(tr("Add"), side);
  add->setToolTip(tr("Adds this breakpoint"));
  connect(add, &QPushButton::clicked, this, [this] { addTyped(); });
  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 4, 6, 4);
  row->setSpacing(4);
  row->addWidget(where_, 1);
  row->addWidget(when_);
  row->addWidget(add);
  row->addWidget(remove_);
  auto* column = new QVBoxLayout(side);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(breakpoints_absent_, 1);
  column->addWidget(breakpoints_, 1);
  column->addWidget(refusal_);
  column->addLayout(row);
  return side;
}

void DebugPanel::addTyped() {
  const QString when = when_->currentIndex() > 0 ? when_->currentText() : QString();
  const QString text = (where_->text().trimmed() + QLatin1Char(' ') + when).trimmed();
  if (text.isEmpty()) return;
  const Status added = workspace_.debug().addBreakpoint(text.toStdString());
  refuse(added);
  if (!added) return;
  where_->clear();
  when_->setCurrentIndex(0);
}

void DebugPanel::refuse(const Status& status) {
  refusal_->setVisible(!status);
  if (!status) refusal_->setText(toQt(status.error().message + (status.error().legal.empty() ? "" : ". Legal: " + status.error().legal)));
  colour(refusal_, Tone::kBad);
}

void DebugPanel::cellChanged(int row, int column) {
  DebugSession& debug = workspace_.debug();
  if (filling_ || row >= static_cast<int>(debug.breakpoints().all().size())) return;
  const ListedBreakpoint b = debug.breakpoints().all()[static_cast<std::size_t>(row)];
  const QTableWidgetItem* where = breakpoints_->item(row, kWhere);
  if (column == kWhere && (where->checkState() == Qt::Checked) != b.enabled) return debug.enableBreakpoint(static_cast<std::size_t>(row), !b.enabled);
  const QString text = (where->text().trimmed() + QLatin1Char(' ') + breakpoints_->item(row, kWhen)->text().trimmed()).trimmed();
  const Status changed = debug.changeBreakpoint(static_cast<std::size_t>(row), text.toStdString());
  refuse(changed);
  if (!changed) fillBreakpoints();
}

void DebugPanel::fill() {
  fillRanks();
  fillBreakpoints();
}

void DebugPanel::fillRanks() {
  const DebugSession& debug = workspace_.debug();
  const auto& stop = debug.stop();
  ranks_->setVisible(stop.has_value());
  ranks_absent_->setVisible(!stop);
  ranks_absent_->setText(debug.on() ? tr("The step is being prepared.") : tr("Nothing is debugged. F5 runs one step of the compiled program with all ranks in this window, a node at a time; nothing is started."));
  colour(ranks_absent_, Tone::kSecondary);
  if (!stop) return;
  ranks_->setRowCount(static_cast<int>(stop->ranks.size()));
  const int looked = workspace_.selection().rank;
  for (const dbg::RankPlace& r : stop->ranks) {
    put(ranks_, r.rank, kRank, (looked == r.rank ? QStringLiteral("\u25b8 ") : QString()) + QString::number(r.rank));
    put(ranks_, r.rank, kNode, r.ended ? tr("the end of the step") : toQt("%" + r.next.name), !r.ended);
    put(ranks_, r.rank, kOp, r.ended ? QString() : toQt(r.next.op), true);
    put(ranks_, r.rank, kPhase, r.ended ? QString() : toQt(r.next.phase));
    const std::string waits = waitsFor(*stop, r.rank);
    put(ranks_, r.rank, kWaits, !waits.empty() ? toQt(waits) : r.collective ? tr("together") : QString());
    if (!r.ended) ranks_->item(r.rank, kNode)->setToolTip(toQt("%" + r.next.name + "\n" + r.next.module + "\n" + r.next.source));
    const bool off = stop->rank == r.rank && stop->breakpoint > 0;
    for (int c = 0; c < kRankColumns; ++c) ranks_->item(r.rank, c)->setForeground(tone(off ? Tone::kWarning : c == kWaits && !waits.empty() ? Tone::kWarning : Tone::kText));
  }
  if (looked >= 0 && looked < ranks_->rowCount()) ranks_->selectRow(looked);
  else ranks_->clearSelection();
}

void DebugPanel::fillBreakpoints() {
  const auto& all = workspace_.debug().breakpoints().all();
  filling_ = true;
  breakpoints_->setVisible(!all.empty());
  breakpoints_absent_->setVisible(all.empty());
  colour(breakpoints_absent_, Tone::kSecondary);
  breakpoints_->setRowCount(static_cast<int>(all.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ListedBreakpoint& b = all[i];
    const int row = static_cast<int>(i);
    put(breakpoints_, row, kWhere, toQt(b.parsed.where.text()), true);
    put(breakpoints_, row, kWhen, whenText(b), true);
    put(breakpoints_, row, kMet, b.problem.empty() ? QString::number(b.hits) : tr("\u2717"));
    QTableWidgetItem* where = breakpoints_->item(row, kWhere);
    where->setFlags(where->flags() | Qt::ItemIsUserCheckable | Qt::ItemIsEditable);
    where->setCheckState(b.enabled ? Qt::Checked : Qt::Unchecked);
    QTableWidgetItem* met = breakpoints_->item(row, kMet);
    met->setFlags(met->flags() & ~Qt::ItemIsEditable);
    if (!b.problem.empty())
      for (int c = 0; c < kBreakColumns; ++c) breakpoints_->item(row, c)->setToolTip(toQt(b.problem));
    for (int c = 0; c < kBreakColumns; ++c) breakpoints_->item(row, c)->setForeground(tone(!b.problem.empty() ? Tone::kBad : b.enabled ? Tone::kText : Tone::kSecondary));
  }
  remove_->setEnabled(breakpoints_->currentRow() >= 0 && !all.empty());
  filling_ = false;
}

void DebugPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && breakpoints_ != nullptr) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
