// SPDX-License-Identifier: Apache-2.0
// A button that is an action: its text, tooltip and whether it can be pressed go with it.
#pragma once

#include <QAction>
#include <QPushButton>

namespace spscope::ui {

inline QPushButton* buttonOf(QAction* action, QWidget* parent) {
  auto* button = new QPushButton(action->text(), parent);
  button->setToolTip(action->toolTip());
  button->setAccessibleName(action->text());
  button->setEnabled(action->isEnabled());
  QObject::connect(action, &QAction::changed, button, [button, action] {
    button->setEnabled(action->isEnabled());
    button->setText(action->text());
    button->setToolTip(action->toolTip());
  });
  QObject::connect(button, &QPushButton::clicked, action, &QAction::trigger);
  return button;
}

}  // namespace spscope::ui
