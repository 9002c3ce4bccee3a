// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/run_panel.h"

#include <QEvent>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPushButton>
#include <QScrollArea>
#include <QSplitter>
#include <QTabWidget>
#include <QTableWidget>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "core/base/strings.h"
#include "ui/qt/elided_label.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {
namespace {

constexpr int kNodeColumn = 6;

}  // namespace

RunPlotWidget::RunPlotWidget(Make make, QWidget* parent) : QWidget(parent), make_(std::move(make)) { setMinimumSize(170, 56); }

void RunPlotWidget::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setFont(smallFont());
  const QFontMetricsF metrics(painter.font());
  const double head = metrics.height() + 4, foot = metrics.height() + 2;
  const RunPlot plot = make_(width(), height() - head - foot);
  painter.fillRect(rect(), tone(Tone::kWindow));
  painter.setPen(tone(Tone::kText));
  painter.drawText(QRectF(8, 2, width() - 16, head), Qt::AlignLeft | Qt::AlignVCenter, metrics.elidedText(toQt(plot.title), Qt::ElideRight, width() - 16));
  setAccessibleName(toQt(plot.title));
  painter.setPen(tone(Tone::kSecondary));
  if (!plot.absent.empty()) {
    painter.drawText(QRectF(8, head, width() - 16, height() - head), Qt::AlignCenter | Qt::TextWordWrap, toQt(plot.absent));
    return;
  }
  painter.translate(0, head);
  for (const auto& [y, text] : plot.scale) {
    painter.setPen(tone(Tone::kLine));
    painter.drawLine(QPointF(plot.left, y), QPointF(width() - 8, y));
    painter.setPen(tone(Tone::kSecondary));
    painter.drawText(QRectF(0, y - 8, plot.left - 4, 16), Qt::AlignRight | Qt::AlignVCenter, toQt(text));
  }
  painter.drawText(QRectF(plot.left, height() - head - foot, width() - plot.left - 8, foot), Qt::AlignLeft | Qt::AlignBottom, toQt(plot.first));
  painter.drawText(QRectF(plot.left, height() - head - foot, width() - plot.left - 8, foot), Qt::AlignRight | Qt::AlignBottom, toQt(plot.last));
  painter.setRenderHint(QPainter::Antialiasing, true);
  const auto draw = [&](const std::vector<RunPlot::Point>& points, QPen pen) {
    QPolygonF line;
    for (const auto& p : points) line << QPointF(p.x, p.y);
    painter.setPen(pen);
    painter.drawPolyline(line);
    if (points.size() > 60) return;
    painter.setBrush(pen.color());
    for (const QPointF& p : line) painter.drawEllipse(p, 2, 2);
    painter.setBrush(Qt::NoBrush);
  };
  draw(plot.line, QPen(tone(Tone::kAccent), 1.6));
  draw(plot.exposed, QPen(tone(Tone::kWarning), 1.4, Qt::DashLine));
}

RunPanel::RunPanel(Workspace& workspace, QWidget* parent) : QWidget(parent), view_(workspace), workspace_(workspace) {
  setObjectName(QStringLiteral("run"));
  header_ = new ElidedLabel(this);
  start_ = new QPushButton(tr("Run"), this);
  start_->setObjectName(QStringLiteral("primary"));
  stop_ = new QPushButton(tr("Stop"), this);
  stop_->setToolTip(tr("Ends the run; the steps that are done stay"));
  verify_ = new QPushButton(tr("Verify"), this);
  verify_->setToolTip(tr("Compares loss and every gradient with the unsharded graph"));
  QObject::connect(start_, &QPushButton::clicked, this, [this] { view_.start(); });
  QObject::connect(stop_, &QPushButton::clicked, this, [this] { view_.stop(); });
  QObject::connect(verify_, &QPushButton::clicked, this, [this] { view_.verify(); });
  auto* head = new QHBoxLayout;
  head->setContentsMargins(8, 0, 8, 0);
  head->addWidget(header_, 1);
  head->addWidget(start_);
  head->addWidget(stop_);
  head->addWidget(verify_);

  ranks_ = tableOf({tr("rank"), tr("state"), tr("step"), tr("memory"), tr("predicted"), tr("collective"), tr("node")}, tr("Ranks"), this);
  QObject::connect(ranks_, &QTableWidget::cellClicked, this, [this](int row, int) {
    if (const QTableWidgetItem* node = ranks_->item(row, kNodeColumn)) view_.selectNode(node->text().toStdString());
  });
  ranks_absent_ = new QLabel(this);
  ranks_absent_->setWordWrap(true);
  ranks_absent_->setMargin(8);
  remark_ = new ElidedLabel(this, Qt::ElideMiddle);
  failure_ = new QTextBrowser(this);
  failure_->setOpenLinks(false);
  failure_->setObjectName(QStringLiteral("failure"));
  failure_->setFrameShape(QFrame::NoFrame);
  failure_->setAccessibleName(tr("Failure"));
  failure_->setMinimumHeight(40);
  QObject::connect(failure_, &QTextBrowser::anchorClicked, this, [this] {
    if (const auto f = view_.failure()) view_.selectNode(f->node);
  });
  loss_ = new RunPlotWidget([this](double w, double h) { return view_.lossPlot(w, h); }, this);
  time_ = new RunPlotWidget([this](double w, double h) { return view_.timePlot(w, h); }, this);

  auto* plots = new QWidget(this);
  auto* plots_column = new QVBoxLayout(plots);
  plots_column->setContentsMargins(0, 0, 0, 0);
  plots_column->setSpacing(4);
  plots_column->addWidget(loss_, 1);
  plots_column->addWidget(time_, 1);
  auto* state = new QWidget(this);
  auto* state_column = new QVBoxLayout(state);
  state_column->setContentsMargins(0, 0, 0, 0);
  state_column->setSpacing(4);
  state_column->addWidget(ranks_absent_);
  state_column->addWidget(ranks_, 1);
  state_column->addWidget(failure_, 2);
  state_column->addWidget(remark_);
  auto* run = new QSplitter(this);
  run->addWidget(makeForm());
  run->addWidget(state);
  run->addWidget(plots);
  run->setStretchFactor(1, 3);
  run->setStretchFactor(2, 1);
  run->setSizes({240, 520, 270});

  verdict_ = new QLabel(this);
  verdict_detail_ = new QLabel(this);
  verdict_detail_->setWordWrap(true);
  verdict_detail_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  first_ = new QLabel(this);  // where it begins: a link to the node
  first_->setWordWrap(true);
  first_->setObjectName(QStringLiteral("first-difference"));
  first_->setToolTip(tr("Selects the first node whose value differs from the unsharded one"));
  QObject::connect(first_, &QLabel::linkActivated, this, [this](const QString& node) { view_.selectNode(node.toStdString()); });
  gradients_ = tableOf({tr("parameter"), tr("relative error"), tr("norm"), tr("got"), tr("unsharded")}, tr("Gradients, the worst first"), this);
  gradients_->setToolTip(tr("A click selects the first node that reads the parameter"));
  const auto choose = [this](int row, int) {
    if (const QTableWidgetItem* name = gradients_->item(row, 0)) view_.selectParameter(name->data(Qt::UserRole).toString().toStdString());
  };
  QObject::connect(gradients_, &QTableWidget::cellClicked, this, choose);
  QObject::connect(gradients_, &QTableWidget::cellActivated, this, choose);
  auto* verdict = new QWidget(this);
  auto* verdict_column = new QVBoxLayout(verdict);
  verdict_column->setContentsMargins(8, 6, 0, 0);
  verdict_column->setSpacing(4);
  verdict_column->addWidget(verdict_);
  verdict_column->addWidget(verdict_detail_);
  verdict_column->addWidget(first_);
  verdict_column->addWidget(gradients_, 1);

  pages_ = new QTabWidget(this);
  pages_->setAccessibleName(tr("Run or verify"));
  pages_->setDocumentMode(true);
  pages_->addTab(run, tr("Run"));
  pages_->addTab(verdict, tr("Verify"));
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 6, 0, 4);
  all->setSpacing(4);
  all->addLayout(head);
  all->addWidget(pages_, 1);
  view_.on_changed = [this] { fill(); };
  fill();
}

RunPanel::~RunPanel() {
  stopHearing(*this);
  for (SettingBox* box : fields_) box->on_applied = {};
}

QWidget* RunPanel::makeForm() {
  auto* form = new QWidget(this);
  auto* rows = new QFormLayout(form);
  rows->setContentsMargins(8, 6, 8, 6);
  rows->setVerticalSpacing(5);
  rows->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  for (const RunField& field : view_.fields()) {
    auto* box = new SettingBox(workspace_, field.info.name, form);
    box->setMaximumWidth(QWIDGETSIZE_MAX);
    box->setMinimumContentsLength(6);
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    box->on_applied = [this, box] {
      form_error_->setText(box->refusal());
      form_error_->setVisible(!box->refusal().isEmpty());
    };
    rows->addRow(toQt(field.info.label), box);
    fields_.push_back(box);
  }
  form_error_ = new QLabel(form);
  form_error_->setWordWrap(true);
  form_error_->setVisible(false);
  rows->addRow(form_error_);
  auto* scroll = new QScrollArea(this);
  scroll->setWidget(form);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setMinimumWidth(form->minimumSizeHint().width() + 14);
  scroll->setAccessibleName(tr("What to run"));
  return scroll;
}

void RunPanel::fill() {
  header_->setFont(readingFont(true));
  header_->setText(toQt(view_.header()));
  header_->setToolTip(toQt(view_.header()));
  const std::string why = view_.whyNotRun();
  start_->setEnabled(why.empty());
  start_->setToolTip(why.empty() ? tr("Trains the compiled program for some steps") : toQt(why));
  stop_->setEnabled(view_.running());
  // What was begun comes to the front, wherever it was begun.
  const bool runs = view_.running(), verifies = view_.verdict().kind == Verdict::Kind::kRunning;
  if (runs && !runs_) pages_->setCurrentIndex(0);
  if (verifies && !verifies_) pages_->setCurrentIndex(1);
  runs_ = runs;
  verifies_ = verifies;
  fillForm();
  fillRanks();
  fillFailure();
  fillVerdict();
  loss_->update();
  time_->update();
  if (on_headline) on_headline();
}

void RunPanel::fillForm() {
  colour(form_error_, Tone::kBad);
  for (SettingBox* box : fields_) {
    box->setEnabled(!view_.running());
    if (box->hasFocus() || (box->lineEdit() != nullptr && box->lineEdit()->hasFocus() && box->lineEdit()->isModified())) continue;  // someone types
    box->refresh();
  }
}

void RunPanel::fillRanks() {
  const auto rows = view_.ranks();
  ranks_->setVisible(!rows.empty());
  ranks_absent_->setVisible(rows.empty());
  ranks_absent_->setText(toQt(view_.ranksAbsent()));
  colour(ranks_absent_, Tone::kSecondary);
  const bool fresh = ranks_->rowCount() != static_cast<int>(rows.size());
  ranks_->setRowCount(static_cast<int>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int r = static_cast<int>(i);
    put(ranks_, r, 0, (rows[i].failed ? QStringLiteral("✗ ") : QString()) + QString::number(rows[i].rank));
    put(ranks_, r, 1, toQt(rows[i].state));
    put(ranks_, r, 2, toQt(rows[i].step));
    put(ranks_, r, 3, toQt(rows[i].memory));
    put(ranks_, r, 4, toQt(rows[i].predicted));
    put(ranks_, r, 5, toQt(rows[i].collective), true);
    put(ranks_, r, kNodeColumn, toQt(rows[i].node), true);
    for (int c = 0; c <= kNodeColumn; ++c) ranks_->item(r, c)->setForeground(tone(rows[i].failed ? Tone::kBad : Tone::kText));
  }
  if (fresh) {  // not while it runs: columns that jump cannot be read
    ranks_->setMinimumHeight(48);
    static constexpr int kWidths[] = {48, 150, 44, 70, 70, 150};
    for (int c = 0; c < kNodeColumn; ++c) ranks_->setColumnWidth(c, kWidths[c]);
  }
  // What no rank has anything to say about takes no room.
  for (int c = 3; c <= kNodeColumn; ++c) {
    bool empty = true;
    for (int r = 0; r < ranks_->rowCount(); ++r) empty = empty && ranks_->item(r, c)->text().isEmpty();
    ranks_->setColumnHidden(c, empty);
  }
  if (!view_.running() && !rows.empty()) ranks_->resizeColumnsToContents();
  remark_->setFont(smallFont());
  colour(remark_, Tone::kSecondary);
  remark_->setText(QStringLiteral(" ") + toQt(view_.remark()));
  remark_->setToolTip(toQt(view_.remark()));
  remark_->setVisible(!view_.remark().empty());
}

void RunPanel::fillFailure() {
  const auto f = view_.failure();
  failure_->setVisible(f.has_value());
  if (!f) return;
  const QString secondary = tone(Tone::kSecondary).name();
  QString html = QStringLiteral("<p style='color:%1'><b>✗ %2</b></p><p>%3</p>").arg(tone(Tone::kBad).name(), toQt(f->title).toHtmlEscaped(), toQt(f->message).toHtmlEscaped());
  if (!f->node.empty()) html += QStringLiteral("<p><a href='node' style='color:%1; text-decoration:none'>%2</a></p>").arg(tone(Tone::kAccent).name(), toQt("show " + f->node).toHtmlEscaped());
  if (!f->remedy.empty()) html += QStringLiteral("<p style='color:%1'>%2</p>").arg(secondary, toQt(f->remedy).toHtmlEscaped());
  if (!f->log.empty()) html += QStringLiteral("<p style='color:%1'>output: %2</p>").arg(secondary, toQt(f->log).toHtmlEscaped());
  for (const std::string& note : f->details)
    html += QStringLiteral("<pre style=\"font-family:'%1'; font-size:8.25pt; white-space:pre-wrap\">%2</pre>").arg(codeFont(true).family(), toQt(note).toHtmlEscaped());
  if (failure_->property("shown").toString() != html) {  // a reader's place in it is kept
    failure_->setProperty("shown", html);
    failure_->setHtml(html);
  }
}

void RunPanel::fillVerdict() {
  const Verdict v = view_.verdict();
  verify_->setEnabled(v.kind != Verdict::Kind::kRunning && workspace_.model() != nullptr);
  const bool bad = v.kind == Verdict::Kind::kDifferent || v.kind == Verdict::Kind::kFailed;
  verdict_->setFont(readingFont(true));
  colour(verdict_, v.kind == Verdict::Kind::kEqual ? Tone::kGood : bad ? Tone::kBad : Tone::kText);
  verdict_->setText((v.kind == Verdict::Kind::kEqual ? QStringLiteral("✓ ") : bad ? QStringLiteral("✗ ") : QString()) + toQt(v.title));
  verdict_detail_->setFont(smallFont());
  colour(verdict_detail_, Tone::kSecondary);
  verdict_detail_->setText(toQt(v.detail));
  first_->setVisible(!v.first.empty());
  first_->setFont(smallFont());
  first_->setText(QStringLiteral("<a href='%1' style='color:%2'>%3</a>").arg(toQt(v.first_node).toHtmlEscaped(), tone(Tone::kAccent).name(), toQt(v.first).toHtmlEscaped()));
  gradients_->setVisible(!v.rows.empty());
  const void* of = v.rows.empty() ? nullptr : workspace_.verified().get();
  if (of == shown_verdict_) return;
  shown_verdict_ = of;
  gradients_->setRowCount(static_cast<int>(v.rows.size()));
  for (std::size_t i = 0; i < v.rows.size(); ++i) {
    const VerdictRow& row = v.rows[i];
    const int r = static_cast<int>(i);
    put(gradients_, r, 0, (row.within ? QString() : QStringLiteral("✗ ")) + toQt(row.name), true);
    gradients_->item(r, 0)->setData(Qt::UserRole, toQt(row.name));
    put(gradients_, r, 1, toQt(strf("%.2e", row.rel)));
    put(gradients_, r, 2, toQt(strf("%.4g", row.norm)));
    put(gradients_, r, 3, toQt(strf("%.6g", row.got)));
    put(gradients_, r, 4, toQt(strf("%.6g", row.wanted)));
  }
  gradients_->resizeColumnsToContents();
}

void RunPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && gradients_ != nullptr) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
