// SPDX-License-Identifier: Apache-2.0
// The theme (ui/model/theme.h) as Qt wants it: colours, palette, fonts and the style sheet of the few widgets that Fusion draws
// differently. Views ask currentTheme() when they paint, and repaint on QEvent::PaletteChange.
#pragma once

#include <QColor>
#include <QFont>
#include <QString>
#include <string>

#include "ui/model/theme.h"

class QApplication;

namespace spscope::ui {

inline QColor toQt(Color c) { return {c.r, c.g, c.b, c.a}; }
inline QString toQt(const std::string& text) { return QString::fromStdString(text); }

const Theme& currentTheme();
inline QColor tone(Tone t) { return toQt(currentTheme().color(t)); }
/// Palette, fonts, style sheet; at the start, and whenever the user changes it.
void applyTheme(QApplication& application, const Theme& theme);

QFont readingFont(bool bold = false);  ///< 12.5 px
QFont smallFont();                     ///< 11 px
QFont codeFont(bool small = false);    ///< monospaced

/// Once, with an application and before the first widget. Empty: the system has fonts. Else the family that is used instead: one
/// that lies in the usual folders (or in $SPSCOPE_FONTS) though fontconfig knows nothing of it. Null: nothing can be written,
/// every letter would be a box.
QString findFonts();

}  // namespace spscope::ui
