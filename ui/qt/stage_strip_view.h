// SPDX-License-Identifier: Apache-2.0
// Draws the stage strip: one button per chip of ui/model/stage_strip.h.
#pragma once

#include <QAbstractButton>
#include <QScrollArea>
#include <vector>

#include "ui/model/stage_strip.h"

class QHBoxLayout;
class QPainter;

namespace spscope::ui {

class StageChipButton : public QAbstractButton {
 public:
  explicit StageChipButton(QWidget* parent = nullptr);
  void setChip(const StageChip& chip);
  const StageChip& chip() const { return chip_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;
  /// Where not all chips have the room that they want: names on two lines, figures in their short form.
  void setTight(bool tight);
  /// What a stage that changed nothing shrinks to, so that the others have room: its initials. The pointer is told the rest.
  void setSlim(bool slim);
  bool slim() const { return slim_; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  int heightOf(bool tight) const;
  void paintSlim(QPainter& painter, const QRectF& inside) const;
  StageChip chip_;
  bool tight_ = false, slim_ = false;
};

class StageStripView : public QScrollArea {
 public:
  explicit StageStripView(Workspace& workspace, QWidget* parent = nullptr);
  ~StageStripView() override;
  /// For tests.
  StageChipButton* chipNamed(const QString& name) const;

 protected:
  void wheelEvent(QWheelEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void refresh();
  void arrange();
  Workspace& workspace_;
  int listener_ = 0;
  QWidget* row_;
  QHBoxLayout* layout_;
  std::vector<StageChipButton*> buttons_;
};

}  // namespace spscope::ui
