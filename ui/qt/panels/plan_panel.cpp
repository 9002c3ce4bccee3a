// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/plan_panel.h"

#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "ui/qt/elided_label.h"
#include "ui/qt/panels/memory_panel.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {

PlanPlot::PlanPlot(PlanView& view, QWidget* parent) : QWidget(parent), view_(view) {
  setMinimumSize(240, 110);
  setAccessibleName(tr("Peak against the length"));
}

void PlanPlot::paintEvent(QPaintEvent*) {
  const PlanPicture picture = view_.picture(width(), height());
  QPainter painter(this);
  paintGround(painter, *this, picture.absent);
  if (!picture.absent.empty()) return;
  const QFontMetricsF metrics(painter.font());
  painter.setPen(tone(Tone::kText));
  painter.drawText(QRectF(8, 2, width() - 16, metrics.height() + 2), Qt::AlignLeft | Qt::AlignVCenter, metrics.elidedText(toQt(picture.title), Qt::ElideRight, width() - 16));
  for (const PlanPicture::Text& line : picture.scale) {
    painter.setPen(tone(Tone::kLine));
    painter.drawLine(QPointF(picture.left, line.at), QPointF(picture.right, line.at));
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(QRectF(0, line.at - 8, picture.left - 5, 16), Qt::AlignRight | Qt::AlignVCenter, toQt(line.text));
  }
  for (const PlanPicture::Text& x : picture.lengths) painter.drawText(QRectF(x.at - 50, picture.bottom + 2, 100, metrics.height()), Qt::AlignCenter, toQt(x.text));
  painter.setRenderHint(QPainter::Antialiasing, true);
  for (const PlanPicture::Text& room : picture.room) {
    painter.setPen(QPen(tone(Tone::kBad), 1.2, Qt::DashLine));
    painter.drawLine(QPointF(picture.left, room.at), QPointF(picture.right, room.at));
    painter.setPen(tone(Tone::kBad));
    painter.drawText(QPointF(picture.left + 6, room.at - 4), toQt(room.text));
  }
  static constexpr Qt::PenStyle kStyles[] = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine};
  std::vector<QRectF> taken;
  for (const PlanPicture::Line& line : picture.lines) {
    QPolygonF points;
    for (const PlanPicture::Point& p : line.points) points << QPointF(p.x, p.y);
    if (points.isEmpty()) continue;
    const QColor colour = curveColor(line.number);
    painter.setPen(QPen(colour, line.number == 0 ? 2.0 : 1.5, kStyles[line.number % 4]));
    painter.drawPolyline(points);
    QRectF name(points.back().x() + 5, points.back().y() - 9, metrics.horizontalAdvance(toQt(line.name)) + 4, 18);
    if (name.right() > width()) name.moveRight(width());
    while (std::any_of(taken.begin(), taken.end(), [&](const QRectF& other) { return other.intersects(name); })) name.translate(0, 2);
    taken.push_back(name);
    painter.drawText(name, Qt::AlignLeft | Qt::AlignVCenter, toQt(line.name));
    if (!line.longest) continue;
    painter.setBrush(colour);
    painter.drawEllipse(QPointF(line.longest->x, line.longest->y), 3, 3);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(tone(Tone::kText));
    if (line.number == 0) painter.drawText(QPointF(line.longest->x + 6, line.longest->y + metrics.height() + 2), toQt(line.longest_text));
  }
}

PlanPanel::PlanPanel(Workspace& workspace, QWidget* parent) : QWidget(parent), view_(workspace) {
  setObjectName(QStringLiteral("plan"));
  header_ = new ElidedLabel(this);
  plan_ = new QPushButton(tr("Plan"), this);
  plan_->setObjectName(QStringLiteral("primary"));
  stop_ = new QPushButton(tr("Stop"), this);
  stop_->setToolTip(tr("Ends the planning"));
  QObject::connect(plan_, &QPushButton::clicked, this, [this] { view_.plan(); });
  QObject::connect(stop_, &QPushButton::clicked, this, [this] { view_.stop(); });
  auto* form = new QHBoxLayout;
  form->setContentsMargins(8, 0, 8, 0);
  for (const PlanField& field : view_.fields()) {
    auto* label = new QLabel(toQt(field.label), this);
    label->setFont(smallFont());
    auto* box = new QComboBox(this);
    box->setObjectName(toQt("plan-" + field.name));
    box->setEditable(field.free);
    box->setInsertPolicy(QComboBox::NoInsert);
    for (const std::string& choice : field.choices) box->addItem(toQt(choice));
    box->setToolTip(toQt(field.tooltip));
    box->setAccessibleName(toQt(field.label));
    box->setMinimumContentsLength(field.name == "device" ? 9 : field.name == "want" ? 7 : 3);
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    const auto take = [this, box, name = field.name] { say(view_.set(name, box->currentText().trimmed().toStdString())); };
    QObject::connect(box, &QComboBox::activated, this, take);
    if (box->lineEdit() != nullptr) QObject::connect(box->lineEdit(), &QLineEdit::editingFinished, this, take);
    form->addWidget(label);
    form->addWidget(box);
    fields_[field.name] = box;
  }
  problem_ = new ElidedLabel(this);
  form->addWidget(problem_, 1);
  form->addWidget(plan_);
  form->addWidget(stop_);

  table_ = tableOf({}, tr("Configurations, the best first"), this);
  table_->setToolTip(tr("Click or Enter: the settings become those of the row, and it is compiled. Arrow keys: its curves."));
  const auto take = [this](int row, int) {
    const auto rows = view_.rows();
    if (row < static_cast<int>(rows.size()) && rows[static_cast<std::size_t>(row)].legal) say(view_.take(row));
    else view_.focus(row);
  };
  QObject::connect(table_, &QTableWidget::cellClicked, this, take);
  QObject::connect(table_, &QTableWidget::cellActivated, this, take);
  QObject::connect(table_, &QTableWidget::currentCellChanged, this, [this](int row, int, int, int) {
    if (!filling_) view_.focus(row);
  });
  table_->horizontalHeader()->setFont(smallFont());
  plot_ = new PlanPlot(view_, this);
  auto* split = new QSplitter(this);
  split->addWidget(table_);
  split->addWidget(plot_);
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 2);
  split->setSizes({600, 400});
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 6, 0, 4);
  all->setSpacing(4);
  header_->setContentsMargins(8, 0, 8, 0);
  all->addWidget(header_);
  all->addLayout(form);
  all->addWidget(split, 1);
  view_.on_changed = [this] { fill(); };
  fill();
}

PlanPanel::~PlanPanel() { stopHearing(*this); }

void PlanPanel::say(const Status& status) {
  colour(problem_, Tone::kBad);
  const QString text = status ? QString() : toQt(status.error().message + (status.error().legal.empty() ? "" : ". Legal: " + status.error().legal));
  problem_->setText(text);
  problem_->setToolTip(text);
  if (!status) fillForm();
}

void PlanPanel::fill() {
  header_->setFont(readingFont(true));
  header_->setText(toQt(view_.header()));
  header_->setToolTip(toQt(view_.header()));
  const std::string why = view_.whyNotPlan();
  plan_->setEnabled(why.empty());
  plan_->setToolTip(why.empty() ? tr("Compiles the model in every configuration; nothing is run") : toQt(why));
  stop_->setEnabled(view_.running());
  fillForm();
  fillRows();
  plot_->update();
  if (on_headline) on_headline();
}

void PlanPanel::fillForm() {
  for (const PlanField& field : view_.fields()) {
    QComboBox* box = fields_[field.name];
    if (box->lineEdit() != nullptr && box->lineEdit()->hasFocus() && box->lineEdit()->isModified()) continue;  // someone types
    const QSignalBlocker quiet(box);
    if (box->isEditable()) box->setEditText(toQt(field.value));
    else box->setCurrentIndex(box->findText(toQt(field.value)));
  }
}

void PlanPanel::fillRows() {
  const auto rows = view_.rows();
  filling_ = true;
  if (view_.outcome() != shown_) {
    shown_ = view_.outcome();
    const auto columns = view_.columns();
    QStringList names;
    for (const std::string& c : columns) names << toQt(c);
    table_->clear();
    table_->setColumnCount(static_cast<int>(columns.size()));
    table_->setHorizontalHeaderLabels(names);
    table_->setRowCount(static_cast<int>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t c = 0; c < rows[i].cells.size(); ++c) {
        put(table_, static_cast<int>(i), static_cast<int>(c), toQt(rows[i].cells[c]));
        table_->item(static_cast<int>(i), static_cast<int>(c))->setToolTip(toQt(rows[i].tooltip));
      }
    table_->resizeColumnsToContents();
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int c = 0; c < table_->columnCount(); ++c) {
      QTableWidgetItem* item = table_->item(static_cast<int>(i), c);
      item->setForeground(tone(rows[i].legal ? rows[i].verdict == session::Verdict::kDoesNotFit ? Tone::kBad : Tone::kText : Tone::kSecondary));
    }
  if (view_.focused() < table_->rowCount() && table_->currentRow() != view_.focused()) table_->setCurrentCell(view_.focused(), 0);
  filling_ = false;
}

void PlanPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && plot_ != nullptr) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
