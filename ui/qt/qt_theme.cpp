// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/qt_theme.h"

#include <QApplication>
#include <QDirIterator>
#include <QFontDatabase>
#include <QImage>
#include <QPainter>
#include <QPalette>
#include <QStyleFactory>

namespace spscope::ui {
namespace {

Theme& theme() {
  static Theme current;
  return current;
}

/// Loaded by findFonts(); empty where the system's are used.
QString& fallbackFamily(bool code) {
  static QString families[2];
  return families[code ? 1 : 0];
}

QFont systemFont(bool code) {
  QFont font = QFontDatabase::systemFont(code ? QFontDatabase::FixedFont : QFontDatabase::GeneralFont);
  if (!fallbackFamily(code).isEmpty()) font.setFamilies({fallbackFamily(code)});
  return font;
}

QFont sized(QFont font, double pixels) {
  // Half pixels need points: 12.5 px are 9.375 pt at 96 dpi, which is what Qt assumes where no screen says otherwise.
  font.setPointSizeF(pixels * 72.0 / 96.0);
  return font;
}

const char* const kSheet = R"(
QToolTip { background: %raised; color: %text; border: 1px solid %line; padding: 4px; }
QMainWindow::separator { background: %line; width: 1px; height: 1px; }
QMainWindow::separator:hover { background: %accent; }
QDockWidget { color: %secondary; titlebar-close-icon: none; titlebar-normal-icon: none; }
QDockWidget::title { background: %panel; padding: 6px 10px; border-bottom: 1px solid %line; }
QFrame#bar { background: %panel; border: none; border-bottom: 1px solid %line; }
QFrame#settings, QFrame#search { background: %panel; border: 1px solid %secondary; }
QFrame#legend { background: %window; border: none; border-top: 1px solid %line; }
QPushButton, QToolButton { background: %button; color: %text; border: 1px solid %line; border-radius: 5px; padding: 3px 10px; min-height: 18px; }
QPushButton:hover, QToolButton:hover { background: %hover; }
QPushButton:focus, QToolButton:focus { border: 1px solid %accent; }
QPushButton:checked, QToolButton:checked { background: %selection; border: 1px solid %accent; }
QPushButton:disabled, QToolButton:disabled { color: %secondary; }
QPushButton#primary { background: %primary; color: white; border: 1px solid %accent; }
QPushButton#primary:disabled { background: %button; color: %secondary; border: 1px solid %line; }
QToolButton { padding: 3px 7px; }
QScrollBar:horizontal { background: %panel; height: 10px; border: none; } QScrollBar:vertical { background: %panel; width: 10px; border: none; }
QScrollArea#stages QScrollBar:horizontal, QScrollArea#choices QScrollBar:horizontal { height: 6px; }
QScrollArea#choices QToolButton { padding: 2px 6px; min-height: 16px; }
QScrollBar::handle { background: %hover; border-radius: 3px; min-width: 24px; min-height: 24px; } QScrollBar::handle:hover { background: %secondary; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; } QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QComboBox QTreeView, QTableView, QListView { background: %panel; border: none; outline: none; alternate-background-color: %panel; }
QTreeView::item, QListView::item { padding: 2px 4px; border: none; }
QTreeView::item:hover, QListView::item:hover { background: %hover; }
QTreeView::item:selected, QTableView::item:selected, QListView::item:selected { background: %selection; color: %text; }
QHeaderView::section { background: %panel; color: %secondary; border: none; border-bottom: 1px solid %line; padding: 3px 8px; }
QScrollArea { border: none; }
QTabBar::tab { background: %panel; color: %secondary; padding: 5px 12px; border: none; border-top: 2px solid transparent; }
QTabBar::tab:selected { color: %text; border-top: 2px solid %accent; }
QStatusBar { background: %panel; color: %secondary; }
QStatusBar::item { border: none; }
QMenuBar { background: %panel; } QMenuBar::item { padding: 3px 8px; background: transparent; } QMenuBar::item:selected { background: %hover; }
QMenu { background: %raised; border: 1px solid %line; } QMenu::item { padding: 4px 24px; } QMenu::item:selected { background: %selection; }
)";

QString sheet() {
  QString text = QString::fromLatin1(kSheet);
  // Longest names first: "selection" begins like nothing else, but a later name might.
  for (const Tone t : {Tone::kSelection, Tone::kSecondary, Tone::kWindow, Tone::kRaised, Tone::kAccent, Tone::kButton, Tone::kPanel, Tone::kHover, Tone::kLine, Tone::kText, Tone::kBad})
    text.replace(QLatin1Char('%') + QLatin1String(toneName(t)), tone(t).name());
  return text.replace(QLatin1String("%primary"), theme().dark() ? QLatin1String("#24558c") : QLatin1String("#1f6fc0"));
}

}  // namespace

const Theme& currentTheme() { return theme(); }

QFont readingFont(bool bold) {
  QFont font = sized(systemFont(false), 12.5);
  if (bold) font.setWeight(QFont::DemiBold);
  return font;
}
QFont smallFont() { return sized(systemFont(false), 11); }
QFont codeFont(bool small) { return sized(systemFont(true), small ? 11 : 12); }

QString findFonts() {
  // Without fonts Qt draws every letter as the same box (and names families all the same).
  const auto drawn = [](QChar c) {
    QImage image(32, 32, QImage::Format_Grayscale8);
    image.fill(0);
    QPainter painter(&image);
    painter.setPen(Qt::white);
    painter.setFont(readingFont());
    painter.drawText(QRect(4, 4, 24, 24), Qt::AlignLeft | Qt::AlignTop, c);
    return image;
  };
  const auto readable = [&] { return drawn(QLatin1Char('i')) != drawn(QLatin1Char('W')); };
  if (readable()) return QStringLiteral("");
  const QString own = qEnvironmentVariable("SPSCOPE_FONTS");
  const QStringList folders = own.isEmpty() ? QStringList{QStringLiteral("/usr/share/fonts"), QStringLiteral("/usr/local/share/fonts")} : own.split(QLatin1Char(':'), Qt::SkipEmptyParts);
  QString text, code;
  for (const QString& folder : folders)
    for (QDirIterator at(folder, {QStringLiteral("*.ttf"), QStringLiteral("*.otf")}, QDir::Files, QDirIterator::Subdirectories); at.hasNext();) {
      const QString file = at.next(), name = at.fileInfo().fileName();
      // What every distribution has; other fonts may be of one script only.
      if (own.isEmpty() && !name.startsWith(QLatin1String("DejaVuSans")) && !name.startsWith(QLatin1String("Liberation")) && !name.startsWith(QLatin1String("NotoSans-")) && !name.startsWith(QLatin1String("NotoSansMono-"))) continue;
      const QStringList families = QFontDatabase::applicationFontFamilies(QFontDatabase::addApplicationFont(file));
      if (families.isEmpty()) continue;
      const bool mono = name.contains(QLatin1String("Mono"));
      if (mono && code.isEmpty()) code = families.front();
      if (!mono && (text.isEmpty() || families.front() == QLatin1String("DejaVu Sans"))) text = families.front();
    }
  fallbackFamily(false) = text.isEmpty() ? code : text;
  fallbackFamily(true) = code.isEmpty() ? text : code;
  if (!readable()) return {};
  return fallbackFamily(false);
}

void applyTheme(QApplication& application, const Theme& wanted) {
  theme() = wanted;
  application.setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  QPalette p;
  p.setColor(QPalette::Window, tone(Tone::kPanel));
  p.setColor(QPalette::WindowText, tone(Tone::kText));
  p.setColor(QPalette::Base, tone(Tone::kWindow));
  p.setColor(QPalette::AlternateBase, tone(Tone::kRaised));
  p.setColor(QPalette::Text, tone(Tone::kText));
  p.setColor(QPalette::PlaceholderText, tone(Tone::kSecondary));
  p.setColor(QPalette::Button, tone(Tone::kButton));
  p.setColor(QPalette::ButtonText, tone(Tone::kText));
  p.setColor(QPalette::BrightText, tone(Tone::kBad));
  p.setColor(QPalette::Highlight, tone(Tone::kAccent));
  p.setColor(QPalette::HighlightedText, Qt::white);
  p.setColor(QPalette::Link, tone(Tone::kAccent));
  p.setColor(QPalette::ToolTipBase, tone(Tone::kRaised));
  p.setColor(QPalette::ToolTipText, tone(Tone::kText));
  p.setColor(QPalette::Light, tone(Tone::kHover));
  p.setColor(QPalette::Midlight, tone(Tone::kRaised));
  p.setColor(QPalette::Mid, tone(Tone::kLine));
  p.setColor(QPalette::Dark, tone(Tone::kLine));
  p.setColor(QPalette::Shadow, tone(Tone::kWindow));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) p.setColor(QPalette::Disabled, role, tone(Tone::kSecondary));
  application.setPalette(p);
  application.setFont(readingFont());
  application.setStyleSheet(sheet());
}

}  // namespace spscope::ui
