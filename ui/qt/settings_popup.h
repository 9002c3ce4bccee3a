// SPDX-License-Identifier: Apache-2.0
// The settings behind More: those of ui/model/settings_model.h that are seldom changed, each with what it means, and why what was
// typed is refused. Escape, a click elsewhere, or the button closes it.
#pragma once

#include <QFrame>
#include <vector>

#include "ui/qt/setting_box.h"

class QLabel;

namespace spscope::ui {

class SettingsPopup : public QFrame {
 public:
  /// `parent` is the window: a picture of it shows the popup, too.
  SettingsPopup(Workspace& workspace, QWidget* parent);
  ~SettingsPopup() override;
  /// Below that widget, or wherever the window has room.
  void open(const QWidget& anchor);
  /// For tests; null: none of these.
  SettingBox* boxOf(const std::string& setting) const;

 protected:
  bool event(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void refresh();
  void place();

  Workspace& workspace_;
  int listener_ = 0;
  std::vector<SettingBox*> boxes_;
  QLabel* refusal_;
  const QWidget* anchor_ = nullptr;
};

}  // namespace spscope::ui
