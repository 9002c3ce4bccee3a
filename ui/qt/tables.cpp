// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/tables.h"

#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QTableWidget>

#include "ui/qt/qt_theme.h"

namespace spscope::ui {

void colour(QLabel* label, Tone t) {
  QPalette p = label->palette();
  p.setColor(QPalette::WindowText, tone(t));
  label->setPalette(p);
}

void paintGround(QPainter& painter, const QWidget& plot, const std::string& absent) {
  painter.fillRect(plot.rect(), tone(Tone::kWindow));
  painter.setFont(smallFont());
  if (absent.empty()) return;
  painter.setPen(tone(Tone::kSecondary));
  painter.drawText(plot.rect().adjusted(16, 8, -16, -8), Qt::AlignCenter | Qt::TextWordWrap, toQt(absent));
}

void stopHearing(QWidget& panel) {
  for (QObject* part : panel.findChildren<QObject*>()) part->disconnect(&panel);
}

QTableWidget* tableOf(const QStringList& columns, const QString& name, QWidget* parent) {
  auto* table = new QTableWidget(0, static_cast<int>(columns.size()), parent);
  table->setHorizontalHeaderLabels(columns);
  table->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setSelectionMode(QAbstractItemView::SingleSelection);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(22);
  table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  table->horizontalHeader()->setStretchLastSection(true);
  table->setShowGrid(false);
  table->setWordWrap(false);
  table->setAccessibleName(name);
  return table;
}

void put(QTableWidget* table, int row, int column, const QString& text, bool code) {
  QTableWidgetItem* item = table->item(row, column);
  if (item == nullptr) table->setItem(row, column, item = new QTableWidgetItem);
  item->setText(text);
  item->setToolTip(text);
  item->setFont(code ? codeFont(true) : smallFont());
}

}  // namespace spscope::ui
