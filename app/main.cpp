// SPDX-License-Identifier: Apache-2.0
// spscope: the headless command. Reads the command line, runs one command, reports. Exit codes: 0 fine, 1 the answer
// is no, 2 usage, 3 refused with reasons, 4 a run failed.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <exception>

#include "app/commands/command.h"
#include "core/base/log.h"
#include "core/base/strings.h"
#include "core/session/interrupt.h"
#include "core/session/run.h"

namespace spscope::app {
namespace {

/// Progress on standard error: one line that is rewritten on a terminal, plain log lines otherwise.
class ProgressLine {
 public:
  ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { clear(); }
  void show(const Progress& p) {
    const std::string text = p.total > 0 ? strf("%.*s %lld/%lld", static_cast<int>(p.what.size()), p.what.data(),
                                                static_cast<long long>(p.done), static_cast<long long>(p.total))
                                         : std::string(p.what);
    if (!terminal_) {
      log::info("progress", text);
      return;
    }
    std::fprintf(stderr, "\r\033[K%s", text.substr(0, 100).c_str());
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  bool terminal_, shown_ = false;
};

struct CommonFlags {
  std::string json, page, log_level = "warning";
};

/// --json as it stands on the command line, for when the rest of it cannot be understood.
std::string jsonPathIn(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) return argv[i + 1];
    if (std::strncmp(argv[i], "--json=", 7) == 0) return argv[i] + 7;
  }
  return {};
}

int usageError(const CLI::App& app, const CLI::ParseError& parse_error, int argc, char** argv) {
  Report report;
  report.setOutputs(jsonPathIn(argc, argv), {});
  std::vector<std::string> names;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(c->get_name());
  const CLI::App* used = app.get_subcommands().empty() ? nullptr : app.get_subcommands().front();
  if (used) report.setCommand(used->get_name());
  Error error = makeError("usage", parse_error.what(), Outcome::kUsage);
  if (!used && argc > 1 && argv[1][0] != '-') {
    const std::string near = nearest(argv[1], names);
    error.message = "there is no command " + std::string(argv[1]) + (near.empty() ? "" : "; did you mean " + near + "?");
    error.legal = join(names, ", ");
  }
  error.remedy = "See spscope " + (used ? used->get_name() + " " : std::string()) + "--help.";
  return report.fail(error);
}

int run(int argc, char** argv) {
  CLI::App app{"spscope: compiles a saved PyTorch training graph for sequence parallelism, proves it, runs it.", "spscope"};
  app.set_version_flag("--version", std::string("spscope " SPSCOPE_VERSION));
  app.require_subcommand(1);
  app.footer("Example:\n  spscope compile model.pt2 --sp 4\nEvery command: spscope COMMAND --help. "
             "Codes: spscope explain CODE.\nExit codes: 0 fine, 1 the answer is no, 2 usage, 3 refused, 4 a run failed.");
  auto commands = allCommands();
  CommonFlags common;
  std::vector<CLI::App*> declared;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command->name(), command->summary());
    sub->footer("Examples:\n" + command->examples());
    command->declare(*sub);
    sub->add_option("--json", common.json, "write the result as one JSON object (-: to standard output)")->type_name("FILE");
    sub->add_option("--report", common.page, "write the result as a page")->type_name("OUT.html|OUT.md");
    sub->add_option("--log-level", common.log_level, "debug, info, warning, error or off")->capture_default_str()->type_name("L");
    declared.push_back(sub);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return usageError(app, e, argc, argv);
  }

  Report report;
  report.setOutputs(common.json, common.page);
  log::Level level = log::Level::kWarning;
  if (!log::parseLevel(common.log_level, &level))
    return report.fail(makeError("usage", "--log-level " + common.log_level + " is none of debug, info, warning, error, off", Outcome::kUsage));
  log::setLevel(level);
  ProgressLine progress;
  session::Request request;
  request.diagnostics = &report.diagnostics;
  request.progress = [&](const Progress& p) { progress.show(p); };
  const session::InterruptGuard interrupt(request.cancel);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!declared[i]->parsed()) continue;
    report.setCommand(commands[i]->name());
    report.startClock();
    try {
      const Result<int> code = commands[i]->run(report, request);
      progress.clear();
      return code ? report.finish(*code) : report.fail(code.error());
    } catch (const std::exception& e) {  // no call of ours throws; memory that is not there, and faults of ours, do
      progress.clear();
      return report.fail(makeError("internal", e.what(), Outcome::kRunFailed));
    }
  }
  return 2;
}

}  // namespace
}  // namespace spscope::app

int main(int argc, char** argv) {
  // Not for people: how `run` starts this program as one of its ranks.
  if (argc == 2 && std::strcmp(argv[1], "rank") == 0) return spscope::session::rankMain();
  return spscope::app::run(argc, argv);
}
