// SPDX-License-Identifier: Apache-2.0
// What can be done in the window: actions with their keys, the menus and bars that hold them, and when they can be done.
#include <QDockWidget>
#include <QMenuBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/model/debug/debug_session.h"
#include "ui/qt/debug_bar.h"
#include "ui/qt/graph_panel.h"
#include "ui/qt/graph_view.h"
#include "ui/qt/main_window.h"
#include "ui/qt/qt_theme.h"
#include "ui/qt/settings_bar.h"
#include "ui/qt/settings_popup.h"
#include "ui/qt/search_popup.h"
#include "ui/qt/stage_strip_view.h"

namespace spscope::ui {

QAction* MainWindow::makeAction(const char* name, const QString& text, const QList<QKeySequence>& keys, const QString& tip, std::function<void()> run) {
  auto* action = new QAction(text, this);
  action->setShortcuts(keys);
  action->setShortcutContext(Qt::WindowShortcut);
  action->setToolTip(keys.isEmpty() ? tip : tip + QStringLiteral(" (%1)").arg(keys.first().toString(QKeySequence::NativeText)));
  action->setStatusTip(tip);
  connect(action, &QAction::triggered, this, [run = std::move(run)] { run(); });
  addAction(action);
  actions_[QString::fromLatin1(name)] = action;
  return action;
}

void MainWindow::makeActions() {
  const auto key = [](QKeyCombination k) { return QList<QKeySequence>{QKeySequence(k)}; };
  makeAction("open", tr("Open\u2026"), key(Qt::CTRL | Qt::Key_O), tr("Open a model, a stage or a trace"), [this] { browse(); });
  makeAction("open-beside", tr("Compare with a trace\u2026"), key(Qt::CTRL | Qt::SHIFT | Qt::Key_O), tr("A second trace below the open one, on the same scale"), [this] { browseBeside(); });
  makeAction("close-beside", tr("Close the compared trace"), key(Qt::CTRL | Qt::SHIFT | Qt::Key_W), tr("The open trace alone"), [this] { workspace().closeTraceBeside(); });
  makeAction("export", tr("Export\u2026"), key(Qt::CTRL | Qt::Key_E), tr("The shown graph as a picture or as text"), [this] { browseExport(); });
  makeAction("quit", tr("Quit"), key(Qt::CTRL | Qt::Key_Q), tr("Close the window; what runs is stopped"), [this] { close(); });
  makeAction("settings", tr("More"), key(Qt::CTRL | Qt::Key_Comma), tr("Further settings: ZeRO, accumulation, precision, tiled loss \u2026"), [this] {
    if (more_->isVisible()) more_->hide();
    else more_->open(settings_->moreButton());
  });
  makeAction("compile", tr("Compile"), key(Qt::CTRL | Qt::Key_B), tr("Compile the training step for these settings"), [this] { workspace().compile(); });
  makeAction("verify", tr("Verify"), key(Qt::CTRL | Qt::Key_Y), tr("Compare loss and gradients with the unsharded graph"), [this] {
    workspace().verify();
    (void)showPanel("run");
  });
  makeAction("run", tr("Run"), key(Qt::CTRL | Qt::Key_R), tr("Train some steps on all ranks"), [this] {
    workspace().run();
    (void)showPanel("run");
    show_profile_ = true;
  });
  makeAction("stop", tr("Stop"), key(Qt::Key_Escape), tr("Stop what is under way"), [this] {
    for (const char* lane : {"open", "compile", "verify", "values", "run", "trace", "beside", "debug", "plan"}) workspace().stop(lane);
  });
  makeAction("search", tr("Search"), {QKeySequence(Qt::CTRL | Qt::Key_K), QKeySequence(QKeySequence::Find)}, tr("Find a node by name, op, shape, placement or source"), [this] { search_->open(); });
  makeAction("back", tr("Back"), key(Qt::ALT | Qt::Key_Left), tr("What was selected before"), [this] { workspace().back(); });
  makeAction("forward", tr("Forward"), key(Qt::ALT | Qt::Key_Right), tr("What was selected after that"), [this] { workspace().forward(); });
  makeAction("next-stage", tr("Next stage"), key(Qt::CTRL | Qt::Key_PageDown), tr("The next stage, compared with the one before it"), [this] { stepStage(1); });
  makeAction("previous-stage", tr("Previous stage"), key(Qt::CTRL | Qt::Key_PageUp), tr("The stage before, compared with the one before it"), [this] { stepStage(-1); });
  makeAction("undiff", tr("No comparison"), key(Qt::CTRL | Qt::SHIFT | Qt::Key_D), tr("The shown stage alone"), [this] { workspace().compareWith(-1); });
  makeAction("side-by-side", tr("Side by side"), key(Qt::CTRL | Qt::Key_D), tr("Merged, or two stages side by side"), [this] { graph_->setSideBySide(!graph_->sideBySide()); });
  makeAction("fit", tr("Show everything"), key(Qt::CTRL | Qt::Key_0), tr("The whole graph in the view"), [this] { graphView().fit(true); });
  makeAction("fit-selection", tr("Show the selection"), key(Qt::CTRL | Qt::Key_1), tr("The selected node or module in the view"), [this] { graphView().fitSelection(); });
  makeAction("zoom-in", tr("Larger"), {QKeySequence(QKeySequence::ZoomIn)}, tr("Zoom into the graph"), [this] { graphView().zoomBy(1.25); });
  makeAction("zoom-out", tr("Smaller"), {QKeySequence(QKeySequence::ZoomOut)}, tr("Zoom out of the graph"), [this] { graphView().zoomBy(0.8); });
  makeAction("close-all", tr("Close all modules"), key(Qt::CTRL | Qt::SHIFT | Qt::Key_Minus), tr("Every module as one box"), [this] { model_.graph.closeAll(); });
  makeAction("theme", tr("Dark or light"), key(Qt::CTRL | Qt::Key_T), tr("The other theme"), [this] { (void)setTheme(!currentTheme().dark()); });
  makeDebugActions();
  makeAction("close-trace", tr("Close the trace"), key(Qt::CTRL | Qt::SHIFT | Qt::Key_T), tr("Back to the graph without measured times"), [this] { workspace().closeTrace(); });
}

/// The debugger's, with the keys that other debuggers have for them.
void MainWindow::makeDebugActions() {
  const auto key = [](QKeyCombination k) { return QList<QKeySequence>{QKeySequence(k)}; };
  const auto send = [this](const char* line) { return [this, line] { workspace().debug().send(line); }; };
  makeAction("debug", tr("Debug"), key(Qt::Key_F5), tr("Runs one step of the compiled program, a node at a time"), [this] {
    if (workspace().debug().state() == DebugSession::State::kStopped) return workspace().debug().send("continue");
    workspace().debug().start();
    (void)showPanel("debug");
    (void)showPanel("values");
  });
  makeAction("debug-pause", tr("Pause"), key(Qt::Key_F6), tr("Stops all ranks before their next node"), [this] { workspace().debug().pause(); });
  makeAction("debug-step", tr("Step"), key(Qt::Key_F11), tr("Runs the next node of every rank, or the collective that all have come to"), send("step"));
  makeAction("debug-next", tr("Over"), key(Qt::Key_F10), tr("Runs to the end of the module"), send("next"));
  makeAction("debug-out", tr("Out"), key(Qt::SHIFT | Qt::Key_F11), tr("Runs to the end of the module around it"), send("out"));
  makeAction("debug-collective", tr("Collective"), key(Qt::Key_F12), tr("Runs to the next collective"), send("collective"));
  makeAction("debug-to", tr("To here"), key(Qt::CTRL | Qt::Key_F10), tr("Runs to the selected node, forward or back"), [this] {
    if (const std::string line = workspace().debug().lineTo(workspace().selection().node); !line.empty()) workspace().debug().send(line);
  });
  makeAction("debug-back", tr("Back"), key(Qt::SHIFT | Qt::Key_F10), tr("Goes one move back; the step repeats to the last bit"), send("back"));
  makeAction("debug-restart", tr("Restart"), key(Qt::CTRL | Qt::SHIFT | Qt::Key_F5), tr("Goes back to the beginning of the step"), send("restart"));
  makeAction("debug-end", tr("End"), key(Qt::SHIFT | Qt::Key_F5), tr("Ends debugging; breakpoints stay"), [this] { workspace().debug().end(); });
  makeAction("debug-wrong", tr("First wrong node"), key(Qt::Key_F8), tr("Selects the first node of the step whose value is not the unsharded one"), send("wrong"));
  makeAction("breakpoint", tr("Breakpoint"), key(Qt::Key_F9), tr("Sets a breakpoint at the selected node, or removes it"), [this] { graphView().toggleBreakpoint(); });
}

void MainWindow::makeMenus() {
  auto* bars = new QWidget;
  auto* column = new QVBoxLayout(bars);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* menu = new QMenuBar;
  menu->setNativeMenuBar(false);
  QMenu* file = menu->addMenu(tr("&File"));
  file->addAction(actions_["open"]);
  recent_menu_ = file->addMenu(tr("Recent"));
  file->addAction(actions_["export"]);
  for (const char* name : {"open-beside", "close-beside", "close-trace"}) file->addAction(actions_[QString::fromLatin1(name)]);
  file->addSeparator();
  file->addAction(actions_["quit"]);
  QMenu* program = menu->addMenu(tr("&Program"));
  for (const char* name : {"settings", "compile", "verify", "run", "stop"}) program->addAction(actions_[QString::fromLatin1(name)]);
  QMenu* debug = menu->addMenu(tr("&Debug"));
  for (const char* name : {"debug", "debug-pause", "debug-end", "debug-restart"}) debug->addAction(actions_[QString::fromLatin1(name)]);
  debug->addSeparator();
  for (const char* name : {"debug-step", "debug-next", "debug-out", "debug-collective", "debug-to", "debug-back"}) debug->addAction(actions_[QString::fromLatin1(name)]);
  debug->addSeparator();
  for (const char* name : {"breakpoint", "debug-wrong"}) debug->addAction(actions_[QString::fromLatin1(name)]);
  QMenu* go = menu->addMenu(tr("&Go"));
  for (const char* name : {"search", "back", "forward", "next-stage", "previous-stage"}) go->addAction(actions_[QString::fromLatin1(name)]);
  QMenu* view = menu->addMenu(tr("&View"));
  for (const char* name : {"fit", "fit-selection", "zoom-in", "zoom-out", "close-all", "side-by-side", "undiff", "theme"}) view->addAction(actions_[QString::fromLatin1(name)]);
  view->addSeparator();
  int number = 0;
  for (const QString& name : dock_order_) {
    QDockWidget* d = docks_[name];
    QAction* toggle = d->toggleViewAction();
    toggle->setShortcut(QKeySequence((number < 10 ? QStringLiteral("Alt+%1") : QStringLiteral("Alt+Shift+%1")).arg((number + 1) % 10)));
    toggle->setToolTip(tr("Show or hide the panel %1").arg(name));
    ++number;
    view->addAction(toggle);
    addAction(toggle);
  }
  settings_ = new SettingsBar(workspace(), {actions_["open"], actions_["settings"], actions_["compile"], actions_["verify"], actions_["run"], actions_["debug"], actions_["stop"], actions_["search"]});
  strip_ = new StageStripView(workspace());
  column->addWidget(menu);
  column->addWidget(settings_);
  column->addWidget(strip_);
  const auto group = [&](const std::vector<const char*>& names) {
    std::vector<QAction*> out;
    for (const char* name : names) out.push_back(actions_[QString::fromLatin1(name)]);
    return out;
  };
  column->addWidget(new DebugBar(workspace(), {group({"debug", "debug-pause"}), group({"debug-step", "debug-next", "debug-out", "debug-collective", "debug-to"}), group({"debug-back", "debug-restart"}),
                                               group({"debug-wrong", "debug-end"})}));
  setMenuWidget(bars);
}

void MainWindow::refreshActions() {
  const JobQueue& jobs = workspace().jobs();
  const bool model = workspace().model() != nullptr, running = jobs.busy("run");
  const auto enable = [&](const char* name, bool on) { actions_.at(QString::fromLatin1(name))->setEnabled(on); };
  enable("compile", model);
  enable("verify", model && !jobs.busy("verify"));
  enable("run", model && !running);
  enable("stop", jobs.busy("open") || jobs.busy("compile") || jobs.busy("verify") || jobs.busy("values") || jobs.busy("plan") || running || jobs.busy("trace") || workspace().debug().state() == DebugSession::State::kStarting || workspace().debug().state() == DebugSession::State::kMoving);
  const DebugSession& debug = workspace().debug();
  const auto state = debug.state();
  const bool stopped = state == DebugSession::State::kStopped, over = !debug.stop() || debug.stop()->reason == session::debug::StopReason::kEnd;
  QAction* start = actions_.at(QStringLiteral("debug"));
  start->setText(stopped ? tr("Continue") : tr("Debug"));
  start->setEnabled(model && (state == DebugSession::State::kOff || (stopped && !over)));
  enable("debug-pause", state == DebugSession::State::kMoving || state == DebugSession::State::kStarting);
  for (const char* name : {"debug-step", "debug-next", "debug-out", "debug-collective"}) enable(name, stopped && !over);
  for (const char* name : {"debug-back", "debug-restart"}) enable(name, stopped && debug.stop()->made > 0);
  enable("debug-to", stopped && !debug.lineTo(workspace().selection().node).empty());
  enable("debug-wrong", stopped);
  enable("debug-end", debug.on());
  enable("breakpoint", model && workspace().selection().node != ir::kNone);
  enable("export", model);
  enable("search", model);
  enable("back", workspace().history().canBack());
  enable("forward", workspace().history().canForward());
  const int stages = static_cast<int>(workspace().stages().size());
  enable("next-stage", workspace().stage() + 1 < stages);
  enable("previous-stage", workspace().stage() > 0);
  enable("undiff", workspace().comparedWith() >= 0);
  enable("side-by-side", workspace().comparedWith() >= 0 || graph_->sideBySide());
  enable("close-trace", workspace().trace() != nullptr);
  enable("open-beside", workspace().trace() != nullptr);
  enable("close-beside", workspace().traceBeside() != nullptr);
  for (const char* name : {"fit", "fit-selection", "zoom-in", "zoom-out", "close-all"}) enable(name, model);
}

}  // namespace spscope::ui
