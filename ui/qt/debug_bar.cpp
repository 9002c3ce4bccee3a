// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/debug_bar.h"

#include <QEvent>
#include <QHBoxLayout>

#include "ui/qt/action_button.h"
#include "ui/qt/elided_label.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {

DebugBar::DebugBar(Workspace& workspace, const std::vector<std::vector<QAction*>>& groups, QWidget* parent) : QFrame(parent), workspace_(workspace), state_(new ElidedLabel) {
  setObjectName(QStringLiteral("bar"));
  setAccessibleName(QStringLiteral("Debugger"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(10, 4, 10, 4);
  row->setSpacing(4);
  for (const auto& group : groups) {
    for (QAction* action : group) row->addWidget(buttonOf(action, this));
    row->addSpacing(10);
  }
  state_->setAccessibleName(QStringLiteral("Where the ranks stand"));
  row->addWidget(state_, 1);
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kDebug || topic == Topic::kBusy || topic == Topic::kModel) refresh();
  });
  refresh();
}

DebugBar::~DebugBar() { workspace_.unlisten(listener_); }

void DebugBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) QMetaObject::invokeMethod(this, [this] { refresh(); }, Qt::QueuedConnection);
  QFrame::changeEvent(event);
}

void DebugBar::refresh() {
  const DebugSession& debug = workspace_.debug();
  const QString text = toQt(debug.headline());
  setVisible(debug.on() || !text.isEmpty());
  const bool moving = debug.state() == DebugSession::State::kStarting || debug.state() == DebugSession::State::kMoving;
  const bool failed = !moving && (debug.lastError() || (!debug.on() && debug.startError()) || (debug.stop() && debug.stop()->reason == session::debug::StopReason::kFailed));
  const bool met = debug.stop() && debug.stop()->breakpoint > 0;
  colour(state_, moving ? Tone::kAccent : failed ? Tone::kBad : met ? Tone::kWarning : Tone::kText);
  state_->setText((moving ? QStringLiteral("… ") : failed ? QStringLiteral("✗ ") : met ? QStringLiteral("● ") : QString()) + text);
  state_->setToolTip(text);
}

}  // namespace spscope::ui
