// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/graph_panel.h"

#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QSplitter>
#include <QToolButton>

#include "ui/model/stage_strip.h"
#include "ui/qt/elided_label.h"
#include "ui/qt/graph_view.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
namespace {

constexpr int kNarrow = 980;

/// The legend: swatches with their letters, and the kinds of edges.
class Legend : public QWidget {
 public:
  explicit Legend(GraphDocument& document, QWidget* parent) : QWidget(parent), document_(document) {
    setObjectName(QStringLiteral("legend"));
    setFixedHeight(24);
    setAccessibleName(QStringLiteral("Legend"));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.fillRect(rect(), tone(Tone::kWindow));
    painter.setPen(tone(Tone::kLine));
    painter.drawLine(0, 0, width(), 0);
    if (document_.colouring() == nullptr) return;
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setFont(smallFont());
    double x = 12, y = 12;
    // Puts a sign of this width with its text on the row that has room, and says where the sign goes.
    const auto place = [&](double sign, const QString& text) {
      const double room = sign + 6 + painter.fontMetrics().horizontalAdvance(text);
      if (x + room > width() - 8 && x > 12) x = 12, y += kRow;
      painter.setPen(tone(Tone::kSecondary));
      painter.drawText(QPointF(x + sign + 6, y + 4), text);
      const QRectF at(x, y - 7, sign, 14);
      x += room + 16;
      return at;
    };
    for (const LegendEntry& e : document_.colouring()->legend()) {
      const QColor fill = e.fill.heat >= 0 ? toQt(currentTheme().heat(e.fill.heat)) : e.fill.fill >= 0 ? toQt(currentTheme().fill(static_cast<std::uint64_t>(e.fill.fill))) : tone(e.fill.tone);
      const QRectF at = place(14, toQt(e.text));
      painter.setPen(QPen(tone(Tone::kSecondary), 1));
      painter.setBrush(fill);
      painter.drawRoundedRect(at, 3, 3);
      painter.setPen(tone(Tone::kText));
      painter.drawText(at, Qt::AlignCenter, toQt(e.fill.letter).left(1));
    }
    const auto change = [&](Tone t, const char* sign, const char* what, Qt::PenStyle style) {
      const QRectF at = place(14, QString::fromLatin1(what));
      painter.setPen(QPen(tone(t), 2, style));
      painter.setBrush(Qt::NoBrush);
      painter.drawRoundedRect(at.adjusted(0, 1, 0, -1), 3, 3);
      painter.drawText(at, Qt::AlignCenter, QString::fromUtf8(sign));
    };
    if (document_.counts()) {
      change(Tone::kAdded, "+", "added", Qt::SolidLine);
      change(Tone::kRemoved, "\u2212", "removed", Qt::DashLine);
      change(Tone::kChanged, "~", "changed", Qt::SolidLine);
    }
    const auto edge = [&](const QPen& pen, const char* text) {
      const QRectF at = place(20, QString::fromLatin1(text));
      painter.setPen(pen);
      painter.drawLine(QPointF(at.left(), at.center().y()), QPointF(at.right(), at.center().y()));
    };
    edge(QPen(tone(Tone::kTransfer), 2), "from a collective");
    edge(QPen(tone(Tone::kSaved), 1.5, Qt::DashLine), "saved for the backward");
    edge(QPen(tone(Tone::kAccent), 1.2, Qt::DotLine), "to or from far away");
    // What did not fit makes another row the next time.
    if (const int wanted = static_cast<int>(y) + 12; wanted != height()) setFixedHeight(wanted);
  }

 private:
  static constexpr int kRow = 18;
  GraphDocument& document_;
};

QToolButton* toolButton(const char* text, const char* tip, QWidget* parent) {
  auto* b = new QToolButton(parent);
  b->setText(QString::fromUtf8(text));
  b->setToolTip(QString::fromUtf8(tip));
  b->setAccessibleName(b->toolTip());
  return b;
}

}  // namespace

GraphPanel::GraphPanel(Workspace& workspace, GraphDocument& document, QWidget* parent)
    : QWidget(parent),
      workspace_(workspace),
      document_(document),
      view_(new GraphView(workspace, document)),
      split_(new QSplitter(Qt::Horizontal)),
      subject_(new ElidedLabel(nullptr, Qt::ElideMiddle)),
      title_(new QLabel),
      added_(new QLabel),
      removed_(new QLabel),
      changed_(new QLabel),
      compare_(new QComboBox),
      colour_(new QComboBox),
      legend_(new Legend(document, this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* bar = new QFrame;
  bar->setObjectName(QStringLiteral("bar"));
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(10, 4, 6, 4);
  row->setSpacing(8);
  subject_->setFont(readingFont(true));
  title_->setForegroundRole(QPalette::PlaceholderText);
  row->addWidget(subject_, 1);
  row->addWidget(title_);
  for (QLabel* l : {added_, removed_, changed_}) row->addWidget(l);
  auto* with = new QLabel(QStringLiteral("compare"));
  with->setFont(smallFont());
  with->setForegroundRole(QPalette::PlaceholderText);
  row->addWidget(with);
  compare_->setAccessibleName(QStringLiteral("Compare with"));
  compare_->setToolTip(QStringLiteral("The stage that the shown one is compared with (Ctrl+click on a chip)"));
  compare_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  compare_->setMaximumWidth(190);
  row->addWidget(compare_);
  auto* by = new QLabel(QStringLiteral("colour"));
  by->setFont(smallFont());
  by->setForegroundRole(QPalette::PlaceholderText);
  row->addWidget(by);
  for (const std::string& name : colourings()) colour_->addItem(toQt(name));
  colour_->setAccessibleName(QStringLiteral("Colour by"));
  colour_->setToolTip(QStringLiteral("What the boxes are coloured by"));
  row->addWidget(colour_);
  beside_ = toolButton("\u25eb", "Merged, or two stages side by side (Ctrl+D)", bar);
  beside_->setCheckable(true);
  row->addWidget(beside_);
  QToolButton* out = toolButton("\u2212", "Smaller (-)", bar);
  QToolButton* in = toolButton("+", "Larger (+)", bar);
  QToolButton* fit = toolButton("\u2922", "Show everything (F)", bar);
  for (QToolButton* b : {out, in, fit}) row->addWidget(b);
  connect(out, &QToolButton::clicked, this, [this] { view_->zoomBy(0.8); });
  connect(in, &QToolButton::clicked, this, [this] { view_->zoomBy(1.25); });
  connect(fit, &QToolButton::clicked, this, [this] { view_->fit(true); });
  connect(beside_, &QToolButton::toggled, this, [this](bool on) { setSideBySide(on); });
  connect(compare_, &QComboBox::activated, this, [this](int index) { workspace_.compareWith(index - 1); });
  connect(colour_, &QComboBox::activated, this, [this](int index) { document_.setColourBy(static_cast<ColourBy>(index)); });
  column->addWidget(bar);
  split_->setChildrenCollapsible(false);
  split_->addWidget(view_);
  column->addWidget(split_, 1);
  column->addWidget(legend_);
  view_->on_moved = [this] { refresh(); };
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kModel || topic == Topic::kStage || topic == Topic::kSelection || topic == Topic::kCompiled) refresh();
  });
  refresh();
}

GraphPanel::~GraphPanel() {
  workspace_.unlisten(listener_);
  delete previous_view_;  // before what it shows
}

void GraphPanel::setSideBySide(bool on) {
  if (beside_->isChecked() != on) return beside_->setChecked(on);  // which comes back here
  if (on == sideBySide()) return;
  if (!on) {
    view_->follow(nullptr);
    delete previous_view_;
    previous_view_ = nullptr;
    previous_.reset();
    return;
  }
  previous_ = std::make_unique<GraphDocument>(workspace_, GraphDocument::Shows::kPrevious);
  previous_->setOpenPaths(document_.openPaths());
  previous_->setColourBy(document_.colourBy());
  previous_view_ = new GraphView(workspace_, *previous_);
  previous_view_->setAccessibleName(QStringLiteral("Graph before"));
  split_->insertWidget(0, previous_view_);
  split_->setSizes({1000, 1000});
  view_->follow(previous_view_);
  previous_view_->follow(view_);
}

void GraphPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange) QMetaObject::invokeMethod(this, [this] { refresh(); }, Qt::QueuedConnection);  // the sheet takes the labels' colours first
  QWidget::changeEvent(event);
}

void GraphPanel::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  refresh();
}

void GraphPanel::refresh() {
  subject_->setText(toQt(document_.subject()));
  subject_->setToolTip(subject_->text());
  const auto& stages = workspace_.stages();
  title_->setText(stages.empty() ? QString() : toQt(stages[static_cast<std::size_t>(workspace_.stage())].name));
  title_->setToolTip(toQt(document_.title()));
  const bool narrow = width() < kNarrow;
  title_->setVisible(!narrow);  // the strip says it, too
  const auto counts = document_.counts();
  const auto show = [&](QLabel* label, const char* sign, std::int64_t n, const char* what, Tone t) {
    label->setVisible(counts.has_value());
    label->setText(QString::fromUtf8(sign) + toQt(spacedNumber(n)) + (narrow ? QString() : QLatin1Char(' ') + QString::fromLatin1(what)));
    label->setToolTip(QString::fromLatin1(what));
    QPalette p = label->palette();
    p.setColor(QPalette::WindowText, tone(n > 0 ? t : Tone::kSecondary));
    label->setPalette(p);
  };
  const GraphDocument::Counts c = counts.value_or(GraphDocument::Counts{});
  show(added_, "+", c.added, "added", Tone::kAdded);
  show(removed_, "\u2212", c.removed, "removed", Tone::kRemoved);
  show(changed_, "~", c.changed, "changed", Tone::kChanged);
  const QSignalBlocker quiet(compare_), quiet_too(colour_);
  compare_->clear();
  compare_->addItem(QStringLiteral("nothing"));
  for (const Workspace::Stage& s : workspace_.stages()) compare_->addItem(toQt(s.name));
  compare_->setCurrentIndex(workspace_.comparedWith() + 1);
  compare_->setEnabled(workspace_.stages().size() > 1);
  colour_->setCurrentIndex(static_cast<int>(document_.colourBy()));
  if (previous_ && previous_->openPaths() != document_.openPaths() && !document_.busy()) previous_->setOpenPaths(document_.openPaths());
  legend_->update();
}

}  // namespace spscope::ui
