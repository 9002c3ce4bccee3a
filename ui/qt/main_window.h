// SPDX-License-Identifier: Apache-2.0
// The window: arranges bars, panels and the graph, binds actions to the workspace, remembers itself. What anything means is
// decided in ui/model.
#pragma once

#include <QMainWindow>
#include <QStringList>
#include <QTimer>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ui/model/actions.h"
#include "ui/model/debug/debug_session.h"
#include "ui/model/graph_document.h"
#include "ui/model/session_file.h"
#include "ui/model/workspace.h"

class QAbstractItemModel;
class QDockWidget;
class QMenu;
class QStackedWidget;
class QTreeView;

namespace spscope::ui {

class GraphPanel;
class GraphView;
class ModuleTreeModel;
class MemoryPanel;
class PlanPanel;
class SearchPopup;
class SettingsPopup;
class SettingsBar;
class StageStripView;
class StartPage;

/// What a window stands on; outlives it.
struct WindowModel {
  WindowModel();
  QObject receiver;  ///< what is posted from other threads runs in its thread, and never after it
  Workspace workspace;
  GraphDocument graph;
};

struct WindowOptions {
  std::string session_path;          ///< "": nothing is remembered
  bool restore = true;               ///< what was open the last time
  std::vector<std::string> samples;  ///< files of the start page
  std::string profile_path;          ///< where runs are recorded unless the user says otherwise; "": they are not
  /// How the debugger's answers read in its console; empty: only their messages are shown.
  std::function<std::string(const session::debug::Answer&)> debug_text;
  /// Makes the timeline (ui/imgui); empty: a line that says that this build has none.
  std::function<QWidget*(Workspace&, QWidget*)> make_timeline;
};

class MainWindow : public QMainWindow, public ActionView {
 public:
  MainWindow(WindowModel& model, WindowOptions options, QWidget* parent = nullptr);
  ~MainWindow() override;

  void openFiles(const std::vector<std::string>& paths);
  Workspace& workspace() { return model_.workspace; }
  GraphView& graphView();
  StageStripView& strip() { return *strip_; }
  SettingsBar& settingsBar() { return *settings_; }
  SearchPopup& searchPopup() { return *search_; }
  SettingsPopup& furtherSettingsPopup() { return *more_; }
  QAbstractItemModel& moduleModel();
  QAction* actionNamed(const QString& name) const;

  // --- ActionView -------------------------------------------------------------------------------------------------
  Status setTheme(bool dark) override;
  Status resizeTo(int width, int height) override;
  Status showPanel(const std::string& name) override;
  Status showCurve(const std::string& key) override;
  Status fit(bool selection) override;
  Status plan(const std::string& device, const std::string& gpus, const std::string& want) override;
  Status planned() override;
  Status takeRow(const std::string& row) override;
  Status search(const std::string& query) override;
  Status screenshot(const std::string& path) override;
  Status exportGraph(const std::string& path) override;
  void closeWindow() override;

  std::function<void()> on_first_paint, on_closed;

 protected:
  bool event(QEvent* event) override;
  void closeEvent(QCloseEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  QAction* makeAction(const char* name, const QString& text, const QList<QKeySequence>& keys, const QString& tip, std::function<void()> run);
  void makeActions();
  void makeDebugActions();
  void makeMenus();
  void makePanels();
  QDockWidget* dock(const char* name, const QString& title, QWidget* content, Qt::DockWidgetArea area);
  void hear(Topic topic);
  void refreshActions();
  void followTree();
  void showRecent();
  void remember();
  void selectNode(const std::string& name);
  void stepStage(int by);
  void browse();
  void browseExport();
  void browseBeside();

  WindowModel& model_;
  WindowOptions options_;
  SessionState state_;
  bool restoring_ = false, painted_ = false;
  QTimer save_;
  QStackedWidget* pages_ = nullptr;
  StartPage* start_ = nullptr;
  GraphPanel* graph_ = nullptr;
  SettingsBar* settings_ = nullptr;
  StageStripView* strip_ = nullptr;
  SearchPopup* search_ = nullptr;
  SettingsPopup* more_ = nullptr;
  MemoryPanel* memory_ = nullptr;
  PlanPanel* plan_ = nullptr;
  QTreeView* tree_ = nullptr;
  ModuleTreeModel* tree_model_ = nullptr;
  const void* tree_source_ = nullptr;
  std::map<QString, QAction*> actions_;
  std::map<QString, QDockWidget*> docks_;
  QStringList dock_order_;  ///< as they were made: their keys are Alt+1, Alt+2, ...
  QMenu* recent_menu_ = nullptr;
  bool show_profile_ = false;  ///< the run that goes on was started here: its profile is shown when it is there
  int listener_ = 0;
};

}  // namespace spscope::ui
