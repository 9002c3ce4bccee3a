// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/settings_bar.h"

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QStandardItemModel>

#include "ui/model/settings_model.h"
#include "ui/model/stage_strip.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

/// Those of the top row; the rest belongs to the run panel.
constexpr int kNarrow = 1400;
constexpr const char* kShown[] = {"seq", "batch", "sp", "dp", "save", "dtype", "memory-limit"};

QPushButton* buttonOf(QAction* action, QWidget* parent) {
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

}  // namespace

SettingsBar::SettingsBar(Workspace& workspace, const Actions& actions, QWidget* parent) : QFrame(parent), workspace_(workspace), file_(new QLabel), verdict_(new QLabel) {
  setObjectName(QStringLiteral("bar"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(10, 6, 10, 6);
  row->setSpacing(6);
  file_->setFont(readingFont(true));
  file_->setTextInteractionFlags(Qt::NoTextInteraction);
  row->addWidget(file_);
  row->addSpacing(8);
  for (const char* name : kShown) row->addWidget(makeBox(name));
  row->addSpacing(4);
  QPushButton* compile = buttonOf(actions.compile, this);
  compile->setObjectName(QStringLiteral("primary"));
  row->addWidget(compile);
  row->addWidget(buttonOf(actions.verify, this));
  row->addWidget(buttonOf(actions.run, this));
  row->addWidget(buttonOf(actions.stop, this));
  row->addStretch(1);
  verdict_->setAccessibleName(QStringLiteral("Verdict"));
  verdict_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  verdict_->setMinimumWidth(40);
  verdict_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  verdict_->installEventFilter(this);  // shortened to its room
  row->addWidget(verdict_, 100);
  row->addWidget(buttonOf(actions.search, this));
  listener_ = workspace_.listen([this](Topic topic) {
    switch (topic) {
      case Topic::kModel:
      case Topic::kSettings: refreshSettings(); [[fallthrough]];
      case Topic::kBusy:
      case Topic::kCompiled:
      case Topic::kVerified:
      case Topic::kRun: refreshState(); break;
      default: break;
    }
  });
  refreshSettings();
  refreshState();
}

SettingsBar::~SettingsBar() { workspace_.unlisten(listener_); }

QComboBox* SettingsBar::boxOf(const std::string& setting) const { return boxes_.at(setting); }

QWidget* SettingsBar::makeBox(const std::string& name) {
  const SettingInfo& info = *findSetting(name);
  auto* holder = new QWidget;
  auto* row = new QHBoxLayout(holder);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(4);
  auto* label = new QLabel(toQt(info.label));
  label->setFont(smallFont());
  label->setForegroundRole(QPalette::PlaceholderText);
  auto* box = new QComboBox;
  box->setEditable(info.free);
  box->setInsertPolicy(QComboBox::NoInsert);
  box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  box->setMinimumContentsLength(info.free ? 3 : 0);
  box->setMaximumWidth(130);
  box->setAccessibleName(toQt(info.label));
  box->setToolTip(toQt(info.tooltip));
  label->setBuddy(box);
  row->addWidget(label);
  row->addWidget(box);
  boxes_[name] = box;
  connect(box, &QComboBox::textActivated, this, [this, name](const QString& text) { apply(name, text); });
  if (info.free) connect(box->lineEdit(), &QLineEdit::editingFinished, this, [this, name, box] { apply(name, box->currentText()); });
  return holder;
}

void SettingsBar::apply(const std::string& name, const QString& text) {
  const Status set = workspace_.set(name, text.trimmed().toStdString());
  QComboBox* box = boxes_.at(name);
  const QString tip = set ? toQt(findSetting(name)->tooltip) : toQt(set.error().message + (set.error().legal.empty() ? "" : ". Offered: " + set.error().legal));
  box->setToolTip(tip);
  if (box->property("refused").toBool() == !set || box->lineEdit() == nullptr) return;
  box->setProperty("refused", !set);
  QPalette p = qApp->palette(box);
  if (!set) p.setColor(QPalette::Text, tone(Tone::kBad));
  box->lineEdit()->setPalette(p);
}

void SettingsBar::refreshSettings() {
  for (const auto& [name, box] : boxes_) {
    const QSignalBlocker quiet(box);
    const std::vector<ChoiceState> choices = choicesFor(workspace_.model().get(), workspace_.settings(), name);
    box->clear();
    for (const ChoiceState& choice : choices) {
      box->addItem(toQt(choice.value));
      auto* model = qobject_cast<QStandardItemModel*>(box->model());
      QStandardItem* item = model->item(box->count() - 1);
      if (choice.legal) continue;
      item->setFlags(item->flags() & ~Qt::ItemIsEnabled);
      item->setToolTip(toQt(choice.reason));
      item->setData(toQt(choice.value + ": " + choice.reason), Qt::AccessibleDescriptionRole);
    }
    const QString now = toQt(settingText(workspace_.settings(), name));
    if (box->findText(now) < 0) box->addItem(now);
    box->setCurrentText(now);
    box->setCurrentIndex(box->findText(now));
  }
  file_->setText(workspace_.model() ? toQt(workspace_.model()->display_name) : QStringLiteral("no model"));
  file_->setToolTip(workspace_.model() ? toQt(workspace_.model()->path) : QString());
}

void SettingsBar::resizeEvent(QResizeEvent* event) {
  QFrame::resizeEvent(event);
  // The verdict needs room more than what is seldom changed.
  for (const char* name : {"dtype", "batch"}) boxes_.at(name)->parentWidget()->setVisible(width() > kNarrow);
}

bool SettingsBar::eventFilter(QObject* watched, QEvent* event) {
  if (watched == verdict_ && event->type() == QEvent::Resize) verdict_->setText(verdict_->fontMetrics().elidedText(verdict_text_, Qt::ElideRight, verdict_->width()));
  return QFrame::eventFilter(watched, event);
}

void SettingsBar::changeEvent(QEvent* event) {
  if ((event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange) && !boxes_.empty()) refreshState();
  QFrame::changeEvent(event);
}

void SettingsBar::refreshState() {
  const StateLine verdict = stateLineOf(workspace_);
  Tone color = Tone::kSecondary;
  const char* sign = "";
  switch (verdict.kind) {
    case StateLine::Kind::kNone: break;
    case StateLine::Kind::kBusy: sign = "\u2026 "; color = Tone::kAccent; break;
    case StateLine::Kind::kEqual: sign = "\u2713 "; color = Tone::kGood; break;
    case StateLine::Kind::kDifferent: sign = "\u2260 "; color = Tone::kBad; break;
    case StateLine::Kind::kFailed: sign = "\u2717 "; color = Tone::kBad; break;
  }
  verdict_text_ = QString::fromUtf8(sign) + toQt(verdict.text);
  verdict_->setText(verdict_->fontMetrics().elidedText(verdict_text_, Qt::ElideRight, verdict_->width()));
  verdict_->setToolTip(toQt(verdict.tip));
  QPalette p = verdict_->palette();
  p.setColor(QPalette::WindowText, tone(color));
  verdict_->setPalette(p);
}

}  // namespace spscope::ui
