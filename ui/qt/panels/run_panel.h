// SPDX-License-Identifier: Apache-2.0
// The run panel: what to run with, start and stop, where each rank is, loss and step time, failures; and the verdict of verify
// with its gradients. Draws only; the model is ui/model/run_view.h.
#pragma once

#include <QWidget>
#include <functional>
#include <vector>

#include "ui/model/run_view.h"
#include "ui/qt/setting_box.h"

class QLabel;
class QPushButton;
class QTabWidget;
class QTableWidget;
class QTextBrowser;

namespace spscope::ui {

/// A line over the steps.
class RunPlotWidget final : public QWidget {
 public:
  using Make = std::function<RunPlot(double width, double height)>;
  RunPlotWidget(Make make, QWidget* parent = nullptr);

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  Make make_;
};

class RunPanel final : public QWidget {
 public:
  /// The workspace outlives the panel.
  RunPanel(Workspace& workspace, QWidget* parent = nullptr);
  ~RunPanel() override;
  RunView& view() { return view_; }
  QString headline() const { return QString::fromStdString(view_.header()); }
  std::function<void()> on_headline;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  QWidget* makeForm();
  void fill();
  void fillForm();
  void fillRanks();
  void fillFailure();
  void fillVerdict();

  RunView view_;
  QLabel* header_ = nullptr;
  QLabel* remark_ = nullptr;
  QLabel* ranks_absent_ = nullptr;
  QLabel* form_error_ = nullptr;
  QPushButton* start_ = nullptr;
  QPushButton* stop_ = nullptr;
  QPushButton* verify_ = nullptr;
  QTabWidget* pages_ = nullptr;
  std::vector<SettingBox*> fields_;
  QTableWidget* ranks_ = nullptr;
  RunPlotWidget* loss_ = nullptr;
  RunPlotWidget* time_ = nullptr;
  QTextBrowser* failure_ = nullptr;
  QLabel* verdict_ = nullptr;
  QLabel* verdict_detail_ = nullptr;
  QLabel* first_ = nullptr;
  QTableWidget* gradients_ = nullptr;
  bool runs_ = false, verifies_ = false;  ///< at the last look
  const void* shown_verdict_ = nullptr;  ///< which verdict the table holds
  Workspace& workspace_;
};

}  // namespace spscope::ui
