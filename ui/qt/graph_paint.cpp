// SPDX-License-Identifier: Apache-2.0
// How the graph looks.
#include <QPainter>
#include <QPainterPath>
#include <map>
#include <unordered_set>

#include "ui/qt/graph_view.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr double kMapMargin = 8;
constexpr int kMapFrom = 320;  // a narrower view has no room for a map

QColor fillOf(const BoxFill& fill) {
  const Theme& theme = currentTheme();
  if (fill.heat >= 0) return toQt(theme.heat(fill.heat));
  if (fill.fill >= 0) return toQt(theme.fill(static_cast<std::uint64_t>(fill.fill)));
  return tone(fill.tone);
}

QPen outlineOf(Change change, double scale) {
  switch (change) {
    case Change::kAdded: return {tone(Tone::kAdded), 2 / std::max(scale, 0.5)};
    case Change::kRemoved: return {tone(Tone::kRemoved), 2 / std::max(scale, 0.5), Qt::DashLine};
    case Change::kChanged: return {tone(Tone::kChanged), 2 / std::max(scale, 0.5)};
    case Change::kNone: break;
  }
  return {toQt(currentTheme().mix(currentTheme().color(Tone::kLine), currentTheme().color(Tone::kSecondary), 0.35)), 1};
}

const char* signOf(Change change) { return change == Change::kAdded ? "+" : change == Change::kRemoved ? "\u2212" : change == Change::kChanged ? "~" : ""; }

QColor frameFill(int depth) { return toQt(currentTheme().mix(currentTheme().color(Tone::kWindow), currentTheme().color(Tone::kRaised), depth % 2 == 0 ? 0.45 : 0.9)); }

QRectF toQt(const Rect& r) { return {r.x, r.y, r.width, r.height}; }

void drawElided(QPainter& painter, const QRectF& rect, int flags, const QString& text) {
  painter.drawText(rect, flags, painter.fontMetrics().elidedText(text, Qt::ElideMiddle, static_cast<int>(rect.width())));
}

}  // namespace

void GraphView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), tone(Tone::kWindow));
  if (document_.scene() == nullptr) return paintEmpty(painter);
  painter.save();
  painter.setClipRect(room());
  painter.translate(offset_);
  painter.scale(scale_, scale_);
  paintScene(painter, QRectF(toScene({0, 0}), toScene(room().bottomRight())), scale_);
  painter.restore();
  paintMap(painter);
  if (hasFocus()) {
    painter.setPen(QPen(tone(Tone::kAccent), 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

void GraphView::paintEmpty(QPainter& painter) const {
  painter.setPen(tone(Tone::kSecondary));
  painter.setFont(readingFont());
  const QString text = document_.busy() || workspace_.jobs().busy("open") ? QStringLiteral("Opening\u2026") : QStringLiteral("No graph is open. Ctrl+O opens one, or drop a .pt2 file here.");
  painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap, text);
}

void GraphView::paintScene(QPainter& painter, const QRectF& visible, double scale) const {
  const GraphDrawing& scene = document_.scene()->scene();
  painter.setRenderHint(QPainter::Antialiasing, scale > 0.3);
  const std::int32_t selected = document_.selectedBox();
  const GraphDocument::Users users = document_.usersOfSelection();
  const std::unordered_set<std::int32_t> lit(users.edges.begin(), users.edges.end()), using_boxes(users.boxes.begin(), users.boxes.end());
  // Frames lie behind edges, edges behind boxes.
  for (std::size_t i = 0; i < scene.boxes.size(); ++i)
    if (scene.boxes[i].kind == SceneBox::Kind::kFrame && toQt(scene.boxes[i].rect).intersects(visible))
      paintBox(painter, scene.boxes[i], static_cast<std::int32_t>(i) == selected, false, scale);
  for (std::size_t e = 0; e < scene.edges.size(); ++e) {
    const SceneEdge& edge = scene.edges[e];
    if (edge.portal || edge.points.size() < 2) continue;
    float left = edge.points[0].x, right = left, top = edge.points[0].y, bottom = top;
    for (const Point p : edge.points) {
      left = std::min(left, p.x), right = std::max(right, p.x);
      top = std::min(top, p.y), bottom = std::max(bottom, p.y);
    }
    if (right < visible.left() || left > visible.right() || bottom < visible.top() || top > visible.bottom()) continue;
    paintEdge(painter, scene, edge, lit.count(static_cast<std::int32_t>(e)) != 0, scale);
  }
  // Titles of frames stay readable where lines come through their border.
  if (scale >= 0.3)
    for (const SceneBox& box : scene.boxes)
      if (box.kind == SceneBox::Kind::kFrame && toQt(box.rect).intersects(visible)) paintFrameTitle(painter, box);
  if (scale > 0.35) paintPortals(painter, scene, visible, scale);
  for (std::size_t i = 0; i < scene.boxes.size(); ++i)
    if (scene.boxes[i].kind != SceneBox::Kind::kFrame && toQt(scene.boxes[i].rect).intersects(visible))
      paintBox(painter, scene.boxes[i], static_cast<std::int32_t>(i) == selected, using_boxes.count(static_cast<std::int32_t>(i)) != 0, scale);
  paintMarks(painter, visible, scale);
}

void GraphView::paintBox(QPainter& painter, const SceneBox& box, bool selected, bool user, double scale) const {
  const QRectF r = toQt(box.rect);
  const bool frame = box.kind == SceneBox::Kind::kFrame, module = box.kind == SceneBox::Kind::kModule;
  const BoxFill fill = document_.colouring()->of(box);
  QColor inside = fillOf(fill);
  if (frame) inside = frameFill(box.depth);
  if (box.change == Change::kRemoved) inside = toQt(currentTheme().mix(currentTheme().color(Tone::kWindow), currentTheme().color(Tone::kRemoved), 0.18));
  if (scale < 0.12 && !selected) {  // far away: one rectangle
    painter.fillRect(r, box.change == Change::kNone ? inside : outlineOf(box.change, 1).color());
    return;
  }
  painter.setPen(frame ? QPen(tone(Tone::kLine), 1) : outlineOf(box.change, scale));
  if (box.kind == SceneBox::Kind::kInput) painter.setPen(QPen(tone(Tone::kSecondary), 1, Qt::DotLine));
  painter.setBrush(inside);
  const double radius = box.kind == SceneBox::Kind::kInput ? r.height() / 2 : 5;
  if (module && scale > 0.25) painter.drawRoundedRect(r.translated(3, 3), radius, radius);  // a stack: there is more inside
  painter.drawRoundedRect(r, radius, radius);
  if (box.change == Change::kRemoved && !frame) {
    painter.setBrush(QBrush(outlineOf(box.change, 1).color().lighter(currentTheme().dark() ? 60 : 150), Qt::BDiagPattern));
    painter.setPen(Qt::NoPen);
    painter.setOpacity(0.5);
    painter.drawRoundedRect(r, radius, radius);
    painter.setOpacity(1);
  }
  if (selected || user) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tone(Tone::kAccent), (selected ? 2.5 : 1.5) / std::max(scale, 0.4), selected ? Qt::SolidLine : Qt::DashLine));
    painter.drawRoundedRect(r.adjusted(-3, -3, 3, 3), radius + 2, radius + 2);
  }
  if (scale < 0.3 || frame) return;

  painter.setPen(tone(Tone::kText));
  QFont title = readingFont(true);
  title.setPointSizeF(title.pointSizeF() * 0.96);
  painter.setFont(title);
  const double sides = 6;
  if (box.subtitle.empty()) {
    drawElided(painter, r.adjusted(sides, 0, -sides, 0), Qt::AlignCenter, spscope::ui::toQt(box.title));
  } else {
    const QString text = (module ? QStringLiteral("\u25b8 ") : QString()) + spscope::ui::toQt(box.title);
    drawElided(painter, QRectF(r.left() + sides, r.top() + 2, r.width() - 2 * sides, r.height() / 2), Qt::AlignHCenter | Qt::AlignVCenter, text);
    if (scale >= 0.42) {
      painter.setPen(toQt(currentTheme().mix(currentTheme().color(Tone::kText), currentTheme().color(Tone::kSecondary), 0.6)));
      painter.setFont(module ? smallFont() : codeFont(true));
      drawElided(painter, QRectF(r.left() + sides, r.center().y() - 1, r.width() - 2 * sides, r.height() / 2), Qt::AlignHCenter | Qt::AlignVCenter, spscope::ui::toQt(box.subtitle));
    }
  }
  if (scale < 0.5) return;
  // Letters in the corners, so that nothing depends on colour.
  QFont small = smallFont();
  small.setPointSizeF(small.pointSizeF() * 0.82);
  painter.setFont(small);
  if (!fill.letter.empty()) {
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(r.adjusted(3, 1, -4, 0), Qt::AlignRight | Qt::AlignTop, spscope::ui::toQt(fill.letter));
  }
  if (box.change != Change::kNone) {
    small.setPointSizeF(smallFont().pointSizeF());
    small.setBold(true);
    painter.setFont(small);
    painter.setPen(outlineOf(box.change, 1).color());
    QString sign = QString::fromUtf8(signOf(box.change));
    if (module) {
      QStringList parts;
      if (box.added > 0) parts << QStringLiteral("+%1").arg(box.added);
      if (box.removed > 0) parts << QStringLiteral("\u2212%1").arg(box.removed);
      if (box.changed > 0) parts << QStringLiteral("~%1").arg(box.changed);
      sign = parts.join(QLatin1Char(' '));
      const double width = painter.fontMetrics().horizontalAdvance(sign) + 8;
      const QRectF tag(r.right() - width - 4, r.top() - 8, width, 15);
      painter.setPen(QPen(outlineOf(box.change, 1).color(), 1));
      painter.setBrush(tone(Tone::kWindow));
      painter.drawRoundedRect(tag, 4, 4);
      painter.drawText(tag, Qt::AlignCenter, sign);
    } else {
      painter.drawText(r.adjusted(4, 0, 0, 0), Qt::AlignLeft | Qt::AlignTop, sign);
    }
  }
}

void GraphView::paintFrameTitle(QPainter& painter, const SceneBox& box) const {
  const QRectF r = toQt(box.rect);
  QFont font = readingFont();
  font.setPointSizeF(font.pointSizeF() * 0.92);
  painter.setFont(font);
  const QFontMetricsF metrics(font);
  const QString text = metrics.elidedText(QStringLiteral("\u25be ") + spscope::ui::toQt(box.title), Qt::ElideMiddle, r.width() - 20);
  const QRectF place(r.left() + 10, r.top() + 4, metrics.horizontalAdvance(text), metrics.height());
  painter.fillRect(place.adjusted(-2, 0, 2, 0), frameFill(box.depth));
  painter.setPen(tone(Tone::kSecondary));
  painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, text);
}

void GraphView::paintEdge(QPainter& painter, const GraphDrawing& scene, const SceneEdge& edge, bool lit, double scale) const {
  QColor color = toQt(currentTheme().mix(currentTheme().color(Tone::kLine), currentTheme().color(Tone::kSecondary), 0.7));
  double width = 1.2;
  Qt::PenStyle style = Qt::SolidLine;
  if (edge.kind == LinkKind::kCollective) color = tone(Tone::kTransfer), width = 2;
  if (edge.kind == LinkKind::kSaved) color = tone(Tone::kSaved), style = Qt::DashLine;
  if (edge.change == Change::kRemoved) color = tone(Tone::kRemoved), style = Qt::DotLine;
  if (edge.change == Change::kAdded) color = tone(Tone::kAdded);
  if (lit) color = tone(Tone::kAccent), width = 2.4;
  painter.setPen(QPen(color, std::max(width, width / std::max(scale, 0.25) * 0.5), style));
  painter.setBrush(Qt::NoBrush);
  const auto at = [&](std::size_t i) { return QPointF(edge.points[i].x, edge.points[i].y); };
  if (scale < 0.2) {
    for (std::size_t i = 0; i + 1 < edge.points.size(); ++i) painter.drawLine(at(i), at(i + 1));
    return;
  }
  QPainterPath path(at(0));
  for (std::size_t i = 0; i + 1 < edge.points.size(); ++i) {
    const QPointF a = at(i), b = at(i + 1);
    const double bend = (b.y() - a.y()) / 2;
    path.cubicTo(a + QPointF(0, bend), b - QPointF(0, bend), b);
  }
  painter.drawPath(path);
  const QPointF tip = at(edge.points.size() - 1);
  const double down = edge.upwards ? 1 : -1;
  const QPointF head[3] = {tip, tip + QPointF(-3.5, 6.5 * down), tip + QPointF(3.5, 6.5 * down)};
  painter.setBrush(color);
  painter.setPen(Qt::NoPen);
  painter.drawPolygon(head, 3);
  // How many values one line stands for.
  const SceneBox& from = scene.boxes[static_cast<std::size_t>(edge.from)];
  if (from.node < 0 && edge.links.size() > 1 && scale > 0.6) {
    painter.setFont(smallFont());
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(at(0) + QPointF(5, 13), QString::number(edge.links.size()));
  }
}

void GraphView::paintPortals(QPainter& painter, const GraphDrawing& scene, const QRectF& visible, double scale) const {
  // Per box: what leaves it far away, and what comes from far away.
  std::map<std::int32_t, std::vector<std::int32_t>> out, in;
  for (std::size_t e = 0; e < scene.edges.size(); ++e)
    if (scene.edges[e].portal) {
      out[scene.edges[e].from].push_back(scene.edges[e].to);
      in[scene.edges[e].to].push_back(scene.edges[e].from);
    }
  painter.setFont(smallFont());
  const auto stub = [&](std::int32_t box, const std::vector<std::int32_t>& ends, bool leaves) {
    const QRectF r = toQt(scene.boxes[static_cast<std::size_t>(box)].rect);
    if (!r.adjusted(-20, -20, 20, 20).intersects(visible)) return;
    const QPointF foot(leaves ? r.right() - 12 : r.left() + 12, leaves ? r.bottom() : r.top());
    const double length = leaves ? 9 : -9;
    painter.setPen(QPen(tone(Tone::kAccent), 1.2, Qt::DotLine));
    painter.drawLine(foot, foot + QPointF(0, length));
    painter.setBrush(tone(Tone::kWindow));
    painter.setPen(QPen(tone(Tone::kAccent), 1.2));
    painter.drawEllipse(foot + QPointF(0, length + (leaves ? 3 : -3)), 3, 3);
    if (scale < 0.6) return;
    QString label = leaves ? QStringLiteral("\u2192 %1").arg(ends.size()) : spscope::ui::toQt(scene.boxes[static_cast<std::size_t>(ends.front())].title);
    if (!leaves && ends.size() > 1) label += QStringLiteral(" +%1").arg(ends.size() - 1);
    painter.setPen(tone(Tone::kSecondary));
    const QRectF place(foot.x() + 6, leaves ? r.bottom() + 3 : r.top() - 17, std::max(60.0, r.width() - 24), 14);
    drawElided(painter, place, Qt::AlignLeft | Qt::AlignVCenter, label);
  };
  for (const auto& [box, ends] : out) stub(box, ends, true);
  for (const auto& [box, ends] : in) stub(box, ends, false);
}

QRectF GraphView::mapRect() const {
  if (document_.scene() == nullptr) return {};
  const Size size = document_.scene()->scene().size;
  if (size.width <= 0 || size.height <= 0) return {};
  if (size.width * scale_ <= width() && size.height * scale_ <= height()) return {};
  if (width() < kMapFrom) return {};
  const double most_x = std::min(150.0, width() * 0.16), most_y = height() - 2.0 * kMapMargin;
  const double scale = std::min(most_x / size.width, most_y / size.height);
  const double w = std::max(24.0, size.width * scale), h = std::max(16.0, size.height * scale);
  return {width() - w - kMapMargin, kMapMargin, w, h};
}

QRectF GraphView::room() const {
  const QRectF map = mapRect();
  return QRectF(rect()).adjusted(0, 0, map.isEmpty() ? 0 : -map.width() - 2 * kMapMargin, 0);
}

void GraphView::paintMap(QPainter& painter) {
  const QRectF place = mapRect();
  if (place.isEmpty()) return;
  const GraphDrawing& scene = document_.scene()->scene();
  const double sx = place.width() / scene.size.width, sy = place.height() / scene.size.height;
  const double ratio = devicePixelRatioF();
  if (map_stale_ || map_.size() != (place.size() * ratio).toSize()) {
    map_stale_ = false;
    map_ = QPixmap((place.size() * ratio).toSize());
    map_.setDevicePixelRatio(ratio);
    map_.fill(tone(Tone::kPanel));
    QPainter p(&map_);
    for (const SceneBox& box : scene.boxes) {
      QColor color = box.kind == SceneBox::Kind::kFrame ? frameFill(box.depth) : fillOf(document_.colouring()->of(box)).lighter(currentTheme().dark() ? 150 : 92);
      if (box.change != Change::kNone && box.kind != SceneBox::Kind::kFrame) color = outlineOf(box.change, 1).color();
      const Rect& r = box.rect;
      p.fillRect(QRectF(r.x * sx, r.y * sy, std::max(1.0, r.width * sx), std::max(1.0, r.height * sy)), color);
    }
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  const QPointF a = toScene({0, 0}), b = toScene(room().bottomRight());
  painter.fillRect(QRectF(room().right(), 0, width() - room().right(), height()), tone(Tone::kPanel));
  painter.setPen(tone(Tone::kLine));
  painter.drawLine(room().topRight(), room().bottomRight());
  painter.drawPixmap(place.topLeft(), map_);
  const QRectF window = QRectF(place.left() + a.x() * sx, place.top() + a.y() * sy, (b.x() - a.x()) * sx, (b.y() - a.y()) * sy).intersected(place);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(tone(Tone::kLine), 1));
  painter.drawRect(place.adjusted(-1, -1, 0, 0));
  painter.setPen(QPen(tone(Tone::kAccent), 1));
  painter.drawRect(window.adjusted(0, 0, -1, -1));
}

QImage GraphView::wholeImage() const {
  if (document_.scene() == nullptr) return {};
  const Size size = document_.scene()->scene().size;
  const double scale = std::min({1.0, 16384.0 / std::max(1.0f, size.width), 16384.0 / std::max(1.0f, size.height)});
  QImage image(QSize(static_cast<int>(size.width * scale) + 1, static_cast<int>(size.height * scale) + 1), QImage::Format_RGB32);
  if (image.isNull()) return image;
  image.fill(tone(Tone::kWindow));
  QPainter painter(&image);
  painter.scale(scale, scale);
  paintScene(painter, QRectF(0, 0, size.width, size.height), scale);
  return image;
}

}  // namespace spscope::ui
