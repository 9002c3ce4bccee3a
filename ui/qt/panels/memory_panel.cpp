// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/memory_panel.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QScrollArea>
#include <QScrollBar>
#include <QSplitter>
#include <QToolButton>
#include <QVBoxLayout>

#include "core/base/strings.h"

#include "ui/qt/elided_label.h"
#include "ui/qt/qt_theme.h"

namespace spscope::ui {
MemoryPanel::MemoryPanel(Workspace& workspace, QWidget* parent) : QWidget(parent), view_(workspace) {
  setObjectName(QStringLiteral("memory"));
  header_ = new ElidedLabel(this, Qt::ElideMiddle);
  choices_ = new QWidget(this);
  choices_row_ = new QHBoxLayout(choices_);
  choices_row_->setContentsMargins(8, 0, 8, 0);
  choices_row_->setSpacing(4);
  choices_row_->addStretch(1);
  auto* scroll = choices_scroll_ = new QScrollArea(this);
  scroll->setWidget(choices_);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setObjectName(QStringLiteral("choices"));
  scroll->setAccessibleName(tr("Curves"));
  scroll->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  plot_ = new MemoryPlot(view_, this);
  legend_ = new QLabel(this);
  legend_->setTextFormat(Qt::RichText);
  legend_->setWordWrap(true);
  living_ = new QListWidget(this);
  living_->setAccessibleName(tr("What lives at the peak"));
  living_->setToolTip(tr("The largest values at the peak; a click selects the node that made one"));
  living_->setMinimumWidth(150);
  living_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  living_->setTextElideMode(Qt::ElideMiddle);
  const auto choose = [this](QListWidgetItem* item) {
    const auto& living = view_.atPeak();
    const int row = living_->row(item) - 1;  // the first row is the heading
    if (row >= 0 && static_cast<std::size_t>(row) < living.size() && living[static_cast<std::size_t>(row)].node != ir::kNone)
      view_.selectNode(living[static_cast<std::size_t>(row)].node, living[static_cast<std::size_t>(row)].name);
  };
  QObject::connect(living_, &QListWidget::itemClicked, this, choose);
  QObject::connect(living_, &QListWidget::itemActivated, this, choose);

  auto* split = new QSplitter(this);
  split->addWidget(plot_);
  split->addWidget(living_);
  split->setStretchFactor(0, 1);
  split->setSizes({700, 220});
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 6, 0, 4);
  all->setSpacing(4);
  auto* head = new QHBoxLayout;
  head->setContentsMargins(8, 0, 8, 0);
  head->addWidget(header_, 1);
  all->addLayout(head);
  all->addWidget(scroll);
  all->addWidget(split, 1);
  auto* foot = new QHBoxLayout;
  foot->setContentsMargins(8, 0, 8, 0);
  foot->addWidget(legend_, 1);
  all->addLayout(foot);
  view_.on_changed = [this] { fill(); };
  fill();
}

void MemoryPanel::fill() {
  header_->setFont(readingFont(true));
  header_->setText(toQt(view_.header()));
  header_->setToolTip(toQt(view_.header()));
  QPalette p = header_->palette();
  p.setColor(QPalette::WindowText, tone(view_.overLimit() ? Tone::kBad : Tone::kText));
  header_->setPalette(p);

  const auto& choices = view_.choices();
  bool same = buttons_.size() == choices.size();
  for (std::size_t i = 0; same && i < buttons_.size(); ++i) same = buttons_[i]->objectName() == toQt(choices[i].key);
  if (!same) {
    for (QToolButton* b : buttons_) b->deleteLater();
    buttons_.clear();
    for (const MemoryChoice& c : choices) {
      auto* button = new QToolButton(choices_);
      button->setObjectName(toQt(c.key));
      button->setCheckable(true);
      // A click shows it and paints its classes; on the focused one it hides it.
      QObject::connect(button, &QToolButton::clicked, this, [this, key = c.key] {
        for (const MemoryChoice& now : view_.choices()) {
          if (now.key != key) continue;
          if (now.shown && now.focused) view_.show(key, false);
          else view_.focus(key);
          return;
        }
      });
      choices_row_->insertWidget(choices_row_->count() - 1, button);
      buttons_.push_back(button);
    }
  }
  for (std::size_t i = 0; i < buttons_.size(); ++i) {
    const MemoryChoice& c = choices[i];
    QString text = toQt(c.brief.empty() ? c.label : c.brief);
    buttons_[i]->setFont(smallFont());
    if (c.focused) text = QStringLiteral("● ") + text;
    if (c.waiting) text += QStringLiteral(" …");
    if (!c.absent.empty()) text += QStringLiteral(" ✗");
    buttons_[i]->setText(text);
    buttons_[i]->setChecked(c.shown);
    buttons_[i]->setToolTip(toQt(c.tooltip + (c.absent.empty() ? "" : "\n" + c.absent)));
    buttons_[i]->setAccessibleName(toQt(c.label));
  }

  choices_row_->activate();
  fitChoices();

  // A coloured square and the name, in the order in which they are stacked.
  QString legend;
  const MemoryPicture picture = view_.picture(plot_->viewport());
  for (const auto& area : picture.areas)
    legend += QStringLiteral("<span style='color:%1'>■</span>&nbsp;%2 &nbsp; ").arg(tone(toneOf(area.memory_class)).name(), toQt(area.label));
  for (const auto& outline : picture.outlines)
    if (!outline.focused)
      legend += QStringLiteral("<span style='color:%1'>╍╍</span>&nbsp;%2 &nbsp; ").arg(curveColor(outline.number).name(), toQt(outline.label).toHtmlEscaped().replace(QLatin1Char(' '), QStringLiteral("&nbsp;")));
  legend_->setFont(smallFont());
  QPalette quiet = legend_->palette();
  quiet.setColor(QPalette::WindowText, tone(Tone::kSecondary));
  legend_->setPalette(quiet);
  legend_->setText(legend);
  legend_->setVisible(!legend.isEmpty());

  living_->clear();
  living_->setFont(smallFont());
  if (!view_.atPeak().empty()) {
    auto* heading = new QListWidgetItem(tr("largest at the peak"), living_);
    heading->setFlags(Qt::NoItemFlags);
    for (const StepMemory::Living& l : view_.atPeak()) {
      auto* item = new QListWidgetItem(toQt(formatBytes(l.bytes) + "  " + l.name), living_);
      item->setToolTip(toQt(l.name + ", " + formatBytes(l.bytes) + ", " + std::string(passes::memoryClassName(l.memory_class))));
    }
  }
  living_->setVisible(!view_.atPeak().empty());
  plot_->update();
  if (on_headline) on_headline();
}

void MemoryPanel::fitChoices() {
  const QSize wanted = choices_->sizeHint();
  choices_scroll_->setFixedHeight(wanted.height() + 2 + (wanted.width() > width() ? choices_scroll_->horizontalScrollBar()->sizeHint().height() : 0));
}

void MemoryPanel::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fitChoices();
}

void MemoryPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && plot_ != nullptr) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
