// SPDX-License-Identifier: Apache-2.0
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>
#include <algorithm>

#include "ui/qt/panels/memory_panel.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {
namespace {

QPolygonF polygonOf(const std::vector<PlotPoint>& points) {
  QPolygonF out;
  out.reserve(static_cast<qsizetype>(points.size()));
  for (const PlotPoint& p : points) out << QPointF(p.x, p.y);
  return out;
}

/// Dashes tell curves apart where colours do not.
QPen penOf(int number, bool focused) {
  static constexpr Qt::PenStyle kStyles[] = {Qt::DashLine, Qt::SolidLine, Qt::DotLine, Qt::DashDotLine, Qt::DashDotDotLine};
  QPen pen(focused ? tone(Tone::kText) : curveColor(number), focused ? 1.4 : 1.6);
  pen.setStyle(focused ? Qt::SolidLine : kStyles[number % 5]);
  return pen;
}

}  // namespace

Tone toneOf(passes::MemoryClass c) {
  switch (c) {
    case passes::MemoryClass::kParameters: return Tone::kParameters;
    case passes::MemoryClass::kGradients: return Tone::kPointwise;
    case passes::MemoryClass::kOptimizer: return Tone::kOptimizer;
    case passes::MemoryClass::kActivations: return Tone::kSaved;
    case passes::MemoryClass::kTemporaries: return Tone::kTemporaries;
    case passes::MemoryClass::kCommunication: return Tone::kCommunication;
    case passes::MemoryClass::kWorkspace: return Tone::kWaiting;
  }
  return Tone::kOther;
}

QColor curveColor(int number) {
  // Lines are thin and lie on fills: nearer to the text than a fill of that colour.
  return toQt(currentTheme().mix(currentTheme().fill(static_cast<std::uint64_t>(number)), currentTheme().color(Tone::kText), 0.45));
}

MemoryPlot::MemoryPlot(MemoryView& view, QWidget* parent) : QWidget(parent), view_(view) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setMinimumSize(240, 110);
  setAccessibleName(tr("Memory over the step"));
  setToolTip(tr("Click: the node there. Wheel: zoom. Drag: move. Double click or Home: the whole step. P: the peak."));
}

MemoryViewport MemoryPlot::viewport() const { return {static_cast<double>(width()), static_cast<double>(height()), from_, to_}; }

std::optional<QPointF> MemoryPlot::peakPoint() const {
  const MemoryPicture picture = view_.picture(viewport());
  if (!picture.peak) return std::nullopt;
  return QPointF(picture.peak->x, picture.peak->y);
}

void MemoryPlot::paintEvent(QPaintEvent*) {
  const MemoryPicture picture = view_.picture(viewport());
  QPainter painter(this);
  paintGround(painter, *this, picture.absent);
  if (!picture.absent.empty()) return;
  const QFontMetricsF metrics(painter.font());
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const auto& line : picture.scale) {
    painter.setPen(tone(Tone::kLine));
    painter.drawLine(QPointF(picture.left, line.y), QPointF(picture.right, line.y));
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(QRectF(0, line.y - 8, picture.left - 6, 16), Qt::AlignRight | Qt::AlignVCenter, toQt(line.text));
  }
  for (const auto& area : picture.areas) {
    QColor color = tone(toneOf(area.memory_class));
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawPolygon(polygonOf(area.outline));
    // Hatched: what is only passing through, so that the classes can be told apart without colours.
    const bool hatched = area.memory_class == passes::MemoryClass::kCommunication || area.memory_class == passes::MemoryClass::kWorkspace || area.memory_class == passes::MemoryClass::kGradients;
    if (!hatched) continue;
    painter.setBrush(QBrush(toQt(currentTheme().mix(currentTheme().color(toneOf(area.memory_class)), currentTheme().color(Tone::kWindow), 0.45)),
                            area.memory_class == passes::MemoryClass::kGradients ? Qt::HorPattern : Qt::BDiagPattern));
    painter.drawPolygon(polygonOf(area.outline));
  }
  painter.setBrush(Qt::NoBrush);
  painter.setRenderHint(QPainter::Antialiasing, true);
  for (const auto& outline : picture.outlines) {
    painter.setPen(penOf(outline.number, outline.focused));
    painter.drawPolyline(polygonOf(outline.points));
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const auto& phase : picture.phases) {
    painter.setPen(QPen(tone(Tone::kSecondary), 1, Qt::DotLine));
    painter.drawLine(QPointF(phase.x, picture.top), QPointF(phase.x, picture.bottom + 4));
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(QPointF(phase.x + 4, picture.bottom + metrics.ascent() + 4), toQt(phase.text));
  }
  if (picture.limit) {
    painter.setPen(QPen(tone(Tone::kBad), 1.5, Qt::DashLine));
    painter.drawLine(QPointF(picture.left, picture.limit->y), QPointF(picture.right, picture.limit->y));
    painter.drawText(QRectF(picture.left, picture.limit->y - 16, picture.right - picture.left - 4, 15), Qt::AlignRight | Qt::AlignBottom, toQt(picture.limit->text));
  }
  if (!picture.beyond.empty()) {
    QStringList names;
    for (const std::string& b : picture.beyond) names << toQt(b);
    painter.setPen(tone(Tone::kBad));
    painter.drawText(QRectF(picture.left + 4, 2, picture.right - picture.left - 8, 16), Qt::AlignLeft | Qt::AlignVCenter,
                     metrics.elidedText(names.join(QStringLiteral(", ")) + QStringLiteral(" ↑"), Qt::ElideRight, picture.right - picture.left - 8));
  }
  for (const double x : picture.selected) {
    painter.setPen(QPen(tone(Tone::kAccent), 2));
    painter.drawLine(QPointF(x, picture.top), QPointF(x, picture.bottom));
  }
  if (picture.peak) {
    painter.setPen(QPen(tone(Tone::kText), 1));
    painter.drawLine(QPointF(picture.peak->x, picture.top), QPointF(picture.peak->x, picture.bottom));
    painter.setBrush(tone(Tone::kText));
    painter.drawEllipse(QPointF(picture.peak->x, picture.peak->y), 3, 3);
    const QString text = toQt(picture.peak->text);
    const double w = metrics.horizontalAdvance(text) + 8;
    const double x = picture.peak->x + 6 + w > picture.right ? picture.peak->x - 6 - w : picture.peak->x + 6;
    const QRectF box(x, std::clamp(picture.peak->y - 9, picture.top, picture.bottom - 18), w, 17);
    painter.fillRect(box, tone(Tone::kRaised));
    painter.drawText(box, Qt::AlignCenter, text);
  }
  if (hover_ < 0) return;
  const auto hover = view_.at(viewport(), hover_);
  if (!hover) return;
  painter.setPen(QPen(tone(Tone::kSecondary), 1, Qt::DashLine));
  painter.drawLine(QPointF(hover->x, picture.top), QPointF(hover->x, picture.bottom));
  double w = 0;
  for (const std::string& line : hover->lines) w = std::max(w, metrics.horizontalAdvance(toQt(line)));
  const double line_height = metrics.height() + 1;
  const double h = line_height * static_cast<double>(hover->lines.size()) + 8;
  w += 14;
  double x = hover->x + 10;
  if (x + w > width() - 2) x = std::max(2.0, hover->x - 10 - w);
  const double y = std::clamp(picture.top + 2, 0.0, std::max(0.0, height() - h - 2));
  painter.setPen(tone(Tone::kLine));
  painter.setBrush(tone(Tone::kRaised));
  painter.drawRect(QRectF(x, y, w, h));
  painter.setPen(tone(Tone::kText));
  for (std::size_t i = 0; i < hover->lines.size(); ++i) painter.drawText(QPointF(x + 7, y + 4 + metrics.ascent() + static_cast<double>(i) * line_height), toQt(hover->lines[i]));
}

void MemoryPlot::keepInside() {
  const double span = std::clamp(to_ - from_, 1e-5, 1.0);
  from_ = std::clamp(from_, 0.0, 1.0 - span);
  to_ = from_ + span;
  update();
}

void MemoryPlot::zoom(double x, double factor) {
  const MemoryPicture picture = view_.picture(viewport());
  if (!picture.absent.empty()) return;
  const double at = from_ + (x - picture.left) / (picture.right - picture.left) * (to_ - from_);
  const double span = std::clamp((to_ - from_) * factor, 1e-5, 1.0);
  from_ = at - (at - from_) / (to_ - from_) * span;
  to_ = from_ + span;
  keepInside();
}

void MemoryPlot::pan(double pixels) {
  const double span = to_ - from_;
  const double shift = pixels / std::max(1, width()) * span;
  from_ = std::clamp(from_ - shift, 0.0, 1.0 - span);
  to_ = from_ + span;
  update();
}

void MemoryPlot::mouseMoveEvent(QMouseEvent* event) {
  hover_ = event->position().x();
  if ((event->buttons() & Qt::LeftButton) != 0) {
    pan(event->position().x() - pressed_.x());
    moved_ += std::abs(event->position().x() - pressed_.x());
    pressed_ = event->position();
  }
  update();
}
void MemoryPlot::mousePressEvent(QMouseEvent* event) {
  pressed_ = event->position();
  moved_ = 0;
}
void MemoryPlot::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && moved_ < 4) view_.click(viewport(), event->position().x());
}
void MemoryPlot::mouseDoubleClickEvent(QMouseEvent*) {
  from_ = 0;
  to_ = 1;
  update();
}
void MemoryPlot::wheelEvent(QWheelEvent* event) {
  if (event->angleDelta().x() != 0 || (event->modifiers() & Qt::ShiftModifier) != 0)
    pan(event->angleDelta().x() != 0 ? event->angleDelta().x() : event->angleDelta().y());
  else
    zoom(event->position().x(), event->angleDelta().y() > 0 ? 0.8 : 1.25);
  event->accept();
}
void MemoryPlot::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Home: from_ = 0, to_ = 1, update(); return;
    case Qt::Key_Left: return pan(40);
    case Qt::Key_Right: return pan(-40);
    case Qt::Key_Plus: return zoom(width() / 2.0, 0.8);
    case Qt::Key_Minus: return zoom(width() / 2.0, 1.25);
    case Qt::Key_P: return view_.selectPeak();
    default: QWidget::keyPressEvent(event);
  }
}
void MemoryPlot::leaveEvent(QEvent*) {
  hover_ = -1;
  update();
}

}  // namespace spscope::ui
