// SPDX-License-Identifier: Apache-2.0
// One setting as a box: what is legal for the opened model can be chosen, what is not stays in the list with its reason; what
// is typed and is no value stays red, with what is.
#pragma once

#include <QComboBox>
#include <functional>
#include <string>
#include <vector>

#include "ui/model/workspace.h"

namespace spscope::ui {

class SettingBox : public QComboBox {
 public:
  SettingBox(Workspace& workspace, std::string name, QWidget* parent = nullptr);
  const std::string& setting() const { return name_; }
  /// Reads value and choices again.
  void refresh();
  /// Why what was typed last is refused, with what is offered; empty: it was taken.
  const QString& refusal() const { return refusal_; }
  std::function<void()> on_applied;  ///< after a value was taken or refused

 private:
  void apply(const QString& text);

  Workspace& workspace_;
  std::string name_;
  QString refusal_;
  QString shown_;  ///< value and choices, as they were filled in
};

/// nullptr: none of these.
SettingBox* boxNamed(const std::vector<SettingBox*>& boxes, const std::string& setting);

}  // namespace spscope::ui
