// SPDX-License-Identifier: Apache-2.0
// The top row: the opened file, the settings that change the program, Compile, Verify and Run, and the verdict.
#pragma once

#include <QFrame>
#include <map>
#include <string>

#include "ui/model/workspace.h"

class QComboBox;
class QLabel;
class QAction;



namespace spscope::ui {

class SettingsBar : public QFrame {
 public:
  struct Actions {
    QAction *open, *compile, *verify, *run, *stop, *search;
  };
  SettingsBar(Workspace& workspace, const Actions& actions, QWidget* parent = nullptr);
  ~SettingsBar() override;
  /// For tests.
  QComboBox* boxOf(const std::string& setting) const;

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QWidget* makeBox(const std::string& name);
  void refreshSettings();
  void refreshState();
  void apply(const std::string& name, const QString& text);

  Workspace& workspace_;
  int listener_ = 0;
  std::map<std::string, QComboBox*> boxes_;
  QLabel *file_, *verdict_;
  QString verdict_text_;
};

}  // namespace spscope::ui
