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
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

/// Long names break where a reader would break them.
QString breakable(const std::string& text) {
  QString out;
  for (const QChar c : toQt(text)) {
    out += c == QLatin1Char('<') ? QStringLiteral("&lt;") : c == QLatin1Char('>') ? QStringLiteral("&gt;") : c == QLatin1Char('&') ? QStringLiteral("&amp;") : QString(c);
    if (c == QLatin1Char('.') || c == QLatin1Char('/') || c == QLatin1Char('_') || c == QLatin1Char(',')) out += QChar(0x200B);
  }
  return out;
}

QString htmlOf(const InspectorPage& page) {
  const QString secondary = tone(Tone::kSecondary).name(), line = tone(Tone::kLine).name(), text = tone(Tone::kText).name();
  const QString code = codeFont(true).family();
  QString out;
  if (page.title.empty()) out += QStringLiteral("<p style='color:%1'>%2</p>").arg(secondary, toQt(page.hint).toHtmlEscaped());
  for (std::size_t s = 0; s < page.sections.size(); ++s) {
    const InspectorSection& section = page.sections[s];
    out += QStringLiteral("<p style='color:%1; margin-top:%2px; margin-bottom:2px; font-size:8.25pt'>%3</p>").arg(secondary).arg(s == 0 ? 0 : 12).arg(toQt(section.title).toUpper().toHtmlEscaped());
    out += QStringLiteral("<table width='100%' cellspacing='0' cellpadding='3'>");
    for (std::size_t r = 0; r < section.rows.size(); ++r) {
      const InspectorRow& row = section.rows[r];
      QString value = breakable(row.text);
      if (row.code) value = QStringLiteral("<span style=\"font-family:'%1'; font-size:8.25pt\">%2</span>").arg(code, value);
      if (row.link()) value = QStringLiteral("<a href='row/%1/%2' style='color:%3; text-decoration:none'>%4</a>").arg(s).arg(r).arg(tone(Tone::kAccent).name(), value);
      // Frames of a stack have no label and take the whole width.
      if (row.label.empty()) out += QStringLiteral("<tr><td colspan='2' style='border-top:1px solid %1; color:%2'>%3</td></tr>").arg(line, text, value);
      else out += QStringLiteral("<tr><td width='92' style='border-top:1px solid %1; color:%2'>%3</td><td style='border-top:1px solid %1; color:%4'>%5</td></tr>")
                      .arg(line, secondary, breakable(row.label), text, value);
    }
    out += QStringLiteral("</table>");
    if (!section.absent.empty()) out += QStringLiteral("<p style='color:%1; margin-top:2px; margin-bottom:0px; margin-left:3px'>%2</p>").arg(secondary, toQt(section.absent).toHtmlEscaped());
  }
  return out;
}

}  // namespace

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
    const QStringList at = url.toString().split(QLatin1Char('/'));  // row/SECTION/ROW
    const InspectorPage& page = inspector_.page();
    if (at.size() != 3 || at[1].toUInt() >= page.sections.size()) return;
    const auto& rows = page.sections[at[1].toUInt()].rows;
    if (at[2].toUInt() < rows.size()) inspector_.follow(rows[at[2].toUInt()]);
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
  text_->document()->setDocumentMargin(0);
  // A palette of its own would outlive the theme under a style sheet.
  text_->setStyleSheet(QStringLiteral("QTextBrowser { background: %1; }").arg(tone(Tone::kPanel).name()));
  text_->setHtml(htmlOf(page));
}

void InspectorPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && text_ != nullptr) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
