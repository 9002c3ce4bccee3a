// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/settings_popup.h"

#include <QApplication>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <algorithm>

#include "ui/model/settings_model.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr int kWidth = 560;

/// Also where `w` is the list of a box, which is a window of its own.
bool belongsTo(const QWidget* w, const QWidget* whole) {
  for (; w != nullptr; w = w->parentWidget())
    if (w == whole) return true;
  return false;
}

}  // namespace

SettingsPopup::SettingsPopup(Workspace& workspace, QWidget* parent) : QFrame(parent), workspace_(workspace), refusal_(new QLabel) {
  setObjectName(QStringLiteral("settings"));
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  auto* rows = new QGridLayout(this);
  rows->setContentsMargins(14, 12, 14, 12);
  rows->setHorizontalSpacing(12);
  rows->setVerticalSpacing(7);
  rows->setColumnStretch(2, 1);
  int row = 0;
  for (const std::string& name : furtherSettings()) {
    const SettingInfo& info = *findSetting(name);
    auto* label = new QLabel(toQt(info.label));
    auto* box = new SettingBox(workspace_, name);
    box->on_applied = [this, box] {
      refusal_->setText(box->refusal());
      refusal_->setVisible(!box->refusal().isEmpty());
      adjustSize();
    };
    auto* meaning = new QLabel(toQt(info.tooltip));
    meaning->setFont(smallFont());
    meaning->setForegroundRole(QPalette::PlaceholderText);
    meaning->setWordWrap(true);
    label->setBuddy(box);
    rows->addWidget(label, row, 0);
    rows->addWidget(box, row, 1);
    rows->addWidget(meaning, row, 2);
    boxes_.push_back(box);
    ++row;
  }
  refusal_->setWordWrap(true);
  refusal_->hide();
  rows->addWidget(refusal_, row, 0, 1, 3);
  setFixedWidth(kWidth);
  parent->installEventFilter(this);
  connect(qApp, &QApplication::focusChanged, this, [this](QWidget*, QWidget* now) {
    if (isVisible() && now != nullptr && now != anchor_ && !belongsTo(now, this)) hide();
  });
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kModel || topic == Topic::kSettings) refresh();
  });
  hide();
}

SettingsPopup::~SettingsPopup() {
  workspace_.unlisten(listener_);
  for (SettingBox* box : boxes_) box->on_applied = {};
}

SettingBox* SettingsPopup::boxOf(const std::string& setting) const { return boxNamed(boxes_, setting); }

void SettingsPopup::refresh() {
  if (!isVisible()) return;  // read when it opens
  for (SettingBox* box : boxes_) box->refresh();
}

void SettingsPopup::open(const QWidget& anchor) {
  anchor_ = &anchor;  // a click on it closes
  QPalette p = refusal_->palette();
  p.setColor(QPalette::WindowText, tone(Tone::kBad));
  refusal_->setPalette(p);
  show();
  refresh();
  place();
  raise();
  boxes_.front()->setFocus();
}

void SettingsPopup::place() {
  adjustSize();
  const QPoint below = anchor_->mapTo(parentWidget(), QPoint(0, anchor_->height() + 4));
  move(std::clamp(below.x(), 8, std::max(8, parentWidget()->width() - width() - 8)), below.y());
}

bool SettingsPopup::eventFilter(QObject* watched, QEvent* event) {
  if (watched == parentWidget() && event->type() == QEvent::Resize && isVisible()) place();
  return QFrame::eventFilter(watched, event);
}

bool SettingsPopup::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride || event->type() == QEvent::KeyPress)
    if (static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
      if (event->type() == QEvent::KeyPress) hide(), parentWidget()->setFocus();
      event->accept();
      return true;
    }
  return QFrame::event(event);
}

}  // namespace spscope::ui
