// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/setting_box.h"

#include <QApplication>
#include <QLineEdit>
#include <QStandardItemModel>

#include "ui/model/settings_model.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {

SettingBox::SettingBox(Workspace& workspace, std::string name, QWidget* parent) : QComboBox(parent), workspace_(workspace), name_(std::move(name)) {
  const SettingInfo& info = *findSetting(name_);
  setObjectName(toQt(name_));
  setEditable(info.free);
  setInsertPolicy(QComboBox::NoInsert);
  setSizeAdjustPolicy(QComboBox::AdjustToContents);
  setMinimumContentsLength(info.free ? 3 : 0);
  setMaximumWidth(130);
  setAccessibleName(toQt(info.label));
  setToolTip(toQt(info.tooltip));
  connect(this, &QComboBox::textActivated, this, [this](const QString& text) { apply(text); });
  if (info.free) connect(lineEdit(), &QLineEdit::editingFinished, this, [this] { apply(currentText()); });
  refresh();
}

void SettingBox::apply(const QString& text) {
  const Status set = workspace_.set(name_, text.trimmed().toStdString());
  refusal_ = set ? QString() : toQt(set.error().message + (set.error().legal.empty() ? "" : ". Offered: " + set.error().legal));
  setToolTip(set ? toQt(findSetting(name_)->tooltip) : refusal_);
  if (lineEdit() != nullptr && property("refused").toBool() == static_cast<bool>(set)) {
    setProperty("refused", !set);
    QPalette p = qApp->palette(this);
    if (!set) p.setColor(QPalette::Text, tone(Tone::kBad));
    lineEdit()->setPalette(p);
  }
  if (on_applied) on_applied();
}

void SettingBox::refresh() {
  const QSignalBlocker quiet(this);
  const std::vector<ChoiceState> choices = choicesFor(workspace_.model().get(), workspace_.settings(), name_);
  const QString now = toQt(settingText(workspace_.settings(), name_));
  QString all = now;
  for (const ChoiceState& choice : choices) all += toQt("\n" + choice.value + "\t" + choice.reason);
  if (all == shown_ && currentText() == now) return;  // a list that is open stays
  shown_ = all;
  clear();
  auto* items = qobject_cast<QStandardItemModel*>(model());
  for (const ChoiceState& choice : choices) {
    addItem(toQt(choice.value));
    if (choice.legal) continue;
    QStandardItem* item = items->item(count() - 1);
    item->setFlags(item->flags() & ~Qt::ItemIsEnabled);
    item->setToolTip(toQt(choice.reason));
    item->setData(toQt(choice.value + ": " + choice.reason), Qt::AccessibleDescriptionRole);
  }
  if (findText(now) < 0) addItem(now);
  setCurrentText(now);
  setCurrentIndex(findText(now));
}

SettingBox* boxNamed(const std::vector<SettingBox*>& boxes, const std::string& setting) {
  for (SettingBox* box : boxes)
    if (box->setting() == setting) return box;
  return nullptr;
}

}  // namespace spscope::ui
