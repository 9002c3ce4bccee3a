// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/panels/values_panel.h"

#include <QAbstractTextDocumentLayout>
#include <QCheckBox>
#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QTableWidget>
#include <QTextBrowser>
#include <QUrl>
#include <QVBoxLayout>

#include "ui/model/debug/debug_session.h"
#include "ui/qt/elided_label.h"
#include "ui/qt/page_html.h"
#include "ui/qt/panels/value_picture.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/tables.h"

namespace spscope::ui {
namespace {

enum Column { kName, kFigures, kColumns };
constexpr int kMostRows = 7, kRowHeight = 22;

QTextBrowser* browserOf(const QString& name, QWidget* parent) {
  auto* text = new QTextBrowser(parent);
  text->setOpenLinks(false);
  text->setFrameShape(QFrame::NoFrame);
  text->setAccessibleName(name);
  return text;
}

/// What a panel says while there is nothing to look at.
std::string hintOf(const DebugSession& debug) {
  if (!debug.on()) return "Debug the program (F5): what the selected node reads and makes is shown here, on every rank, put together, and against the unsharded step.";
  if (debug.looking() || debug.state() != DebugSession::State::kStopped) return "…";
  return "Select a node of the last stage, which is what runs.";
}

}  // namespace

ValuesPanel::ValuesPanel(Workspace& workspace, QWidget* parent)
    : QWidget(parent), workspace_(workspace), title_(new ElidedLabel(this, Qt::ElideMiddle)), subtitle_(new ElidedLabel(this)), rank_(new QComboBox(this)), compare_(new QCheckBox(tr("compare"), this)),
      picture_(new ValuePicture(this)), window_(new QLineEdit(this)), text_(browserOf(tr("Value"), this)), close_(new QWidget(this)) {
  setObjectName(QStringLiteral("values"));
  setMinimumWidth(240);
  values_ = tableOf({tr("value"), tr("now")}, tr("Values of the node"), this);
  values_->setToolTip(tr("What it reads, then what it makes; a click looks closely"));
  values_->setFrameShape(QFrame::NoFrame);
  values_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  values_->setColumnWidth(kName, 140);
  rank_->setAccessibleName(tr("Whose value"));
  rank_->setToolTip(tr("The value put together from all ranks, or one rank's part"));
  compare_->setToolTip(tr("Hold the value against the unsharded step, which runs beside as far as it"));
  window_->setPlaceholderText(tr("window, as 0, 2:5, :"));
  window_->setAccessibleName(tr("Window"));
  window_->setToolTip(tr("Which elements are listed: a number, a range or : for each dimension; Enter reads them"));
  window_->setClearButtonEnabled(true);
  connect(rank_, &QComboBox::activated, this, [this](int index) { workspace_.debug().lookAtRank(index - 1); });
  connect(compare_, &QCheckBox::toggled, this, [this](bool on) { workspace_.debug().setCompare(on); });
  connect(window_, &QLineEdit::editingFinished, this, [this] { workspace_.debug().lookAtWindow(window_->text().trimmed().toStdString()); });
  connect(values_, &QTableWidget::cellClicked, this, [this](int row, int) {
    const auto look = workspace_.debug().look();
    if (look && row < static_cast<int>(look->values.size())) workspace_.debug().chooseValue(look->values[static_cast<std::size_t>(row)].name);
  });
  connect(values_, &QTableWidget::cellDoubleClicked, this, [this](int row, int) {  // on to the node that made it
    const auto look = workspace_.debug().look();
    if (!look || row >= static_cast<int>(look->values.size()) || look->values[static_cast<std::size_t>(row)].producer == ir::kNone) return;
    Selection s;
    s.node = look->values[static_cast<std::size_t>(row)].producer;
    s.rank = workspace_.selection().rank;
    workspace_.showNode(s);
  });
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    const InspectorRow* row = rowOf(page_, url);
    if (row != nullptr && row->act == "again") workspace_.debug().computeAgain();
  });
  auto* head = new QHBoxLayout;
  head->setContentsMargins(8, 0, 8, 2);
  head->setSpacing(6);
  head->addWidget(subtitle_, 1);
  head->addWidget(compare_);
  head->addWidget(rank_);
  auto* name = new QHBoxLayout;
  name->setContentsMargins(8, 0, 8, 0);
  name->addWidget(title_);
  auto* inner = new QVBoxLayout(close_);
  inner->setContentsMargins(0, 0, 0, 0);
  inner->setSpacing(4);
  inner->addWidget(picture_);
  auto* line = new QHBoxLayout;
  line->setContentsMargins(8, 0, 8, 0);
  line->addWidget(window_);
  inner->addLayout(line);
  auto* page = new QHBoxLayout;
  page->setContentsMargins(8, 2, 0, 0);
  page->addWidget(text_);
  // All of the panel scrolls in a low window, not a page inside of it.
  text_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  connect(text_->document()->documentLayout(), &QAbstractTextDocumentLayout::documentSizeChanged, this, [this](const QSizeF& size) { text_->setMinimumHeight(static_cast<int>(size.height()) + 8); });
  auto* content = new QWidget;
  auto* rows = new QVBoxLayout(content);
  rows->setContentsMargins(0, 8, 0, 0);
  rows->setSpacing(4);
  rows->addLayout(name);
  rows->addLayout(head);
  rows->addWidget(values_);
  rows->addWidget(close_);
  rows->addLayout(page, 1);
  auto* scroll = new QScrollArea(this);
  scroll->setWidget(content);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFocusPolicy(Qt::NoFocus);
  scroll->setAccessibleName(tr("Values"));
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(scroll);
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kDebug || topic == Topic::kModel) fill();
  });
  fill();
}

ValuesPanel::~ValuesPanel() {
  workspace_.unlisten(listener_);
  stopHearing(*this);
}

void ValuesPanel::fillRanks() {
  const DebugSession& debug = workspace_.debug();
  const QSignalBlocker quiet(rank_), quiet_too(compare_);
  if (rank_->count() != debug.ranks() + 1) {
    rank_->clear();
    rank_->addItem(tr("put together"));
    for (int r = 0; r < debug.ranks(); ++r) rank_->addItem(tr("rank %1").arg(r));
  }
  rank_->setCurrentIndex(std::min(workspace_.selection().rank, debug.ranks() - 1) + 1);
  compare_->setChecked(debug.lookRequest().compare);
  for (QWidget* w : {static_cast<QWidget*>(rank_), static_cast<QWidget*>(compare_)}) w->setVisible(debug.on());
}

void ValuesPanel::fill() {
  const DebugSession& debug = workspace_.debug();
  const auto look = debug.look();
  fillRanks();
  title_->setFont(readingFont(true));
  subtitle_->setFont(smallFont());
  colour(subtitle_, Tone::kSecondary);
  title_->setText(!look ? tr("Values") : look->node.empty() ? toQt("%" + look->asked.value) : toQt("%" + look->node));
  subtitle_->setText(look ? toQt(look->node.empty() ? std::string("an input of the program") : look->op) + (debug.looking() ? tr(" …") : QString()) : QString());
  subtitle_->setToolTip(subtitle_->text());
  values_->setVisible(look != nullptr);
  close_->setVisible(look && look->chosen >= 0 && look->values[static_cast<std::size_t>(look->chosen)].look);
  page_ = {};
  if (!look) {
    page_.hint = hintOf(debug);
    picture_->setLook(nullptr);
    return showPage(*text_, page_);
  }
  const QSignalBlocker quiet(values_);
  values_->setRowCount(static_cast<int>(look->values.size()));
  for (std::size_t i = 0; i < look->values.size(); ++i) {
    const ValueRow v = valueRow(*look, i);
    const int row = static_cast<int>(i);
    put(values_, row, kName, toQt((look->values[i].result ? "→ " : "") + v.name), true);
    put(values_, row, kFigures, toQt(v.figures));
    values_->item(row, kName)->setToolTip(toQt(v.name + ": " + v.role + ", " + v.shape));
    for (int c = 0; c < kColumns; ++c) values_->item(row, c)->setForeground(tone(v.bad ? Tone::kBad : v.quiet ? Tone::kSecondary : Tone::kText));
  }
  values_->setFixedHeight(values_->horizontalHeader()->sizeHint().height() + kRowHeight * std::clamp(static_cast<int>(look->values.size()), 1, kMostRows) + 2);
  if (look->chosen >= 0) values_->selectRow(look->chosen);
  picture_->setLook(look);
  if (!window_->hasFocus()) window_->setText(toQt(debug.lookRequest().window));
  page_ = valuePage(*look);
  showPage(*text_, page_);
}

void ValuesPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && listener_ != 0) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

WhyPanel::WhyPanel(Workspace& workspace, QWidget* parent) : QWidget(parent), workspace_(workspace), title_(new ElidedLabel(this, Qt::ElideMiddle)), text_(browserOf(tr("Why"), this)) {
  setObjectName(QStringLiteral("why"));
  setMinimumWidth(240);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(8, 8, 0, 0);
  all->setSpacing(4);
  all->addWidget(title_);
  all->addWidget(text_, 1);
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kDebug || topic == Topic::kModel) fill();
  });
  fill();
}

WhyPanel::~WhyPanel() { workspace_.unlisten(listener_); }

void WhyPanel::fill() {
  const auto look = workspace_.debug().look();
  title_->setFont(readingFont(true));
  InspectorPage page;
  if (look) page = whyPage(*look);
  else page.hint = workspace_.debug().on() ? hintOf(workspace_.debug()) : "Debug the program (F5): why the selected node is placed so, exchanged, kept or made again, which pass made it and from what.";
  title_->setText(look ? toQt("%" + page.title) : tr("Why"));
  showPage(*text_, page);
}

void WhyPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && listener_ != 0) QMetaObject::invokeMethod(this, [this] { fill(); }, Qt::QueuedConnection);
}

}  // namespace spscope::ui
