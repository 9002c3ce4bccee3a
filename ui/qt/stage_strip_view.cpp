// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/stage_strip_view.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QPainter>
#include <QScrollBar>
#include <QWheelEvent>
#include <algorithm>
#include <utility>

#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr int kScrollBar = 6, kPadding = 9, kTightPadding = 4, kGap = 4, kMost = 230;

QFont smallBold() {
  QFont font = smallFont();
  font.setWeight(QFont::DemiBold);
  return font;
}

/// A name broken at the hyphen that makes the longer line shortest; the second is empty where there is none.
std::pair<QString, QString> twoLines(const QString& name) {
  qsizetype best = -1;
  const auto longer = [&](qsizetype at) { return std::max(at + 1, name.size() - at - 1); };
  for (qsizetype at = name.indexOf(QLatin1Char('-')); at >= 0; at = name.indexOf(QLatin1Char('-'), at + 1))
    if (best < 0 || longer(at) < longer(best)) best = at;
  if (best < 0) return {name, QString()};
  return {name.left(best + 1), name.mid(best + 1)};
}

/// "fuse-collectives": "fc".
QString initials(const QString& name) {
  QString out;
  for (const QString& word : name.split(QLatin1Char('-'), Qt::SkipEmptyParts)) out += word.front();
  return out;
}

}  // namespace

StageChipButton::StageChipButton(QWidget* parent) : QAbstractButton(parent) {
  setCursor(Qt::PointingHandCursor);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMaximumWidth(kMost);
}

void StageChipButton::setChip(const StageChip& chip) {
  chip_ = chip;
  setToolTip(toQt(chip.tip).toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")) + (chip.stage >= 0 ? QStringLiteral("<br><i>click: show it, compared with the stage before; Ctrl+click: compare the shown stage with it</i>") : QString()));
  setAccessibleName(toQt(chip.name));
  setAccessibleDescription(toQt(chip.detail + (chip.failed ? " failed" : "") + (chip.shown ? " shown" : "") + (chip.compared ? " compared with" : "")));
  updateGeometry();
  update();
}

int StageChipButton::heightOf(bool tight) const {
  const QFontMetrics title(readingFont(true)), small(smallFont());
  return 4 + (tight ? 2 * QFontMetrics(smallBold()).height() : title.height()) + 2 * small.height() + 13;
}

QSize StageChipButton::sizeHint() const {
  if (slim_) return minimumSizeHint();
  const QFontMetrics title(readingFont(true)), small(smallFont());
  const int figures = small.horizontalAdvance(toQt(chip_.peak)) + small.horizontalAdvance(toQt(chip_.wire)) + (chip_.wire.empty() ? 0 : 10);
  const int width = std::max({title.horizontalAdvance(toQt(chip_.name)) + (chip_.warnings > 0 ? 18 : 0), small.horizontalAdvance(toQt(chip_.detail)), figures}) + 2 * kPadding + 4;
  return {std::clamp(width, 90, kMost), heightOf(tight_)};
}

QSize StageChipButton::minimumSizeHint() const {
  const QFontMetrics title(smallBold()), small(smallFont());
  if (slim_) return {small.horizontalAdvance(initials(toQt(chip_.name))) + 2 * kTightPadding + 4, heightOf(tight_)};
  // Where there is no room for both, the peak stands alone: the pointer is told the changes.
  const int changes = std::max(small.horizontalAdvance(toQt(chip_.brief)), small.horizontalAdvance(toQt(chip_.peak)));
  const auto [first, second] = twoLines(toQt(chip_.name));
  const int warning = chip_.warnings > 0 ? 14 : 0;
  const int width = std::max({title.horizontalAdvance(first) + warning, title.horizontalAdvance(second), changes, small.horizontalAdvance(toQt(chip_.wire_brief))}) + 2 * kTightPadding + 4;
  return {std::clamp(width, 48, kMost), heightOf(tight_)};
}

void StageChipButton::setTight(bool tight) {
  if (tight_ == tight) return;
  tight_ = tight;
  updateGeometry();
  update();
}

void StageChipButton::setSlim(bool slim) {
  if (slim_ == slim) return;
  slim_ = slim;
  setMaximumWidth(slim ? minimumSizeHint().width() : kMost);
  updateGeometry();
  update();
}

void StageChipButton::paintSlim(QPainter& painter, const QRectF& inside) const {
  painter.setFont(smallFont());
  painter.setPen(tone(Tone::kSecondary));
  painter.drawText(inside, Qt::AlignCenter, initials(toQt(chip_.name)));
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
  if (slim_) return paintSlim(painter, r);
  const int padding = tight_ ? kTightPadding : kPadding;
  const QRectF text = r.adjusted(padding, 3, -padding, -4);
  const auto width = static_cast<int>(text.width());
  const QFontMetrics small(smallFont());
  const auto line = [&](double y, int height, int flags, const QString& what) { painter.drawText(QRectF(text.left(), y, text.width(), height), flags | Qt::AlignVCenter, what); };
  // The name: in full size, smaller, or on two lines.
  const QString name = toQt(chip_.name);
  const int for_name = width - (chip_.warnings > 0 ? 14 : 0);
  const bool large = QFontMetrics(readingFont(true)).horizontalAdvance(name) < for_name || !tight_;
  const QFont font = large ? readingFont(true) : smallBold();
  const QFontMetrics title(font);
  painter.setFont(font);
  painter.setPen(tone(chip_.failed ? Tone::kBad : chip_.unchanged && !chip_.shown ? Tone::kSecondary : Tone::kText));
  double y = text.top();
  if (large || title.horizontalAdvance(name) < for_name) {
    line(y, title.height(), Qt::AlignLeft, title.elidedText(name, Qt::ElideRight, for_name));
  } else {
    const auto [first, second] = twoLines(name);
    line(y, title.height(), Qt::AlignLeft, title.elidedText(first, Qt::ElideRight, for_name));
    line(y + title.height(), title.height(), Qt::AlignLeft, title.elidedText(second, Qt::ElideRight, width));
  }
  if (chip_.warnings > 0) {
    painter.setPen(tone(Tone::kWarning));
    line(y, title.height(), Qt::AlignRight, QStringLiteral("!"));
  }
  painter.setFont(smallFont());
  painter.setPen(tone(chip_.failed ? Tone::kBad : Tone::kSecondary));
  y = r.bottom() - 9 - 2 * small.height();
  const QString detail = toQt(chip_.detail), brief = toQt(chip_.brief);
  const QString peak = toQt(chip_.peak), wire = toQt(chip_.wire);
  const int for_peak = peak.isEmpty() ? 0 : small.horizontalAdvance(peak) + 8;
  // With room: peak and wire below. Without: the peak beside the changes, the wire below.
  const int for_detail = width - (tight_ ? for_peak : 0);
  if (!tight_ || peak.isEmpty() || small.horizontalAdvance(brief) <= for_detail) line(y, small.height(), Qt::AlignLeft, small.elidedText(small.horizontalAdvance(detail) <= for_detail || brief.isEmpty() ? detail : brief, Qt::ElideRight, for_detail));
  painter.setPen(tone(chip_.over_limit ? Tone::kBad : Tone::kSecondary));
  line(tight_ ? y : y + small.height(), small.height(), tight_ ? Qt::AlignRight : Qt::AlignLeft, peak);
  y += small.height();
  painter.setPen(tone(Tone::kSecondary));
  const bool alone = tight_ || peak.isEmpty();
  line(y, small.height(), alone ? Qt::AlignLeft : Qt::AlignRight, small.horizontalAdvance(wire) <= width - (alone ? 0 : for_peak) ? wire : toQt(chip_.wire_brief));
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
  layout_->setSpacing(kGap);
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
  arrange();
  for (std::size_t i = 0; i < chips.size(); ++i)
    if (chips[i].shown || chips[i].failed) ensureWidgetVisible(buttons_[i]);
}

void StageStripView::resizeEvent(QResizeEvent* event) {
  QScrollArea::resizeEvent(event);
  arrange();
}

void StageStripView::arrange() {
  setVisible(!buttons_.empty());
  if (buttons_.empty()) return;
  const QMargins margins = layout_->contentsMargins();
  const auto sum = [&](auto&& widthOf) {
    int all = margins.left() + margins.right();
    for (const StageChipButton* b : buttons_) all += widthOf(*b) + kGap;
    return all;
  };
  const auto wanted = [](const StageChipButton& b) { return b.sizeHint().width(); };
  const auto least = [](const StageChipButton& b) { return b.minimumSizeHint().width(); };
  // First those shrink that changed nothing, then all take their short form; what does not fit even so is scrolled.
  for (StageChipButton* b : buttons_) b->setSlim(false);
  const bool slim = sum(wanted) > width();
  for (StageChipButton* b : buttons_) b->setSlim(slim && b->chip().canShrink());
  const bool tight = sum(wanted) > width();
  for (StageChipButton* b : buttons_) b->setTight(tight);
  setFixedHeight(buttons_.front()->sizeHint().height() + margins.top() + margins.bottom() + (sum(least) > width() ? kScrollBar : 0));
}

}  // namespace spscope::ui
