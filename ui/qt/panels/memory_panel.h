// SPDX-License-Identifier: Apache-2.0
// The memory curves of ui/model/memory_view.h: a row of curves to choose from, the plot, its legend and what lives at the peak.
// Draws only.
#pragma once

#include <QColor>
#include <QWidget>
#include <functional>

#include "ui/model/memory_view.h"
#include "ui/model/theme.h"

class QLabel;
class QHBoxLayout;
class QListWidget;
class QScrollArea;
class QToolButton;

namespace spscope::ui {

/// The colour of a class, in the plot and in its legend.
Tone toneOf(passes::MemoryClass memory_class);
/// Of the line of a curve that is not focused.
QColor curveColor(int number);

class MemoryPlot final : public QWidget {
 public:
  explicit MemoryPlot(MemoryView& view, QWidget* parent = nullptr);
  MemoryViewport viewport() const;
  /// Pixel of the focused curve's peak, for tests and scripts; none where it is not in sight.
  std::optional<QPointF> peakPoint() const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  void zoom(double x, double factor);
  void pan(double pixels);
  void keepInside();

  MemoryView& view_;
  double from_ = 0, to_ = 1;
  double hover_ = -1;   ///< x of the pointer
  QPointF pressed_;
  double moved_ = 0;    ///< how far it was dragged: a drag is no click
};

class MemoryPanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  MemoryPanel(Workspace& workspace, QWidget* parent = nullptr);
  MemoryView& view() { return view_; }
  MemoryPlot& plot() { return *plot_; }
  /// "sac on 2 ranks · peak ...": the answer, for the dock's title.
  QString headline() const { return QString::fromStdString(view_.header()); }
  std::function<void()> on_headline;

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void fill();
  void fitChoices();  ///< room for the bar by which a narrow panel scrolls them

  MemoryView view_;
  QLabel* header_ = nullptr;
  QScrollArea* choices_scroll_ = nullptr;
  QWidget* choices_ = nullptr;
  QHBoxLayout* choices_row_ = nullptr;
  std::vector<QToolButton*> buttons_;
  MemoryPlot* plot_ = nullptr;
  QLabel* legend_ = nullptr;
  QListWidget* living_ = nullptr;
};

}  // namespace spscope::ui
