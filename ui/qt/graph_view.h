// SPDX-License-Identifier: Apache-2.0
// Paints the scene of a GraphDocument and passes input on: pan, zoom, minimap, keyboard, open and close in place. What is far
// away is drawn with less detail; only what is visible is drawn.
#pragma once

#include <QPixmap>
#include <QWidget>
#include <functional>

#include "ui/model/graph_document.h"

class QMenu;

namespace spscope::ui {

class GraphView : public QWidget {
 public:
  GraphView(Workspace& workspace, GraphDocument& document, QWidget* parent = nullptr);
  ~GraphView() override;

  /// Everything, or what is selected. Never smaller than can be read unless `all` asks for it.
  void fit(bool all);
  void fitSelection();
  void zoomBy(double factor);
  /// At the selected node.
  void toggleBreakpoint();
  double zoom() const { return scale_; }
  /// Where a box is drawn, for tests.
  QRectF boxOnScreen(std::int32_t box) const;
  /// Where a click sets a breakpoint at a box, or removes it.
  QRectF dotOnScreen(std::int32_t box) const;
  /// What the graph is shown in: all but the column of the map.
  QRectF room() const;
  /// The whole graph as a picture, not only what is visible. At most 16384 pixels a side.
  QImage wholeImage() const;

  /// A second view of two side by side: both move together.
  void follow(GraphView* other);
  std::function<void()> on_moved;

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void documentChanged(GraphDocument::Event event);
  void selectionChanged();
  void choose(std::int32_t box);
  void openOrClose(std::int32_t box);
  void zoomAt(QPointF place, double factor);
  void moveTo(QPointF offset);
  void ensureVisible(std::int32_t box);
  QPointF toScene(QPointF place) const { return (place - offset_) / scale_; }
  QRectF toScreen(const Rect& r) const { return {r.x * scale_ + offset_.x(), r.y * scale_ + offset_.y(), r.width * scale_, r.height * scale_}; }
  std::int32_t boxAt(QPointF place) const;
  QRectF mapRect() const;  ///< of the minimap, which covers nothing; empty where everything is visible, or there is no room

  void paintScene(QPainter& painter, const QRectF& visible, double scale) const;
  void paintFrameTitle(QPainter& painter, const SceneBox& box) const;
  void paintBox(QPainter& painter, const SceneBox& box, bool selected, bool user, double scale) const;
  void paintEdge(QPainter& painter, const GraphDrawing& scene, const SceneEdge& edge, bool lit, double scale) const;
  void paintPortals(QPainter& painter, const GraphDrawing& scene, const QRectF& visible, double scale) const;
  void paintMap(QPainter& painter);
  /// Breakpoints and where ranks stand: debug_paint.cpp.
  void paintMarks(QPainter& painter, const QRectF& visible, double scale) const;
  std::int32_t dotAt(QPointF place) const;  ///< the box of a node whose dot is there; -1
  void toggleBreakpointAt(std::int32_t box);
  void addBreakpointActions(QMenu& menu, std::int32_t box);
  void paintEmpty(QPainter& painter) const;

  Workspace& workspace_;
  GraphDocument& document_;
  int listener_ = 0;
  double scale_ = 1;
  QPointF offset_;
  bool reveal_ = false;            ///< the selection is to be shown once its graph is there
  bool placed_ = false;            ///< a graph has been fitted
  std::int32_t anchor_box_ = -1;   ///< the box that keeps its place when the layout changes
  Selection anchor_;
  QPointF anchor_place_;
  QPointF drag_from_, drag_offset_;
  bool dragging_ = false, moved_ = false, on_map_ = false;
  QPixmap map_;
  bool map_stale_ = true;
  GraphView* other_ = nullptr;
};

}  // namespace spscope::ui
