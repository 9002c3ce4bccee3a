// SPDX-License-Identifier: Apache-2.0
// The panel What fits: device and question, the table of configurations, the peak against the length. Draws only; the model is
// ui/model/plan_view.h.
#pragma once

#include <QWidget>
#include <functional>
#include <map>
#include <string>

#include "ui/model/plan_view.h"

class QComboBox;
class QLabel;
class QPushButton;
class QTableWidget;

namespace spscope::ui {

class PlanPlot final : public QWidget {
 public:
  explicit PlanPlot(PlanView& view, QWidget* parent = nullptr);

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  PlanView& view_;
};

class PlanPanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  PlanPanel(Workspace& workspace, QWidget* parent = nullptr);
  ~PlanPanel() override;
  PlanView& view() { return view_; }
  QString headline() const { return QString::fromStdString(view_.header()); }
  std::function<void()> on_headline;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void fill();
  void fillForm();
  void fillRows();
  void say(const Status& status);

  PlanView view_;
  QLabel* header_ = nullptr;
  QLabel* problem_ = nullptr;
  QPushButton* plan_ = nullptr;
  QPushButton* stop_ = nullptr;
  std::map<std::string, QComboBox*> fields_;
  QTableWidget* table_ = nullptr;
  PlanPlot* plot_ = nullptr;
  const void* shown_ = nullptr;  ///< which outcome the table holds
  bool filling_ = false;
};

}  // namespace spscope::ui
