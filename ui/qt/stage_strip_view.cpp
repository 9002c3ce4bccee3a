// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/stage_strip_view.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QPainter>
#include <QScrollBar>
#include <QWheelEvent>

#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr int kScrollBar = 6;

}  // namespace

StageChipButton::StageChipButton(QWidget* parent) : QAbstractButton(parent) {
  setCursor(Qt::PointingHandCursor);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::MinimumExpanding, QSizePolicy::Fixed);
  setMaximumWidth(230);
}

void StageChipButton::setChip(const StageChip& chip) {
  chip_ = chip;
  setToolTip(toQt(chip.tip).toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")) + (chip.stage >= 0 ? QStringLiteral("<br><i>click: show it, compared with the stage before; Ctrl+click: compare the shown stage with it</i>") : QString()));
  setAccessibleName(toQt(chip.name));
  setAccessibleDescription(toQt(chip.detail + (chip.failed ? " failed" : "") + (chip.shown ? " shown" : "") + (chip.compared ? " compared with" : "")));
  updateGeometry();
  update();
}

QSize StageChipButton::sizeHint() const {
  const QFontMetrics title(readingFont(true)), small(smallFont());
  const int figures = small.horizontalAdvance(toQt(chip_.peak)) + small.horizontalAdvance(toQt(chip_.wire)) + (chip_.wire.empty() ? 0 : 10);
  const int width = std::max({title.horizontalAdvance(toQt(chip_.name)) + (chip_.warnings > 0 ? 18 : 0), small.horizontalAdvance(toQt(chip_.detail)), figures}) + 24;
  return {std::clamp(width, 96, 230), 4 + title.height() + 2 * small.height() + 14};
}

void StageChipButton::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF r = QRectF(rect()).adjusted(1, 1, -1, -1);
  QColor border = tone(chip_.failed ? Tone::kBad : chip_.shown ? Tone::kAccent : chip_.compared ? Tone::kChanged : Tone::kLine);
  const QColor inside = chip_.failed ? toQt(currentTheme().mix(currentTheme().color(Tone::kPanel), currentTheme().color(Tone::kBad), 0.18)) : tone(chip_.shown ? Tone::kSelection : underMouse() ? Tone::kHover : Tone::kRaised);
  painter.setPen(QPen(border, chip_.shown || chip_.failed || chip_.compared ? 1.6 : 1, chip_.compared ? Qt::DashLine : Qt::SolidLine));
  painter.setBrush(inside);
  painter.drawRoundedRect(r, 5, 5);
  if (hasFocus()) {
    painter.setPen(QPen(tone(Tone::kAccent), 1, Qt::DotLine));
    painter.setBrush(Qt::NoBrush);
    painter.drawRoundedRect(r.adjusted(2, 2, -2, -2), 4, 4);
  }
  const QRectF text = r.adjusted(9, 4, -9, -4);
  const QFontMetrics title(readingFont(true)), small(smallFont());
  painter.setFont(readingFont(true));
  painter.setPen(tone(chip_.failed ? Tone::kBad : chip_.unchanged && !chip_.shown ? Tone::kSecondary : Tone::kText));
  painter.drawText(QRectF(text.left(), text.top(), text.width(), title.height()), Qt::AlignLeft | Qt::AlignVCenter, title.elidedText(toQt(chip_.name), Qt::ElideRight, static_cast<int>(text.width())));
  if (chip_.warnings > 0) {
    painter.setPen(tone(Tone::kWarning));
    painter.drawText(QRectF(text.left(), text.top(), text.width(), title.height()), Qt::AlignRight | Qt::AlignVCenter, QStringLiteral("!"));
  }
  painter.setFont(smallFont());
  painter.setPen(tone(chip_.failed ? Tone::kBad : Tone::kSecondary));
  double y = text.top() + title.height();
  painter.drawText(QRectF(text.left(), y, text.width(), small.height()), Qt::AlignLeft | Qt::AlignVCenter, small.elidedText(toQt(chip_.detail), Qt::ElideRight, static_cast<int>(text.width())));
  y += small.height();
  painter.setPen(tone(chip_.over_limit ? Tone::kBad : Tone::kSecondary));
  painter.drawText(QRectF(text.left(), y, text.width(), small.height()), Qt::AlignLeft | Qt::AlignVCenter, toQt(chip_.peak));
  painter.setPen(tone(Tone::kSecondary));
  painter.drawText(QRectF(text.left(), y, text.width(), small.height()), Qt::AlignRight | Qt::AlignVCenter, toQt(chip_.wire));
  // The bar of the predicted peak.
  if (chip_.peak_share < 0) return;
  const QRectF bar(text.left(), r.bottom() - 7, text.width(), 3);
  painter.setPen(Qt::NoPen);
  painter.setBrush(tone(Tone::kLine));
  painter.drawRoundedRect(bar, 1.5, 1.5);
  painter.setBrush(tone(chip_.over_limit ? Tone::kBad : Tone::kMatmul));
  painter.drawRoundedRect(QRectF(bar.left(), bar.top(), bar.width() * std::min(1.0, chip_.peak_share), bar.height()), 1.5, 1.5);
  if (chip_.limit_share >= 0) painter.fillRect(QRectF(bar.left() + bar.width() * chip_.limit_share - 1, bar.top() - 2, 2, bar.height() + 4), tone(Tone::kBad));
}

StageStripView::StageStripView(Workspace& workspace, QWidget* parent) : QScrollArea(parent), workspace_(workspace), row_(new QWidget), layout_(new QHBoxLayout(row_)) {
  setObjectName(QStringLiteral("stages"));
  setAccessibleName(QStringLiteral("Stages"));
  setWidgetResizable(true);
  setFrameShape(QFrame::NoFrame);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  layout_->setContentsMargins(8, 6, 8, 6);
  layout_->setSpacing(6);
  layout_->addStretch(1);
  setWidget(row_);
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kModel || topic == Topic::kCompiled || topic == Topic::kStage || topic == Topic::kSettings) refresh();
  });
  refresh();
}

void StageStripView::wheelEvent(QWheelEvent* event) {
  const QPoint by = event->angleDelta();
  horizontalScrollBar()->setValue(horizontalScrollBar()->value() - (by.x() != 0 ? by.x() : by.y()));
  event->accept();
}

StageStripView::~StageStripView() { workspace_.unlisten(listener_); }

StageChipButton* StageStripView::chipNamed(const QString& name) const {
  for (StageChipButton* b : buttons_)
    if (toQt(b->chip().name) == name) return b;
  return nullptr;
}

void StageStripView::refresh() {
  const std::vector<StageChip> chips = stageChips(workspace_);
  while (buttons_.size() < chips.size()) {
    auto* button = new StageChipButton(row_);
    connect(button, &QAbstractButton::clicked, this, [this, button] {
      if (button->chip().stage >= 0) chooseStage(workspace_, button->chip().stage, QApplication::keyboardModifiers() & Qt::ControlModifier);
    });
    layout_->insertWidget(static_cast<int>(buttons_.size()), button, 1);
    buttons_.push_back(button);
  }
  while (buttons_.size() > chips.size()) {
    buttons_.back()->hide();
    buttons_.back()->deleteLater();
    buttons_.pop_back();
  }
  for (std::size_t i = 0; i < chips.size(); ++i) buttons_[i]->setChip(chips[i]);
  setFixedHeight(StageChipButton().sizeHint().height() + 12 + kScrollBar);
  for (std::size_t i = 0; i < chips.size(); ++i)
    if (chips[i].shown || chips[i].failed) ensureWidgetVisible(buttons_[i]);
}

}  // namespace spscope::ui
