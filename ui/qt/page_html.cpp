// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/page_html.h"

#include <QScrollBar>
#include <QStringList>
#include <QTextBrowser>
#include <QUrl>

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

}  // namespace

QString htmlOf(const InspectorPage& page) {
  const QString secondary = tone(Tone::kSecondary).name(), line = tone(Tone::kLine).name(), text = tone(Tone::kText).name();
  const QString code = codeFont(true).family();
  QString out;
  if (page.title.empty() && !page.hint.empty()) out += QStringLiteral("<p style='color:%1'>%2</p>").arg(secondary, toQt(page.hint).toHtmlEscaped());
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

const InspectorRow* rowOf(const InspectorPage& page, const QUrl& link) {
  const QStringList at = link.toString().split(QLatin1Char('/'));  // row/SECTION/ROW
  if (at.size() != 3 || at[1].toUInt() >= page.sections.size()) return nullptr;
  const auto& rows = page.sections[at[1].toUInt()].rows;
  return at[2].toUInt() < rows.size() ? &rows[at[2].toUInt()] : nullptr;
}

void showPage(QTextBrowser& browser, const InspectorPage& page) {
  browser.document()->setDocumentMargin(0);
  // A palette of its own would outlive the theme under a style sheet.
  const QString sheet = QStringLiteral("QTextBrowser { background: %1; }").arg(tone(Tone::kPanel).name());
  if (browser.styleSheet() != sheet) browser.setStyleSheet(sheet);
  const QString html = htmlOf(page);
  if (browser.property("shown").toString() == html) return;
  const bool same = browser.property("of").toString() == toQt(page.title);
  const int place = browser.verticalScrollBar()->value();
  browser.setProperty("shown", html);
  browser.setProperty("of", toQt(page.title));
  browser.setHtml(html);
  if (same) browser.verticalScrollBar()->setValue(place);
}

}  // namespace spscope::ui
