// SPDX-License-Identifier: Apache-2.0
// A value as a picture: the largest magnitudes in its cells, and how its elements are spread. Draws only.
#pragma once

#include <QWidget>
#include <memory>

#include "ui/model/debug/node_look.h"

namespace spscope::ui {

class ValuePicture final : public QWidget {
 public:
  explicit ValuePicture(QWidget* parent = nullptr);
  void setLook(std::shared_ptr<const NodeLook> look);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::shared_ptr<const NodeLook> look_;
};

}  // namespace spscope::ui
