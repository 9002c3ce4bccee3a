// SPDX-License-Identifier: Apache-2.0
// spscope-gui: the window. With --actions it does what a script says, with --screenshot it leaves a picture; both work without
// a display. Without a display or fonts it says so in a line and ends; Qt alone would abort.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <QApplication>
#include <QElapsedTimer>
#include <QSocketNotifier>
#include <QTimer>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/commands/debug_answer.h"
#include "core/session/interrupt.h"
#include "core/session/machine.h"
#include "ui/qt/main_window.h"
#include "ui/qt/qt_theme.h"
#ifdef SPSCOPE_HAVE_TIMELINE
#include "ui/imgui/timeline_widget.h"
#endif

namespace {

using namespace spscope;
namespace fs = std::filesystem;

constexpr int kNoDisplay = 3;
int g_signal_pipe[2] = {-1, -1};

void say(const std::string& text) { std::fprintf(stderr, "spscope-gui: %s\n", text.c_str()); }

/// Qt ends the process with abort() where it finds no platform: this ends it with a line instead.
void onMessage(QtMsgType type, const QMessageLogContext&, const QString& message) {
  if (type == QtFatalMsg) {
    say("the window cannot be shown: " + message.toStdString());
    say("Set DISPLAY or WAYLAND_DISPLAY, use xvfb-run, or draw without a display: QT_QPA_PLATFORM=offscreen spscope gui --actions FILE --screenshot OUT.png");
    std::_Exit(kNoDisplay);
  }
  if (message.startsWith(QLatin1String("QStandardPaths: XDG_RUNTIME_DIR"))) return;  // says nothing about this window
  if (type == QtWarningMsg || type == QtCriticalMsg) std::fprintf(stderr, "spscope-gui: %s\n", message.toUtf8().constData());
}

bool hasDisplay() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return true;
  return false;
}

/// Ctrl-C and kill close the window as the user would: ranks are stopped, the session is saved.
void closeOnSignals(ui::MainWindow& window) {
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, g_signal_pipe) != 0) return;
  auto* notifier = new QSocketNotifier(g_signal_pipe[1], QSocketNotifier::Read, &window);
  QObject::connect(notifier, &QSocketNotifier::activated, &window, [&window, notifier] {
    notifier->setEnabled(false);
    window.close();
  });
  struct sigaction action {};
  action.sa_handler = [](int) {
    const char byte = 1;
    [[maybe_unused]] const auto written = ::write(g_signal_pipe[0], &byte, 1);
  };
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

/// resources/samples beside the program: where it was installed, or in the tree it was built from.
std::vector<std::string> samples() {
  std::vector<std::string> out;
  std::error_code failed;
  fs::path at = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (int up = 0; up < 5 && !at.empty(); ++up, at = at.parent_path())
    for (const char* folder : {"resources/samples", "share/spscope/samples"})
      if (out.empty())
        for (fs::directory_iterator it(at / folder, failed), end; !failed && it != end; it.increment(failed))
          if (it->path().extension() == ".pt2") out.push_back(it->path().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string profilePath() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::error_code failed;
  for (const fs::path& folder : {cache != nullptr && *cache == '/' ? fs::path(cache) / "spscope" : home != nullptr && *home != '\0' ? fs::path(home) / ".cache/spscope" : fs::path(), fs::temp_directory_path(failed) / ("spscope-" + std::to_string(::getuid()))}) {
    if (folder.empty()) continue;
    fs::create_directories(folder, failed);
    if (::access(folder.c_str(), W_OK) == 0) return (folder / ("run-" + std::to_string(::getpid()) + ".sptrace")).string();
  }
  return {};
}

struct Flags {
  std::vector<std::string> files;
  std::string actions, screenshot;
  bool fresh = false, timings = false;
};

int show(int argc, char** argv, const Flags& flags) {
  QElapsedTimer clock;
  clock.start();
  std::vector<ui::Action> actions;
  const bool scripted = !flags.actions.empty() || !flags.screenshot.empty();
  if (!flags.actions.empty()) {
    std::ifstream in(flags.actions);
    if (!in) return say("there is no file " + flags.actions), 2;
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    auto parsed = ui::parseActions(text);
    if (!parsed) return say(flags.actions + ": " + parsed.error().format()), 2;
    actions = std::move(*parsed);
  }
  if (!hasDisplay()) {
    if (!scripted) {
      say("there is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set)");
      say("Use xvfb-run, ssh -X, or draw without a display: spscope gui --actions FILE --screenshot OUT.png. Everything that the window does, spscope compile, verify, run and trace do, too.");
      return kNoDisplay;
    }
    ::setenv("QT_QPA_PLATFORM", "offscreen", 1);
  }
  qInstallMessageHandler(onMessage);
  QApplication application(argc, argv);
  QApplication::setApplicationName(QStringLiteral("spscope"));
  const QString fonts = ui::findFonts();
  if (fonts.isNull()) return say("there are no fonts here: nothing could be read in a window"), say("Install fonts-dejavu-core (Debian, Ubuntu), or set SPSCOPE_FONTS to a folder with .ttf files."), kNoDisplay;
  if (!fonts.isEmpty()) say("fontconfig knows no fonts; " + fonts.toStdString() + " is used");

  ui::WindowModel model;
  ui::WindowOptions options;
  options.samples = samples();
  options.profile_path = profilePath();
  if (!scripted) options.session_path = ui::sessionPath();
  options.restore = !scripted && !flags.fresh && flags.files.empty();
  options.debug_text = [](const session::debug::Answer& answer) { return app::debugPage(answer).text(); };
#ifdef SPSCOPE_HAVE_TIMELINE
  options.make_timeline = [](ui::Workspace& workspace, QWidget* parent) -> QWidget* { return new ui::TimelineWidget(workspace, parent); };
#endif
  const std::string profile = options.profile_path;
  int code = 0;
  {
    ui::MainWindow window(model, std::move(options));
    closeOnSignals(window);
    window.on_first_paint = [&] {
      if (flags.timings) std::fprintf(stderr, "first paint after %lld ms\n", static_cast<long long>(clock.elapsed()));
    };
    std::unique_ptr<ui::ActionRunner> runner;
    window.on_closed = [&] {
      if (!runner) application.quit();
    };
    window.show();
    if (!flags.files.empty()) window.openFiles(flags.files);
    if (scripted) {
      if (!flags.files.empty()) actions.insert(actions.begin(), {0, "wait", {}, "wait"});
      const auto done = [&](std::optional<Error> error) {
        if (error) say(error->format()), code = 1;
        // After the last paint that the last action asked for.
        QTimer::singleShot(0, &application, [&] {
          if (!flags.screenshot.empty())
            if (const Status shot = window.screenshot(flags.screenshot); !shot) say(shot.error().format()), code = 1;
          application.quit();
        });
      };
      runner = std::make_unique<ui::ActionRunner>(model.workspace, model.graph, window, std::move(actions), done);
      runner->start();
    }
    application.exec();
    runner.reset();
  }
  std::error_code ignored;
  if (!profile.empty()) fs::remove(profile, ignored);  // of this window only; who wants to keep one names a file
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  session::ignoreBrokenPipes();
  session::restartWithSleepingThreads(argv);
  CLI::App app{"spscope-gui: the window of spscope.", "spscope-gui"};
  Flags flags;
  app.add_option("FILE", flags.files, "a model, a stage, or traces");
  app.add_option("--actions", flags.actions, "a script of actions, one a line");
  app.add_option("--screenshot", flags.screenshot, "where a picture of the window goes at the end");
  app.add_flag("--fresh", flags.fresh, "do not open what was open the last time");
  app.add_flag("--timings", flags.timings, "say how long it took to the first paint");
  // Words that Qt understands (-platform, -style) stay for it.
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  session::takeInterrupts();
  return show(argc, argv, flags);
}
