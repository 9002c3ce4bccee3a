// SPDX-License-Identifier: Apache-2.0
#include "ui/qt/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QHeaderView>
#include <QLabel>
#include <QMenuBar>
#include <QMimeData>
#include <QPushButton>
#include <QStackedWidget>
#include <QTreeView>
#include <QResizeEvent>
#include <QVBoxLayout>

#include "ui/model/graph_export.h"
#include "ui/model/settings_model.h"
#include "ui/model/stage_strip.h"
#include "ui/qt/graph_panel.h"
#include "ui/qt/graph_view.h"
#include "ui/qt/log_panel.h"
#include "ui/qt/module_tree_model.h"
#include "ui/qt/panels/console_panel.h"
#include "ui/qt/panels/debug_panel.h"
#include "ui/qt/panels/inspector_panel.h"
#include "ui/qt/panels/memory_panel.h"
#include "ui/qt/panels/plan_panel.h"
#include "ui/qt/panels/run_panel.h"
#include "ui/qt/panels/values_panel.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/search_popup.h"
#include "ui/qt/settings_bar.h"
#include "ui/qt/settings_popup.h"
#include "ui/qt/stage_strip_view.h"
#include "ui/qt/start_page.h"

namespace spscope::ui {
namespace {

constexpr int kLayout = 1;  ///< which panels there are; a layout with others is not restored

}  // namespace

WindowModel::WindowModel()
    : workspace([this](std::function<void()> f) { QMetaObject::invokeMethod(&receiver, std::move(f), Qt::QueuedConnection); }), graph(workspace) {}

MainWindow::MainWindow(WindowModel& model, WindowOptions options, QWidget* parent) : QMainWindow(parent), model_(model), options_(std::move(options)) {
  setObjectName(QStringLiteral("spscope"));
  setWindowTitle(QStringLiteral("SPScope"));
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  resize(1600, 1000);
  setMinimumSize(640, 420);
  if (!options_.session_path.empty()) state_ = loadSession(options_.session_path);
  applyTheme(*qApp, Theme(state_.dark));
  makeActions();
  makePanels();
  makeMenus();
  save_.setSingleShot(true);
  save_.setInterval(1000);
  connect(&save_, &QTimer::timeout, this, [this] { remember(); });
  workspace().debug().text = options_.debug_text;
  listener_ = workspace().listen([this](Topic topic) { hear(topic); });
  if (!options_.profile_path.empty()) (void)workspace().set("profile", options_.profile_path);
  if (options_.restore) {
    restoreGeometry(QByteArray::fromBase64(QByteArray::fromStdString(state_.geometry)));
    restoreState(QByteArray::fromBase64(QByteArray::fromStdString(state_.layout)), kLayout);
    restoring_ = true;
    beginRestore(workspace(), model_.graph, state_);
    hear(Topic::kModel);
  }
  showRecent();
  refreshActions();
}

MainWindow::~MainWindow() { workspace().unlisten(listener_); }

GraphView& MainWindow::graphView() { return graph_->view(); }
QAbstractItemModel& MainWindow::moduleModel() { return *tree_model_; }
QAction* MainWindow::actionNamed(const QString& name) const { return actions_.at(name); }

// --- panels ----------------------------------------------------------------------------------------------------

QDockWidget* MainWindow::dock(const char* name, const QString& title, QWidget* content, Qt::DockWidgetArea area) {
  auto* d = new QDockWidget(title);
  d->setObjectName(QString::fromLatin1(name));
  d->setWidget(content);
  d->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetFloatable | QDockWidget::DockWidgetClosable);
  content->setAccessibleName(title);
  addDockWidget(area, d);
  docks_[QString::fromLatin1(name)] = d;
  dock_order_ << QString::fromLatin1(name);
  return d;
}

void MainWindow::makePanels() {
  pages_ = new QStackedWidget;
  start_ = new StartPage([this] { browse(); }, [this](const std::string& path) { openFiles({path}); });
  graph_ = new GraphPanel(workspace(), model_.graph);
  pages_->addWidget(start_);
  pages_->addWidget(graph_);
  setCentralWidget(pages_);
  search_ = new SearchPopup(workspace(), model_.graph, this);
  more_ = new SettingsPopup(workspace(), this);

  tree_model_ = new ModuleTreeModel(this);
  tree_ = new QTreeView;
  tree_->setModel(tree_model_);
  tree_->setUniformRowHeights(true);
  tree_->setHeaderHidden(true);
  tree_->setIndentation(12);
  tree_->setAccessibleName(tr("Modules"));
  tree_->setMinimumWidth(190);
  tree_->header()->setStretchLastSection(false);
  tree_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  tree_->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this, [this](const QModelIndex& now) {
    if (!now.isValid() || !tree_->hasFocus()) return;  // only what the user did
    Selection s;
    s.rank = workspace().selection().rank;
    s.module = model_.graph.source()->tree->at(tree_model_->moduleOf(now)).path;
    workspace().select(s);
  });
  connect(tree_, &QTreeView::doubleClicked, this, [this](const QModelIndex& index) { model_.graph.setOpen(tree_model_->moduleOf(index), true); });

  setCorner(Qt::BottomLeftCorner, Qt::BottomDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::BottomDockWidgetArea);
  QDockWidget* modules = dock("modules", tr("MODULES"), tree_, Qt::LeftDockWidgetArea);
  QDockWidget* inspect = dock("inspector", tr("INSPECTOR"), new InspectorPanel(workspace()), Qt::RightDockWidgetArea);
  QDockWidget* values = dock("values", tr("VALUES"), new ValuesPanel(workspace()), Qt::RightDockWidgetArea);
  QDockWidget* why = dock("why", tr("WHY"), new WhyPanel(workspace()), Qt::RightDockWidgetArea);
  QDockWidget* mem = dock("memory", tr("MEMORY"), memory_ = new MemoryPanel(workspace()), Qt::BottomDockWidgetArea);
  QWidget* time = options_.make_timeline ? options_.make_timeline(workspace(), this) : nullptr;
  if (time == nullptr) {
    auto* none = new QLabel(tr("This build has no timeline: Dear ImGui was not found when it was made."));
    none->setAlignment(Qt::AlignCenter);
    time = none;
  }
  QDockWidget* timeline = dock("timeline", tr("TIMELINE"), time, Qt::BottomDockWidgetArea);
  QDockWidget* runs = dock("run", tr("RUN"), new RunPanel(workspace()), Qt::BottomDockWidgetArea);
  QDockWidget* log = dock("log", tr("LOG"), new LogPanel(workspace(), [this](const std::string& node) { selectNode(node); }), Qt::BottomDockWidgetArea);
  QDockWidget* fits = dock("plan", tr("WHAT FITS"), plan_ = new PlanPanel(workspace()), Qt::BottomDockWidgetArea);
  QDockWidget* debug = dock("debug", tr("DEBUG"), new DebugPanel(workspace()), Qt::BottomDockWidgetArea);
  QDockWidget* console = dock("console", tr("CONSOLE"), new ConsolePanel(workspace()), Qt::BottomDockWidgetArea);
  splitDockWidget(mem, timeline, Qt::Horizontal);
  for (QDockWidget* tab : {runs, log, fits, debug, console}) tabifyDockWidget(timeline, tab);
  for (QDockWidget* tab : {values, why}) tabifyDockWidget(inspect, tab);
  timeline->raise();
  inspect->raise();
  resizeDocks({modules, inspect}, {290, 330}, Qt::Horizontal);
  resizeDocks({mem, timeline}, {620, 980}, Qt::Horizontal);
  resizeDocks({mem, timeline}, {290, 290}, Qt::Vertical);
}

// --- what happened ------------------------------------------------------------------------------------------------------

void MainWindow::hear(Topic topic) {
  if (topic == Topic::kLog) return;
  switch (topic) {
    case Topic::kModel:
      if (workspace().model()) {
        const std::string& path = workspace().settings().open.path;
        setWindowTitle(toQt(workspace().model()->display_name) + QStringLiteral(" \u2013 SPScope"));
        if (state_.recent.empty() || state_.recent.front() != path) {
          addRecent(state_, path);
          showRecent();
        }
      }
      start_->setMessage(workspace().openError() && workspace().openError()->code != "cancelled" ? toQt(workspace().openError()->format()) : QString());
      [[fallthrough]];
    case Topic::kTrace:
      pages_->setCurrentWidget(workspace().model() || workspace().trace() ? static_cast<QWidget*>(graph_) : start_);
      break;
    default: break;
  }
  // From Run to its profile without a click, unless someone looks at something else by now.
  if (topic == Topic::kRun && !workspace().runProgress().running && workspace().runProgress().error) show_profile_ = false;
  if (topic == Topic::kTrace && show_profile_) {
    show_profile_ = false;
    if (workspace().trace() && !docks_["run"]->visibleRegion().isEmpty()) (void)showPanel("timeline");
  }
  if (restoring_ && (topic == Topic::kModel || topic == Topic::kStage || topic == Topic::kBusy || topic == Topic::kCompiled)) {
    restoring_ = false;  // what it does is heard, too
    restoring_ = !finishRestore(workspace(), model_.graph, state_);
  }
  followTree();
  refreshActions();
  if (topic != Topic::kBusy && !restoring_) save_.start();
}

void MainWindow::followTree() {
  const auto source = model_.graph.source();
  if (source.get() != tree_source_) {
    tree_source_ = source.get();
    QSet<QString> open;
    std::vector<QModelIndex> stack{{}};
    while (!stack.empty()) {
      const QModelIndex at = stack.back();
      stack.pop_back();
      for (int r = 0; r < tree_model_->rowCount(at); ++r)
        if (const QModelIndex child = tree_model_->index(r, 0, at); tree_->isExpanded(child)) {
          open.insert(child.data(Qt::ToolTipRole).toString().section(QLatin1Char('\n'), 0, 0));
          stack.push_back(child);
        }
    }
    tree_model_->setSource(source);
    if (!source) return;
    for (std::size_t m = 1; m < source->tree->modules().size(); ++m) {
      const Module& module = source->tree->at(static_cast<ModuleIndex>(m));
      if (open.isEmpty() ? module.parent == 0 : open.contains(toQt(module.path))) tree_->setExpanded(tree_model_->indexOf(static_cast<ModuleIndex>(m)), true);
    }
  }
  if (!source || tree_->hasFocus()) return;
  const Selection& s = workspace().selection();
  ModuleIndex m = s.module.empty() ? -1 : source->tree->find(s.module);
  if (const std::int32_t i = source->indexOf(s.node); m < 0 && i >= 0) m = source->nodes[static_cast<std::size_t>(i)].module;
  const QModelIndex index = tree_model_->indexOf(m);
  if (index == tree_->currentIndex()) return;
  tree_->setCurrentIndex(index);
  if (index.isValid()) tree_->scrollTo(index);
}

void MainWindow::showRecent() {
  start_->setFiles(state_.recent, options_.samples);
  if (recent_menu_ == nullptr) return;
  recent_menu_->clear();
  for (const std::string& path : state_.recent) recent_menu_->addAction(toQt(path), this, [this, path] { openFiles({path}); });
  recent_menu_->setEnabled(!state_.recent.empty());
}

void MainWindow::remember() {
  if (options_.session_path.empty()) return;
  SessionState now = state_;
  if (!restoring_) captureSession(workspace(), model_.graph, now);
  std::erase_if(now.settings, [&](const auto& s) { return s.first == "profile" && s.second == options_.profile_path; });
  now.dark = currentTheme().dark();
  now.geometry = saveGeometry().toBase64().toStdString();
  now.layout = saveState(kLayout).toBase64().toStdString();
  if (const Status saved = saveSession(options_.session_path, now); !saved) {
    workspace().log({Severity::kWarning, "session", saved.error().code, "this session will not be remembered: " + saved.error().message, {}, {}, {}});
    options_.session_path.clear();  // said once
    return;
  }
  state_ = now;
}

// --- input --------------------------------------------------------------------------------------------------------------

bool MainWindow::event(QEvent* event) {
  const bool done = QMainWindow::event(event);
  if (event->type() == QEvent::Paint && !painted_) {
    painted_ = true;
    if (on_first_paint) on_first_paint();
  }
  return done;
}

/// Panels keep their share of the window.
void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  const QSize before = event->oldSize(), now = event->size();
  if (before.isEmpty() || before == now) return;
  QList<QDockWidget*> beside, below, row;
  QList<int> widths, heights, row_widths;
  for (const auto& [name, d] : docks_) {
    if (d->isFloating() || !d->isVisible() || d->visibleRegion().isEmpty()) continue;  // the hidden pages of tabs follow the shown one
    const Qt::DockWidgetArea area = dockWidgetArea(d);
    if (area == Qt::LeftDockWidgetArea || area == Qt::RightDockWidgetArea) {
      beside << d;
      widths << d->width() * now.width() / before.width();
    } else {
      below << d;
      heights << d->height() * now.height() / before.height();
      row << d;
      row_widths << d->width() * now.width() / before.width();
    }
  }
  if (!beside.isEmpty()) resizeDocks(beside, widths, Qt::Horizontal);
  if (!below.isEmpty()) resizeDocks(below, heights, Qt::Vertical);
  if (row.size() > 1) resizeDocks(row, row_widths, Qt::Horizontal);
}

void MainWindow::closeEvent(QCloseEvent* event) {
  save_.stop();
  remember();
  // What runs is stopped here, and waited for when the workspace goes.
  for (const char* lane : {"open", "compile", "verify", "values", "run", "trace", "beside", "debug", "plan"}) workspace().stop(lane);
  event->accept();
  if (on_closed) on_closed();
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  std::vector<std::string> paths;
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) paths.push_back(url.toLocalFile().toStdString());
  event->acceptProposedAction();
  openFiles(paths);
}

void MainWindow::openFiles(const std::vector<std::string>& paths) {
  restoring_ = false;
  if (paths.size() == 1) workspace().open(paths.front());
  else if (!paths.empty()) workspace().openTraces(paths);
}

void MainWindow::browse() {
  const QStringList files = QFileDialog::getOpenFileNames(this, tr("Open"), toQt(state_.file), tr("Models, stages and traces (*.pt2 *.txt *.json *.json.gz *.sptrace *.sqlite);;All files (*)"));
  std::vector<std::string> paths;
  for (const QString& f : files) paths.push_back(f.toStdString());
  openFiles(paths);
}

void MainWindow::browseBeside() {
  const QStringList files = QFileDialog::getOpenFileNames(this, tr("Compare with a trace"), toQt(state_.file), tr("Traces (*.json *.json.gz *.sptrace *.sqlite);;All files (*)"));
  std::vector<std::string> paths;
  for (const QString& f : files) paths.push_back(f.toStdString());
  if (!paths.empty()) workspace().openTracesBeside(paths);
}

void MainWindow::browseExport() {
  const QString file = QFileDialog::getSaveFileName(this, tr("Export"), QStringLiteral("graph.png"), tr("Picture (*.png);;Scalable picture (*.svg);;Text (*.txt)"));
  if (file.isEmpty()) return;
  if (const Status done = exportGraph(file.toStdString()); !done) workspace().log({Severity::kError, "export", done.error().code, done.error().message, {}, {}, {}});
}

void MainWindow::selectNode(const std::string& name) {
  if (const auto s = selectionNamed(model_.graph, name)) workspace().select(*s);
  else workspace().log({Severity::kRemark, "log", s.error().code, s.error().message, {}, {}, {}});
}

void MainWindow::stepStage(int by) {
  const int stage = workspace().stage() + by;
  if (stage >= 0 && stage < static_cast<int>(workspace().stages().size())) chooseStage(workspace(), stage, false);
}

// --- ActionView -----------------------------------------------------------------------------------------------------------

Status MainWindow::setTheme(bool dark) {
  applyTheme(*qApp, Theme(dark));
  strip_->update();
  hear(Topic::kSettings);
  for (QWidget* w : findChildren<QWidget*>()) w->update();
  return {};
}

Status MainWindow::resizeTo(int width, int height) {
  resize(width, height);
  return {};
}

Status MainWindow::showPanel(const std::string& name) {
  if (name == "settings") return more_->open(settings_->moreButton()), Status{};
  if (const auto it = docks_.find(toQt(name)); it != docks_.end()) {
    it->second->show();
    it->second->raise();
    return {};
  }
  Error e = makeError("usage", "there is no panel " + name, Outcome::kNo);
  for (const auto& [known, d] : docks_) e.legal += known.toStdString() + ", ";
  e.legal += "settings";
  return e;
}

Status MainWindow::showCurve(const std::string& key) {
  Error e = makeError("usage", "there is no curve " + key, Outcome::kNo);
  for (const MemoryChoice& c : memory_->view().choices()) {
    if (c.key == key) return memory_->view().show(key, true), Status{};
    e.legal += (e.legal.empty() ? "" : ", ") + c.key;
  }
  return e;
}

Status MainWindow::plan(const std::string& device, const std::string& gpus, const std::string& want) {
  const std::pair<const char*, const std::string&> asked[] = {{"device", device}, {"gpus", gpus}, {"want", want}};
  for (const auto& [name, value] : asked) SP_TRY(plan_->view().set(name, value));
  plan_->view().plan();
  return showPanel("plan");
}

Status MainWindow::planned() {
  if (plan_->view().error()) return *plan_->view().error();
  return {};
}

Status MainWindow::takeRow(const std::string& row) { return plan_->view().take(QString::fromStdString(row).toInt() - 1); }

Status MainWindow::fit(bool selection) {
  if (selection) graphView().fitSelection();
  else graphView().fit(false);
  return {};
}

Status MainWindow::search(const std::string& query) {
  search_->open(toQt(query));
  if (search_->found() > 0) return {};
  return makeError("usage", "nothing matches " + query, Outcome::kNo);
}

Status MainWindow::screenshot(const std::string& path) {
  // What was changed since the last paint is arranged first; a layout may ask for another one above it.
  for (int i = 0; i < 3; ++i) QCoreApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
  if (!grab().save(toQt(path))) return makeError("file-unwritable", "the picture could not be written to " + path, Outcome::kNo);
  return {};
}

Status MainWindow::exportGraph(const std::string& path) {
  if (model_.graph.scene() == nullptr) return makeError("usage", "export: no graph is open", Outcome::kNo);
  if (!QString::fromStdString(path).endsWith(QLatin1String(".png"))) return exportText(model_.graph, path, currentTheme());
  const QImage image = graphView().wholeImage();
  if (image.isNull() || !image.save(toQt(path))) return makeError("file-unwritable", "the picture could not be written to " + path, Outcome::kNo);
  return {};
}

void MainWindow::closeWindow() { close(); }

}  // namespace spscope::ui
