// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/graph_view.h"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr double kSmallest = 0.01, kLargest = 4, kReadable = 0.8;

}  // namespace

GraphView::GraphView(Workspace& workspace, GraphDocument& document, QWidget* parent) : QWidget(parent), workspace_(workspace), document_(document) {
  setObjectName(QStringLiteral("graph"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(false);
  setMinimumSize(160, 120);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName(QStringLiteral("Graph"));
  setAccessibleDescription(QStringLiteral("Arrow keys move the selection, Enter opens and closes a module, plus and minus zoom, F shows everything"));
  document_.on_change = [this](GraphDocument::Event event) { documentChanged(event); };
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kSelection) selectionChanged();
    if ((topic == Topic::kBusy && document_.scene() == nullptr) || topic == Topic::kDebug) update();
  });
}

GraphView::~GraphView() {
  document_.on_change = nullptr;
  workspace_.unlisten(listener_);
}

void GraphView::documentChanged(GraphDocument::Event event) {
  map_stale_ = true;
  if (event == GraphDocument::Event::kReplaced && std::exchange(reveal_, false)) document_.revealSelection();
  if (event != GraphDocument::Event::kColours && document_.scene() != nullptr) {
    const std::int32_t box = anchor_box_ >= 0 ? [&] {
      // The box that was looked at may have another number now.
      const GraphDrawing& scene = document_.scene()->scene();
      for (std::size_t i = 0; i < scene.boxes.size(); ++i) {
        const Selection s = document_.selectionOf(static_cast<std::int32_t>(i));
        if (s.node == anchor_.node && s.value == anchor_.value && s.module == anchor_.module) return static_cast<std::int32_t>(i);
      }
      return std::int32_t{-1};
    }() : document_.selectedBox();
    if (!placed_) {
      placed_ = true;
      fit(false);
      if (document_.selectedBox() >= 0) ensureVisible(document_.selectedBox());
    } else if (box >= 0 && anchor_box_ >= 0) {
      const Rect& r = document_.scene()->scene().boxes[static_cast<std::size_t>(box)].rect;
      offset_ = anchor_place_ - QPointF(r.x, r.y) * scale_;
      moveTo(offset_);
    } else if (box >= 0) {
      ensureVisible(box);
    } else {
      moveTo(offset_);
    }
  }
  anchor_box_ = -1;
  if (document_.scene() == nullptr) placed_ = false;
  update();
  if (on_moved) on_moved();
}

void GraphView::selectionChanged() {
  if (document_.scene() != nullptr && (workspace_.selection().node != ir::kNone || !workspace_.selection().module.empty())) {
    const std::int32_t before = document_.selectedBox();
    reveal_ = document_.busy();
    if (before < 0 || document_.scene()->scene().boxes[static_cast<std::size_t>(before)].node < 0) document_.revealSelection();
    if (const std::int32_t box = document_.selectedBox(); box >= 0) ensureVisible(box);
  }
  update();
}

// --- where things are -------------------------------------------------------------------------------------------------

void GraphView::fit(bool all) {
  if (document_.scene() == nullptr) return;
  const Size size = document_.scene()->scene().size;
  const double margin = 12;
  const double whole = std::min((width() - 2 * margin) / std::max(1.0f, size.width), (height() - 2 * margin) / std::max(1.0f, size.height));
  scale_ = std::clamp(all ? std::min(whole, 1.25) : std::clamp(whole, kReadable, 1.0), kSmallest, kLargest);
  const double wide = room().width();
  offset_ = {(wide - size.width * scale_) / 2, size.height * scale_ > height() ? margin : (height() - size.height * scale_) / 2};
  if (!all && size.width * scale_ > wide) {
    // Too wide to be read as a whole: where the program begins.
    const GraphDrawing& scene = document_.scene()->scene();
    float x = size.width / 2;
    for (const SceneBox& b : scene.boxes)
      if (b.kind != SceneBox::Kind::kFrame) {
        x = b.rect.x + b.rect.width / 2;
        break;
      }
    offset_.setX(wide / 2.0 - x * scale_);
  }
  moveTo(offset_);
}

void GraphView::fitSelection() {
  const std::int32_t box = document_.selectedBox();
  if (box < 0) return fit(false);
  const Rect r = document_.scene()->scene().boxes[static_cast<std::size_t>(box)].rect;
  const double whole = std::min<double>((room().width() - 48) / std::max(1.0f, r.width), (height() - 48) / std::max(1.0f, r.height));
  scale_ = std::clamp(whole, kReadable, 1.0);
  const double y = r.height * scale_ > height() - 48 ? 24 - r.y * scale_ : height() / 2.0 - (r.y + r.height / 2) * scale_;
  moveTo({room().width() / 2.0 - (r.x + r.width / 2) * scale_, y});
}

void GraphView::zoomBy(double factor) { zoomAt(room().center(), factor); }

void GraphView::zoomAt(QPointF place, double factor) {
  const double wanted = std::clamp(scale_ * factor, kSmallest, kLargest);
  const QPointF at = toScene(place);
  scale_ = wanted;
  moveTo(place - at * scale_);
}

void GraphView::moveTo(QPointF offset) {
  // Some of the graph always stays in sight.
  if (document_.scene() != nullptr) {
    const Size size = document_.scene()->scene().size;
    const double keep = 60;
    offset.setX(std::clamp(offset.x(), std::min(keep - size.width * scale_, 0.0), std::max(room().width() - keep, 0.0)));
    offset.setY(std::clamp(offset.y(), std::min(keep - size.height * scale_, 0.0), std::max(height() - keep, 0.0)));
  }
  offset_ = offset;
  if (other_ != nullptr && (other_->offset_ != offset_ || other_->scale_ != scale_)) {
    other_->scale_ = scale_;
    other_->offset_ = offset_;
    other_->update();
  }
  update();
}

void GraphView::follow(GraphView* other) { other_ = other; }

void GraphView::ensureVisible(std::int32_t box) {
  const QRectF r = boxOnScreen(box);
  const QRectF inner = room().adjusted(30, 30, -30, -30);
  if (inner.contains(r) || (r.height() > inner.height() && r.intersects(inner) && r.top() <= inner.top())) return;
  if (scale_ < 0.3) scale_ = kReadable;
  const Rect& s = document_.scene()->scene().boxes[static_cast<std::size_t>(box)].rect;
  const double height_on_screen = s.height * scale_;
  moveTo({room().width() / 2.0 - (s.x + s.width / 2) * scale_, height_on_screen > inner.height() ? 30 - s.y * scale_ : height() / 2.0 - (s.y + s.height / 2) * scale_});
}

QRectF GraphView::boxOnScreen(std::int32_t box) const { return toScreen(document_.scene()->scene().boxes[static_cast<std::size_t>(box)].rect); }

std::int32_t GraphView::boxAt(QPointF place) const {
  if (document_.scene() == nullptr || !room().contains(place)) return -1;
  const QPointF p = toScene(place);
  return document_.scene()->boxAt({static_cast<float>(p.x()), static_cast<float>(p.y())});
}

// --- input --------------------------------------------------------------------------------------------------------------

void GraphView::choose(std::int32_t box) {
  Selection s = document_.selectionOf(box);
  workspace_.select(s);
  if (box >= 0) setAccessibleDescription(toQt(boxTip(document_.scene()->source(), document_.scene()->scene().boxes[static_cast<std::size_t>(box)])));
}

void GraphView::openOrClose(std::int32_t box) {
  if (box < 0) return;
  const SceneBox& b = document_.scene()->scene().boxes[static_cast<std::size_t>(box)];
  if (b.module < 0) return;
  anchor_box_ = box;
  anchor_ = document_.selectionOf(box);
  anchor_place_ = boxOnScreen(box).topLeft();
  document_.toggle(b.module);
}

bool GraphView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const std::int32_t box = boxAt(help->pos());
    if (box < 0)
      QToolTip::hideText();
    else
      QToolTip::showText(help->globalPos(), toQt(boxTip(document_.scene()->source(), document_.scene()->scene().boxes[static_cast<std::size_t>(box)])).toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")), this);
    return true;
  }
  return QWidget::event(event);
}

void GraphView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    map_stale_ = true;
    update();
  }
  QWidget::changeEvent(event);
}

/// What was in the middle stays there.
void GraphView::resizeEvent(QResizeEvent* event) {
  const QSize before = event->oldSize(), grown = event->size() - before;
  moveTo(before.isValid() ? offset_ + QPointF(grown.width(), grown.height()) / 2 : offset_);
}

void GraphView::wheelEvent(QWheelEvent* event) {
  const double steps = event->angleDelta().y();
  if (event->modifiers() & Qt::ShiftModifier)
    moveTo(offset_ + QPointF(steps != 0 ? steps : event->angleDelta().x(), 0) * 0.5);
  else if (event->angleDelta().x() != 0 && steps == 0)
    moveTo(offset_ + QPointF(event->angleDelta().x(), 0) * 0.5);
  else
    zoomAt(event->position(), std::pow(1.0015, steps));
  event->accept();
}

void GraphView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton && event->button() != Qt::MiddleButton) return;
  drag_from_ = event->position();
  drag_offset_ = offset_;
  dragging_ = true;
  moved_ = false;
  on_map_ = mapRect().contains(event->position());
  if (on_map_) mouseMoveEvent(event);
}

void GraphView::mouseMoveEvent(QMouseEvent* event) {
  if (!dragging_) return;
  if (on_map_) {
    const QRectF map = mapRect();
    if (map.isEmpty()) return;
    const Size size = document_.scene()->scene().size;
    const QPointF at((event->position().x() - map.left()) / map.width() * size.width, (event->position().y() - map.top()) / map.height() * size.height);
    moved_ = true;
    return moveTo(room().center() - at * scale_);
  }
  const QPointF delta = event->position() - drag_from_;
  if (!moved_ && delta.manhattanLength() < QApplication::startDragDistance()) return;
  moved_ = true;
  setCursor(Qt::ClosedHandCursor);
  moveTo(drag_offset_ + delta);
}

void GraphView::mouseReleaseEvent(QMouseEvent* event) {
  unsetCursor();
  if (dragging_ && !moved_ && event->button() == Qt::LeftButton) {
    if (const std::int32_t box = dotAt(event->position()); box >= 0) toggleBreakpointAt(box);
    else choose(boxAt(event->position()));
  }
  dragging_ = false;
}

void GraphView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton) openOrClose(boxAt(event->position()));
}

void GraphView::keyPressEvent(QKeyEvent* event) {
  const std::int32_t box = document_.selectedBox();
  const bool pan = event->modifiers() & Qt::ShiftModifier;
  const auto go = [&](int dx, int dy) {
    if (pan) return moveTo(offset_ - QPointF(dx, dy) * 80);
    const std::int32_t next = document_.neighbour(box, dx, dy);
    if (next >= 0) choose(next);
  };
  switch (event->key()) {
    case Qt::Key_Left: return go(-1, 0);
    case Qt::Key_Right: return go(1, 0);
    case Qt::Key_Up: return go(0, -1);
    case Qt::Key_Down: return go(0, 1);
    case Qt::Key_Plus:
    case Qt::Key_Equal: return zoomBy(1.25);
    case Qt::Key_Minus: return zoomBy(0.8);
    case Qt::Key_F: return fit(true);
    case Qt::Key_Home: return fit(false);
    case Qt::Key_Space: return fitSelection();
    case Qt::Key_Return:
    case Qt::Key_Enter: return openOrClose(box);
    default: QWidget::keyPressEvent(event);
  }
}

void GraphView::contextMenuEvent(QContextMenuEvent* event) {
  if (document_.scene() == nullptr) return;
  const std::int32_t box = event->reason() == QContextMenuEvent::Keyboard ? document_.selectedBox() : boxAt(event->pos());
  if (box >= 0) choose(box);
  QMenu menu;
  if (box >= 0) {
    const SceneBox b = document_.scene()->scene().boxes[static_cast<std::size_t>(box)];
    if (b.module >= 0) {
      menu.addAction(b.kind == SceneBox::Kind::kModule ? QStringLiteral("Open") : QStringLiteral("Close"), [this, box] { openOrClose(box); });
      menu.addAction(QStringLiteral("Open everything inside"), [this, m = b.module] { document_.openAll(m, 100); });
    }
    addBreakpointActions(menu, box);
    menu.addAction(QStringLiteral("Copy"), [this, b] { QApplication::clipboard()->setText(toQt(boxTip(document_.scene()->source(), b))); });
    menu.addAction(QStringLiteral("Centre"), [this] { fitSelection(); });
    menu.addSeparator();
  }
  menu.addAction(QStringLiteral("Show everything"), [this] { fit(true); });
  menu.addAction(QStringLiteral("Close all modules"), [this] { document_.closeAll(); });
  menu.exec(event->globalPos());
}

}  // namespace spscope::ui
