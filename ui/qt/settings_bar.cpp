// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/settings_bar.h"

#include <QAction>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>

#include "core/base/strings.h"
#include "ui/model/debug/debug_session.h"
#include "ui/model/settings_model.h"
#include "ui/model/stage_strip.h"
#include "ui/qt/action_button.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

/// Those of the top row. What is seldom changed stands behind More, what concerns a run in the run panel.
constexpr const char* kShown[] = {"seq", "batch", "sp", "dp", "save", "dtype", "memory-limit"};
constexpr int kNarrow = 1400;

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
  more_ = buttonOf(actions.more, this);
  more_tip_ = more_->toolTip();
  row->addWidget(more_);
  row->addSpacing(4);
  QPushButton* compile = buttonOf(actions.compile, this);
  compile->setObjectName(QStringLiteral("primary"));
  row->addWidget(compile);
  row->addWidget(buttonOf(actions.verify, this));
  row->addWidget(buttonOf(actions.run, this));
  row->addWidget(debug_ = buttonOf(actions.debug, this));
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
      case Topic::kDebug: showDebug(); break;
      default: break;
    }
  });
  refreshSettings();
  refreshState();
}

SettingsBar::~SettingsBar() { workspace_.unlisten(listener_); }

SettingBox* SettingsBar::boxOf(const std::string& setting) const { return boxNamed(boxes_, setting); }

QWidget* SettingsBar::makeBox(const std::string& name) {
  auto* holder = new QWidget;
  auto* row = new QHBoxLayout(holder);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(4);
  auto* label = new QLabel(toQt(findSetting(name)->label));
  label->setFont(smallFont());
  label->setForegroundRole(QPalette::PlaceholderText);
  auto* box = new SettingBox(workspace_, name);
  label->setBuddy(box);
  row->addWidget(label);
  row->addWidget(box);
  boxes_.push_back(box);
  return holder;
}

void SettingsBar::refreshSettings() {
  for (SettingBox* box : boxes_) box->refresh();
  // What stands behind the button and is not as usual must be seen without a click.
  const std::vector<std::string> changed = changedSettings(workspace_.settings(), furtherSettings());
  more_->setText(changed.empty() ? QStringLiteral("More") : QStringLiteral("More (%1)").arg(changed.size()));
  more_->setToolTip((changed.empty() ? QString() : toQt(join(changed, ", ")) + QLatin1Char('\n')) + more_tip_);
  file_->setText(workspace_.model() ? toQt(workspace_.model()->display_name) : QStringLiteral("no model"));
  file_->setToolTip(workspace_.model() ? toQt(workspace_.model()->path) : QString());
}

void SettingsBar::resizeEvent(QResizeEvent* event) {
  QFrame::resizeEvent(event);
  // The verdict needs room more than what is seldom changed, and stands behind the button, too.
  for (const char* name : {"dtype", "batch"}) boxOf(name)->parentWidget()->setVisible(width() > kNarrow);
  showDebug();
}

/// Where there is room: it is in the menu, too. While something is debugged it is in the row below.
void SettingsBar::showDebug() { debug_->setVisible(width() > kNarrow && !workspace_.debug().on()); }

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
