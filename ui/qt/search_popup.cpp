// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/search_popup.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QVBoxLayout>

#include "ui/model/stage_strip.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr std::size_t kShown = 200;

}  // namespace

SearchPopup::SearchPopup(Workspace& workspace, GraphDocument& graph, QWidget* parent)
    : QFrame(parent), workspace_(workspace), graph_(graph), query_(new QLineEdit), hits_(new QListWidget), count_(new QLabel) {
  setObjectName(QStringLiteral("search"));
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(10, 10, 10, 8);
  column->setSpacing(6);
  query_->setPlaceholderText(QStringLiteral("name, op, shape, placement, source \u2026  e.g.  op:all_to_all module:layers.0   shape:128   source:llama.py:71"));
  query_->setAccessibleName(QStringLiteral("Search"));
  query_->setClearButtonEnabled(true);
  hits_->setAccessibleName(QStringLiteral("Found"));
  hits_->setFocusPolicy(Qt::NoFocus);
  hits_->setUniformItemSizes(true);
  count_->setFont(smallFont());
  count_->setForegroundRole(QPalette::PlaceholderText);
  column->addWidget(query_);
  column->addWidget(hits_, 1);
  column->addWidget(count_);
  connect(query_, &QLineEdit::textChanged, this, [this] { refresh(); });
  connect(hits_, &QListWidget::itemClicked, this, [this] { accept(); });
  query_->installEventFilter(this);
  parent->installEventFilter(this);
  hide();
}

int SearchPopup::found() const { return static_cast<int>(found_.size()); }

void SearchPopup::place() {
  const QSize room = parentWidget()->size();
  const int width = std::min(760, room.width() - 40), height = std::min(420, room.height() - 80);
  setGeometry((room.width() - width) / 2, 56, width, height);
}

void SearchPopup::open(const QString& query) {
  place();
  show();
  raise();
  if (!query.isEmpty()) query_->setText(query);
  query_->selectAll();
  query_->setFocus();
  refresh();
}

void SearchPopup::refresh() {
  hits_->clear();
  found_.clear();
  const SearchIndex* index = graph_.search();
  if (index == nullptr) return count_->setText(QStringLiteral("No graph is open."));
  std::size_t total = 0;
  found_ = index->find(query_->text().toStdString(), kShown, &total);
  for (const SearchHit& hit : found_) {
    auto* item = new QListWidgetItem(toQt(hit.title) + QStringLiteral("    ") + toQt(hit.detail) + (hit.why.empty() ? QString() : QStringLiteral("    \u2190 ") + toQt(hit.why)), hits_);
    item->setToolTip(item->text());
  }
  if (!found_.empty()) hits_->setCurrentRow(0);
  if (query_->text().trimmed().isEmpty())
    count_->setText(QStringLiteral("Fields: name: op: arg: shape: placement: module: source:"));
  else if (total == 0)
    count_->setText(QStringLiteral("Nothing matches all of these words."));
  else
    count_->setText(toQt(spacedNumber(static_cast<std::int64_t>(total))) + QStringLiteral(" found") + (total > kShown ? QStringLiteral(", the first %1 shown").arg(kShown) : QString()) + QStringLiteral("  \u00b7  Enter goes there, Escape closes"));
}

void SearchPopup::accept() {
  const int row = hits_->currentRow();
  if (row < 0 || row >= found()) return;
  Selection s;
  s.rank = workspace_.selection().rank;
  s.node = found_[static_cast<std::size_t>(row)].node;
  s.value = found_[static_cast<std::size_t>(row)].value;
  hide();
  workspace_.select(s);
}

bool SearchPopup::eventFilter(QObject* watched, QEvent* event) {
  if (watched == parentWidget() && event->type() == QEvent::Resize && isVisible()) place();
  if (watched != query_ || (event->type() != QEvent::KeyPress && event->type() != QEvent::ShortcutOverride)) return QFrame::eventFilter(watched, event);
  const auto* key = static_cast<QKeyEvent*>(event);
  switch (key->key()) {
    case Qt::Key_Escape:
      if (event->type() == QEvent::ShortcutOverride) return event->accept(), true;
      hide();
      parentWidget()->setFocus();
      return true;
    case Qt::Key_Up:
    case Qt::Key_Down:
    case Qt::Key_PageUp:
    case Qt::Key_PageDown:
      if (event->type() == QEvent::KeyPress) QCoreApplication::sendEvent(hits_, event);
      return true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (event->type() == QEvent::KeyPress) accept();
      return true;
    default: return QFrame::eventFilter(watched, event);
  }
}

}  // namespace spscope::ui
