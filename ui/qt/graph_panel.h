// SPDX-License-Identifier: Apache-2.0
// The graph with its header (what is shown, what changed, comparison, colours) and legend; alone or two side by side.
#pragma once

#include <QWidget>
#include <memory>

#include "ui/model/graph_document.h"

class QComboBox;
class QLabel;
class QSplitter;
class QToolButton;

namespace spscope::ui {

class GraphView;

class GraphPanel : public QWidget {
 public:
  GraphPanel(Workspace& workspace, GraphDocument& document, QWidget* parent = nullptr);
  ~GraphPanel() override;
  GraphView& view() { return *view_; }
  void setSideBySide(bool on);
  bool sideBySide() const { return previous_view_ != nullptr; }

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void refresh();

  Workspace& workspace_;
  GraphDocument& document_;
  GraphView* view_;
  std::unique_ptr<GraphDocument> previous_;
  GraphView* previous_view_ = nullptr;
  QSplitter* split_;
  QLabel *subject_, *title_, *added_, *removed_, *changed_;
  QComboBox *compare_, *colour_;
  QToolButton* beside_;
  QWidget* legend_;
  int listener_ = 0;
};

}  // namespace spscope::ui
