// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/inspector_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QProcess>
#include <QPushButton>
#include <QScrollBar>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "ui/qt/elided_label.h"
#include "ui/qt/page_html.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
InspectorPanel::InspectorPanel(Workspace& workspace, QWidget* parent) : QWidget(parent), workspace_(workspace), inspector_(workspace) {
  setObjectName(QStringLiteral("inspector"));
  setMinimumWidth(240);
  title_ = new ElidedLabel(this, Qt::ElideMiddle);
  subtitle_ = new QLabel(this);
  subtitle_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  subtitle_->setWordWrap(true);
  copy_ = new QPushButton(tr("Copy"), this);
  copy_->setToolTip(tr("Copies everything below as text"));
  open_ = new QPushButton(tr("Source"), this);
  open_->setAccessibleName(tr("Open source"));
  QObject::connect(copy_, &QPushButton::clicked, this, [this] { copy(); });
  QObject::connect(open_, &QPushButton::clicked, this, [this] { openSource(); });
  text_ = new QTextBrowser(this);
  text_->setOpenLinks(false);
  text_->setFrameShape(QFrame::NoFrame);
  text_->setAccessibleName(tr("Inspector"));
  QObject::connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    if (const InspectorRow* row = rowOf(inspector_.page(), url)) inspector_.follow(*row);
  });

  for (QPushButton* b : {copy_, open_}) b->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);  // the text beside them wraps
  auto* head = new QHBoxLayout;
  head->setContentsMargins(0, 0, 8, 0);
  head->setSpacing(8);
  head->addWidget(subtitle_, 1);
  head->addWidget(open_);
  head->addWidget(copy_);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(8, 8, 0, 0);
  all->setSpacing(4);
  all->addWidget(title_);
  all->addLayout(head);
  all->addWidget(text_, 1);
  inspector_.on_changed = [this] { fill(); };
  fill();
}

QString InspectorPanel::headline() const { return toQt(inspector_.page().title); }

void InspectorPanel::copy() const { QApplication::clipboard()->setText(toQt(pageText(inspector_.page()))); }

void InspectorPanel::openSource() {
  if (!inspector_.page().source) return;
  const auto command = editorCommand(*inspector_.page().source, environmentText);
  LogEntry entry{Severity::kError, "source", "", "", "", "", ""};
  if (!command) {
    entry.code = command.error().code;
    entry.message = command.error().message;
    entry.remedy = command.error().remedy;
    return workspace_.log(std::move(entry));
  }
  QStringList arguments;
  for (std::size_t i = 1; i < command->size(); ++i) arguments << toQt((*command)[i]);
  if (QProcess::startDetached(toQt(command->front()), arguments)) return;
  entry.message = "the editor " + command->front() + " could not be started";
  workspace_.log(std::move(entry));
}

void InspectorPanel::fill() {
  const InspectorPage& page = inspector_.page();
  title_->setFont(readingFont(true));
  title_->setText(page.title.empty() ? tr("Nothing selected") : toQt(page.title));
  title_->setToolTip(toQt(page.title));
  subtitle_->setFont(smallFont());
  QPalette quiet = subtitle_->palette();
  quiet.setColor(QPalette::WindowText, tone(Tone::kSecondary));
  subtitle_->setPalette(quiet);
  subtitle_->setText(toQt(page.subtitle));
  copy_->setVisible(!page.title.empty());
  open_->setVisible(page.source.has_value());
  if (page.source) open_->setToolTip(toQt(page.source->path + ":" + std::to_string(page.source->line)));
  showPage(*text_, page);
}

void InspectorPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && text_ != nullptr) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
