// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/start_page.h"

#include <QFileInfo>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/qt/qt_theme.h"

namespace spscope::ui {

StartPage::StartPage(std::function<void()> browse, std::function<void(const std::string&)> open, QWidget* parent)
    : QWidget(parent), open_(std::move(open)), lists_(new QVBoxLayout), message_(new QLabel) {
  setObjectName(QStringLiteral("start"));
  setAutoFillBackground(true);
  setBackgroundRole(QPalette::Base);
  auto* outer = new QHBoxLayout(this);
  auto* column = new QVBoxLayout;
  outer->addStretch(1);
  outer->addLayout(column, 3);
  outer->addStretch(1);
  column->addStretch(2);
  auto* title = new QLabel(QStringLiteral("SPScope"));
  QFont big = readingFont(true);
  big.setPointSizeF(big.pointSizeF() * 2.2);
  title->setFont(big);
  auto* what = new QLabel(QStringLiteral("Compiles a saved PyTorch training graph for sequence parallelism, proves it, runs it, and shows what happened."));
  what->setWordWrap(true);
  what->setForegroundRole(QPalette::PlaceholderText);
  auto* button = new QPushButton(QStringLiteral("Open a model, a stage or a trace\u2026"));
  button->setObjectName(QStringLiteral("primary"));
  button->setToolTip(QStringLiteral("A .pt2 file of torch.export.save, a stage saved by compile --stages, or a trace (Ctrl+O)"));
  button->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  connect(button, &QPushButton::clicked, this, [browse = std::move(browse)] { browse(); });
  auto* drop = new QLabel(QStringLiteral("or drop a file anywhere in this window"));
  drop->setFont(smallFont());
  drop->setForegroundRole(QPalette::PlaceholderText);
  message_->setWordWrap(true);
  message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  message_->hide();
  column->addWidget(title);
  column->addWidget(what);
  column->addSpacing(16);
  column->addWidget(button);
  column->addWidget(drop);
  column->addWidget(message_);
  column->addSpacing(16);
  column->addLayout(lists_);
  column->addStretch(3);
}

void StartPage::setMessage(const QString& text) {
  message_->setText(text);
  QPalette p = message_->palette();
  p.setColor(QPalette::WindowText, tone(Tone::kBad));
  message_->setPalette(p);
  message_->setVisible(!text.isEmpty());
}

void StartPage::addList(const QString& title, const std::vector<std::string>& files, const QString& none) {
  auto* head = new QLabel(title);
  head->setFont(readingFont(true));
  lists_->addWidget(head);
  if (files.empty()) {
    auto* empty = new QLabel(none);
    empty->setForegroundRole(QPalette::PlaceholderText);
    lists_->addWidget(empty);
  }
  for (const std::string& file : files) {
    const QFileInfo info(toQt(file));
    auto* entry = new QPushButton(info.fileName() + QStringLiteral("    ") + info.path());
    entry->setFlat(true);
    entry->setCursor(Qt::PointingHandCursor);
    entry->setStyleSheet(QStringLiteral("QPushButton { text-align: left; border: 1px solid transparent; background: transparent; } QPushButton:hover, QPushButton:focus { border-color: %1; }").arg(tone(Tone::kAccent).name()));
    entry->setToolTip(toQt(file));
    entry->setAccessibleName(QStringLiteral("Open ") + info.fileName());
    connect(entry, &QPushButton::clicked, this, [this, file] { open_(file); });
    lists_->addWidget(entry);
  }
  lists_->addSpacing(12);
}

void StartPage::setFiles(const std::vector<std::string>& recent, const std::vector<std::string>& samples) {
  while (QLayoutItem* item = lists_->takeAt(0)) {
    if (item->widget() != nullptr) item->widget()->deleteLater();
    delete item;
  }
  addList(QStringLiteral("Samples"), samples, QStringLiteral("None were found beside the program."));
  addList(QStringLiteral("Recent"), recent, QStringLiteral("Nothing yet."));
}

}  // namespace spscope::ui
