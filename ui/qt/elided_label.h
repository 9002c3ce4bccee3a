// SPDX-License-Identifier: Apache-2.0
// A line of text that is shortened to its room instead of being cut; the tooltip has it whole.
#pragma once

#include <QLabel>
#include <QPainter>

namespace spscope::ui {

class ElidedLabel : public QLabel {
 public:
  explicit ElidedLabel(QWidget* parent = nullptr, Qt::TextElideMode mode = Qt::ElideRight) : QLabel(parent), mode_(mode) {
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    setTextFormat(Qt::PlainText);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setPen(palette().color(isEnabled() ? QPalette::Active : QPalette::Disabled, foregroundRole()));
    const QRect room = contentsRect();
    painter.drawText(room, static_cast<int>(alignment()), fontMetrics().elidedText(text(), mode_, room.width()));
  }

 private:
  Qt::TextElideMode mode_;
};

}  // namespace spscope::ui
