// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/console_panel.h"

#include <QAbstractItemView>
#include <QCompleter>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QScrollBar>
#include <QStringListModel>
#include <QTextBrowser>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {
namespace {

constexpr int kOffered = 200;

}  // namespace

ConsolePanel::ConsolePanel(Workspace& workspace, QWidget* parent)
    : QWidget(parent), workspace_(workspace), text_(new QTextBrowser(this)), line_(new QLineEdit(this)), words_(new QStringListModel(this)), completer_(new QCompleter(words_, this)) {
  setObjectName(QStringLiteral("console"));
  text_->setFrameShape(QFrame::NoFrame);
  text_->setAccessibleName(tr("Answers of the debugger"));
  text_->setLineWrapMode(QTextEdit::NoWrap);
  line_->setPlaceholderText(tr("a command of the debugger, as print %mm; help lists them"));
  line_->setAccessibleName(tr("Command of the debugger"));
  line_->setToolTip(tr("Enter sends it, Up and Down bring back earlier ones, Tab completes"));
  line_->setFont(codeFont());
  line_->installEventFilter(this);
  completer_->setWidget(line_);
  completer_->setCompletionMode(QCompleter::UnfilteredPopupCompletion);
  connect(completer_, qOverload<const QString&>(&QCompleter::activated), this, [this](const QString& word) {
    const QString now = line_->text();
    line_->setText(now.left(now.lastIndexOf(QLatin1Char(' ')) + 1) + word);
  });
  connect(line_, &QLineEdit::returnPressed, this, [this] {
    const std::string text = line_->text().trimmed().toStdString();
    if (text.empty()) return;
    history_.add(text);
    line_->clear();
    workspace_.debug().send(text);
  });
  auto* clear = new QToolButton(this);
  clear->setText(tr("Clear"));
  clear->setToolTip(tr("Removes the answers above"));
  connect(clear, &QToolButton::clicked, this, [this] { workspace_.debug().clearConsole(); });
  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 4, 6, 4);
  row->setSpacing(4);
  row->addWidget(line_, 1);
  row->addWidget(clear);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->setSpacing(0);
  all->addWidget(text_, 1);
  all->addLayout(row);
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kDebug) fill();
  });
  fill();
}

ConsolePanel::~ConsolePanel() {
  workspace_.unlisten(listener_);
  stopHearing(*this);
}

void ConsolePanel::fill() {
  const auto& entries = workspace_.debug().console();
  // Told at every change of the debugger: only what is new here is laid out.
  const auto waiting = std::count_if(entries.begin(), entries.end(), [](const ConsoleEntry& e) { return !e.done; });
  const QString key = QStringLiteral("%1 %2 %3 %4").arg(entries.size()).arg(entries.empty() ? 0 : entries.back().number).arg(waiting).arg(tone(Tone::kText).name());
  if (text_->property("shown").toString() == key) return;
  text_->setProperty("shown", key);
  QString html;
  const QString block = QStringLiteral("<pre style=\"font-family:'%1'; font-size:8.25pt; margin-top:0px; margin-bottom:%2px; color:%3\">%4</pre>");
  for (const ConsoleEntry& e : entries) {
    html += block.arg(codeFont(true).family()).arg(2).arg(tone(Tone::kAccent).name(), QStringLiteral("&gt; ") + toQt(e.line).toHtmlEscaped());
    QString text = toQt(e.text);
    while (text.endsWith(QLatin1Char('\n'))) text.chop(1);
    if (!e.done) text = QStringLiteral("…");
    html += block.arg(codeFont(true).family()).arg(8).arg(tone(e.failed ? Tone::kBad : Tone::kText).name(), text.toHtmlEscaped());
  }
  if (entries.empty())
    html = QStringLiteral("<p style='color:%1; margin:6px'>%2</p>").arg(tone(Tone::kSecondary).name(), tr("Every button of the debugger says here what it sent; what is typed here, spscope debug takes, too.").toHtmlEscaped());
  text_->setHtml(html);
  text_->verticalScrollBar()->setValue(text_->verticalScrollBar()->maximum());
}

void ConsolePanel::complete() {
  const QString now = line_->text();
  QStringList words;
  for (const std::string& w : workspace_.debug().completions(now.toStdString())) {
    if (words.size() >= kOffered) break;
    words << toQt(w);
  }
  if (words.isEmpty()) return;
  // As far as all of them agree at once; what then may follow is offered.
  QString common = words.front();
  for (const QString& w : words)
    while (!w.startsWith(common)) common.chop(1);
  const qsizetype begin = now.lastIndexOf(QLatin1Char(' ')) + 1;
  if (common.size() > now.size() - begin) line_->setText(now.left(begin) + common + (words.size() == 1 ? QStringLiteral(" ") : QString()));
  if (words.size() == 1) return;
  words_->setStringList(words);
  completer_->setCompletionPrefix(common);
  QRect at = line_->rect();
  at.setWidth(360);
  completer_->complete(at);
}

bool ConsolePanel::eventFilter(QObject* watched, QEvent* event) {
  if (watched != line_ || event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
  switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Up: line_->setText(toQt(history_.older(line_->text().toStdString()))); return true;
    case Qt::Key_Down: line_->setText(toQt(history_.newer(line_->text().toStdString()))); return true;
    case Qt::Key_Tab:
      if (line_->text().isEmpty()) return false;  // on to the next widget
      complete();
      return true;
    default: return false;
  }
}

void ConsolePanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && listener_ != 0) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
