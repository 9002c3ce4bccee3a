// SPDX-License-Identifier: Apache-2.0
// What the graph shows of the debugger: a dot at the left side of a box is a breakpoint, a flag before it says which ranks stand there.
#include <QMenu>
#include <QPainter>
#include <map>

#include "ui/model/debug/debug_session.h"
#include "ui/qt/graph_view.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr float kDot = 5.5F, kReach = 9;  ///< its radius, and how far from it a click still means it; in the scene

}  // namespace

QRectF GraphView::dotOnScreen(std::int32_t box) const {
  const Rect& r = document_.scene()->scene().boxes[static_cast<std::size_t>(box)].rect;
  return toScreen({r.x - kReach, r.y + r.height / 2 - kReach, kReach + 2, 2 * kReach});  // mostly outside: the box itself is for choosing it
}

std::int32_t GraphView::dotAt(QPointF place) const {
  if (document_.scene() == nullptr || scale_ < 0.35 || !room().contains(place)) return -1;
  const GraphDrawing& scene = document_.scene()->scene();
  for (std::size_t i = 0; i < scene.boxes.size(); ++i)
    if (scene.boxes[i].kind == SceneBox::Kind::kNode && dotOnScreen(static_cast<std::int32_t>(i)).contains(place)) return static_cast<std::int32_t>(i);
  return -1;
}

void GraphView::toggleBreakpointAt(std::int32_t box) {
  const ir::NodeId node = document_.selectionOf(box).node;
  const auto graph = workspace_.graph();
  if (node == ir::kNone || !graph || static_cast<std::size_t>(node) >= graph->nodeCount()) return;
  workspace_.debug().toggleBreakpoint("%" + graph->node(node).name);
}

void GraphView::toggleBreakpoint() {
  const ir::NodeId node = workspace_.selection().node;
  const auto graph = workspace_.graph();
  if (node == ir::kNone || !graph || static_cast<std::size_t>(node) >= graph->nodeCount()) return;
  workspace_.debug().toggleBreakpoint("%" + graph->node(node).name);
}

void GraphView::addBreakpointActions(QMenu& menu, std::int32_t box) {
  const Selection s = document_.selectionOf(box);
  const auto graph = workspace_.graph();
  if (!graph) return;
  DebugSession& debug = workspace_.debug();
  QMenu* stop = menu.addMenu(QStringLiteral("Breakpoint"));
  const auto offer = [&](const QString& title, const std::string& text) {
    QAction* action = stop->addAction(title, [&debug, text] { debug.toggleBreakpoint(text); });
    action->setCheckable(true);
    action->setChecked(debug.breakpoints().find(text) >= 0);
  };
  if (s.node != ir::kNone && static_cast<std::size_t>(s.node) < graph->nodeCount()) {
    const ir::Node& node = graph->node(s.node);
    const std::string here = "%" + node.name;
    offer(QStringLiteral("Here\tF9"), here);
    for (const char* when : {"nan", "inf", "differs", "ranks"}) offer(QStringLiteral("Here if %1").arg(QLatin1String(when)), here + " if " + when);
    stop->addSeparator();
    offer(QStringLiteral("At every %1").arg(toQt(node.op.str())), "op " + node.op.str());
    if (node.location && !node.location->source.empty()) offer(QStringLiteral("At line %1").arg(toQt(node.location->source)), "source " + node.location->source);
    if (node.location && !node.location->module_path.empty()) offer(QStringLiteral("In module %1").arg(toQt(node.location->module_path)), "module " + node.location->module_path);
    if (const std::string line = debug.lineTo(s.node); debug.state() == DebugSession::State::kStopped && !line.empty())
      menu.addAction(toQt(line.starts_with("back") ? "Go back to here" : "Run to here"), [&debug, line] { debug.send(line); });
    return;
  }
  const ModuleIndex m = s.module.empty() ? -1 : document_.scene()->source().tree->find(s.module);
  if (m > 0 && !document_.scene()->source().tree->at(m).name.empty()) offer(QStringLiteral("In this module"), "module " + document_.scene()->source().tree->at(m).name);
  else delete stop;
}

void GraphView::paintMarks(QPainter& painter, const QRectF& visible, double scale) const {
  const DebugMarks& marks = workspace_.debug().marks(document_.source()->graph);
  if (marks.empty() && (workspace_.selection().node == ir::kNone || scale < 0.5)) return;
  // A closed module shows what is inside it.
  struct OfBox {
    NodeMark mark;
    bool closed = false;
  };
  std::map<std::int32_t, OfBox> of_box;
  for (const auto& [node, mark] : marks) {
    const std::int32_t box = document_.scene()->boxOf(node);
    if (box < 0) continue;
    OfBox& at = of_box[box];
    at.closed = document_.scene()->scene().boxes[static_cast<std::size_t>(box)].kind == SceneBox::Kind::kModule;
    if (mark.dot > at.mark.dot) at.mark.dot = mark.dot, at.mark.sign = at.closed ? "" : mark.sign;
    at.mark.ranks.insert(at.mark.ranks.end(), mark.ranks.begin(), mark.ranks.end());
    at.mark.waits = at.mark.waits || mark.waits;
  }
  // Where one could be set is shown at the selected node.
  const std::int32_t selected = scale >= 0.5 ? document_.selectedBox() : -1;
  if (selected >= 0 && document_.scene()->scene().boxes[static_cast<std::size_t>(selected)].kind == SceneBox::Kind::kNode) of_box.try_emplace(selected);
  QFont font = smallFont();
  font.setBold(true);
  painter.setFont(font);
  for (auto& [box, at] : of_box) {
    const Rect& r = document_.scene()->scene().boxes[static_cast<std::size_t>(box)].rect;
    if (!QRectF(r.x - 80, r.y, r.width + 90, r.height).intersects(visible)) continue;
    const QPointF centre(r.x, r.y + r.height / 2);
    const double grow = std::max(1.0, 0.5 / scale);  // seen from afar, too
    if (!at.mark.ranks.empty()) {
      std::sort(at.mark.ranks.begin(), at.mark.ranks.end());
      const bool all = static_cast<int>(at.mark.ranks.size()) == workspace_.debug().ranks() && at.mark.ranks.size() > 1;
      const QString text = all ? QStringLiteral("all") : toQt(rangesText(at.mark.ranks));
      const double wide = scale < 0.3 ? 14 : painter.fontMetrics().horizontalAdvance(text) + 12, high = 17, tip = 7;
      const QColor fill = tone(at.mark.waits ? Tone::kWarning : Tone::kGood);
      const double right = centre.x() - (kDot + 3) * grow;
      painter.save();
      painter.translate(right, centre.y());
      painter.scale(grow, grow);
      const QPointF flag[5] = {{-wide - tip, -high / 2}, {-tip, -high / 2}, {0, 0}, {-tip, high / 2}, {-wide - tip, high / 2}};
      painter.setPen(QPen(tone(Tone::kWindow), 1));
      painter.setBrush(fill);
      painter.drawPolygon(flag, 5);
      if (scale >= 0.3) {
        painter.setPen(tone(Tone::kWindow));
        painter.drawText(QRectF(-wide - tip, -high / 2, wide + 2, high), Qt::AlignCenter, text);
      }
      painter.restore();
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(fill, 2 * grow));
      painter.drawRoundedRect(QRectF(r.x - 1, r.y - 1, r.width + 2, r.height + 2), 6, 6);
    }
    if (at.mark.dot == NodeMark::Dot::kNone && box != selected) continue;
    const QRectF dot(centre.x() - kDot * grow - 1, centre.y() - kDot * grow, 2 * kDot * grow, 2 * kDot * grow);
    const bool on = at.mark.dot == NodeMark::Dot::kOn, faint = at.mark.dot == NodeMark::Dot::kNone;
    painter.setPen(QPen(faint ? tone(Tone::kSecondary) : tone(Tone::kBad), faint ? 1 : 1.5));
    painter.setBrush(on ? tone(Tone::kBad) : tone(faint ? Tone::kRaised : Tone::kWindow));
    painter.drawEllipse(dot);
    if (at.mark.sign.empty() || scale < 0.5) continue;
    painter.setPen(on ? tone(Tone::kWindow) : tone(Tone::kBad));
    painter.drawText(dot, Qt::AlignCenter, toQt(at.mark.sign));
  }
}

}  // namespace spscope::ui
