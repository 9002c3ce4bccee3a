// SPDX-License-Identifier: Apache-2.0
// Tables and labels as all panels have them.
#pragma once

#include <QString>
#include <QStringList>

#include "ui/model/theme.h"

class QLabel;
class QTableWidget;
class QWidget;

namespace spscope::ui {

/// Rows of text that are selected as a whole and not edited.
QTableWidget* tableOf(const QStringList& columns, const QString& name, QWidget* parent);
/// Text of a cell, also its tooltip; `code`: in the monospaced face.
void put(QTableWidget* table, int row, int column, const QString& text, bool code = false);
void colour(QLabel* label, Tone tone);

}  // namespace spscope::ui
