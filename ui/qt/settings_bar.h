// SPDX-License-Identifier: Apache-2.0
// The top row: the opened file, the settings that change the program, Compile, Verify and Run, and the verdict.
#pragma once

#include <QFrame>
#include <string>
#include <vector>

#include "ui/qt/setting_box.h"

class QAction;
class QLabel;
class QPushButton;

namespace spscope::ui {

class SettingsBar : public QFrame {
 public:
  struct Actions {
    QAction *open, *more, *compile, *verify, *run, *debug, *stop, *search;
  };
  SettingsBar(Workspace& workspace, const Actions& actions, QWidget* parent = nullptr);
  ~SettingsBar() override;
  /// For tests; null: none of the row.
  SettingBox* boxOf(const std::string& setting) const;
  /// The button that shows the further settings: they hang below it.
  QPushButton& moreButton() const { return *more_; }

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QWidget* makeBox(const std::string& name);
  void refreshSettings();
  void refreshState();
  void showDebug();

  Workspace& workspace_;
  int listener_ = 0;
  std::vector<SettingBox*> boxes_;
  QPushButton *more_ = nullptr, *debug_ = nullptr;
  QString more_tip_;
  QLabel *file_, *verdict_;
  QString verdict_text_;
};

}  // namespace spscope::ui
