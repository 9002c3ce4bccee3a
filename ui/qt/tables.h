// SPDX-License-Identifier: Apache-2.0
// Tables, labels and the ground of plots as all panels have them.
#pragma once

#include <QString>
#include <QStringList>
#include <string>

#include "ui/model/theme.h"

class QLabel;
class QPainter;
class QTableWidget;
class QWidget;

namespace spscope::ui {

/// Rows of text that are selected as a whole and not edited.
QTableWidget* tableOf(const QStringList& columns, const QString& name, QWidget* parent);
/// Text of a cell, also its tooltip; `code`: in the monospaced face.
void put(QTableWidget* table, int row, int column, const QString& text, bool code = false);
void colour(QLabel* label, Tone tone);
/// The ground of a plot and its letters. `absent`: why there is nothing to plot, which then stands in its middle.
void paintGround(QPainter& painter, const QWidget& plot, const std::string& absent);
/// No signal of what stands in it reaches the panel any more: for its destructor. A field that loses the keyboard as the panel goes says
/// what it holds, when the panel's own members are gone already.
void stopHearing(QWidget& panel);

}  // namespace spscope::ui
