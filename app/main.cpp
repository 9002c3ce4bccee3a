// SPDX-License-Identifier: Apache-2.0
// spscope: the headless command. Reads the command line, runs one command, reports. Exit codes: 0 fine, 1 the answer
// is no, 2 usage, 3 refused with reasons, 4 a run failed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/abandon.h"
#include "app/commands/command.h"
#include "app/help.h"
#include "app/progress.h"
#include "app/version.h"
#include "app/shell_word.h"
#include "core/base/log.h"
#include "core/base/strings.h"
#include "core/session/interrupt.h"
#include "core/session/machine.h"
#include "core/session/run.h"

namespace spscope::app {
namespace {

struct CommonFlags {
  std::string json, page, log_level = "warning", log_format = "text";
};

/// How a rank process learns how its run logs. Not for people.
constexpr const char* kRankLog = "SPSCOPE_RANK_LOG";

/// --json as it stands on the command line, for when the rest of it cannot be understood.
std::string jsonPathIn(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) return argv[i + 1];
    if (std::strncmp(argv[i], "--json=", 7) == 0) return argv[i] + 7;
  }
  return {};
}

/// Which rank of a launch this process is, where --launched stands on the command line and the launcher says so.
std::optional<int> launchedRankIn(int argc, char** argv) {
  if (std::none_of(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--launched") == 0; })) return {};
  return session::launchedRank();
}

/// The first word that looks like a flag and is none of the command's; "" where there is none.
std::string unknownFlag(const CLI::App& command, int argc, char** argv, std::vector<std::string>* known) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known->push_back("--" + name);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (word.compare(0, 2, "--") != 0) continue;
    const std::string name = word.substr(0, word.find('='));
    if (std::find(known->begin(), known->end(), name) == known->end()) return name;
  }
  return {};
}

/// What the parser found, in words for people.
std::string plainMessage(const CLI::ParseError& error) {
  std::string text = error.what();
  const std::string conversion = "Could not convert: ";  // "Could not convert: --sp = abc"
  if (text.compare(0, conversion.size(), conversion) == 0) {
    text.erase(0, conversion.size());
    const std::size_t at = text.find(" = ");
    return at == std::string::npos ? text + " is no number" : text.substr(0, at) + ": " + text.substr(at + 3) + " is no number that it takes";
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch) && text.find(" missing") != std::string::npos)
    return text.substr(0, text.find(':')) + " needs a value";  // "--sp: 1 required P missing"
  const std::string extra = "The following argument was not expected: ";
  if (text.compare(0, extra.size(), extra) == 0) return text.substr(extra.size()) + " is one argument too many";
  return text;
}

int usageError(const CLI::App& app, const CLI::ParseError& parse_error, int argc, char** argv) {
  Report report;
  report.setOutputs(jsonPathIn(argc, argv), {});
  if (const auto rank = launchedRankIn(argc, argv)) report.setRank(*rank);
  std::vector<std::string> names;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(c->get_name());
  const CLI::App* used = app.get_subcommands().empty() ? nullptr : app.get_subcommands().front();
  if (used) report.setCommand(used->get_name());
  Error error = makeError("usage", plainMessage(parse_error), Outcome::kUsage);
  const auto didYouMean = [](const std::string& word, const std::vector<std::string>& candidates) {
    const std::string near = nearest(word, candidates);
    return near.empty() ? std::string() : "; did you mean " + near + "?";
  };
  std::vector<std::string> flags;
  if (!used) {
    error.legal = join(names, ", ");
    if (argc <= 1 || std::strncmp(argv[1], "--json", 6) == 0) error.message = "no command is given";
    else if (argv[1][0] == '-') error.message = std::string(argv[1]) + " stands where a command is expected";
    else if (argv[1][0] != '-') error.message = "there is no command " + std::string(argv[1]) + didYouMean(argv[1], names);
  } else if (parse_error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::string flag = unknownFlag(*used, argc, argv, &flags);
    if (!flag.empty()) error.message = used->get_name() + " has no flag " + flag + didYouMean(flag, flags);
  }
  error.remedy = "See spscope " + (used ? used->get_name() + " " : std::string()) + "--help.";
  return report.fail(error);
}

/// Files that a command writes must be none that it reads, and no two of them the same. The message, or nothing.
std::string overwrites(int argc, char** argv) {
  namespace fs = std::filesystem;
  static constexpr std::string_view kWritten[] = {"--json", "--report", "--profile", "--grads", "--junit", "--markdown", "-o", "--output"};
  static constexpr std::string_view kFilesOnly[] = {"--profile", "--grads"};
  std::vector<std::pair<std::string, std::string>> written;  // flag, path
  std::vector<std::string> whole;                            // flags that put something in place of the text on standard output
  std::vector<std::string> read;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string flag = word.substr(0, word.find('='));
    const bool output = std::find(std::begin(kWritten), std::end(kWritten), flag) != std::end(kWritten);
    const std::string path = word.size() > flag.size() ? word.substr(flag.size() + 1) : output && i + 1 < argc ? argv[++i] : word;
    if (output) {
      if (path != "-") written.emplace_back(flag, path);
      else if (std::find(std::begin(kFilesOnly), std::end(kFilesOnly), flag) != std::end(kFilesOnly)) return flag + " goes to a file: name one (standard output takes the answer)";
      else if (flag != "--json") whole.push_back(flag);
    } else {
      read.push_back(path);
    }
  }
  if (whole.size() > 1) return whole[0] + " and " + whole[1] + " both ask for standard output";
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code failed;
    if (fs::exists(a, failed) && fs::exists(b, failed)) return fs::is_regular_file(a, failed) && fs::equivalent(a, b, failed);
    return fs::absolute(a, failed).lexically_normal() == fs::absolute(b, failed).lexically_normal();
  };
  for (std::size_t w = 0; w < written.size(); ++w) {
    for (const std::string& path : read) {
      std::error_code failed;
      if (fs::is_regular_file(path, failed) && same(path, written[w].second))
        return written[w].first + " " + written[w].second + " would overwrite a file that the command reads";
    }
    for (std::size_t other = 0; other < w; ++other)
      if (same(written[w].second, written[other].second))
        return written[w].first + " and " + written[other].first + " name one file: " + written[w].second;
  }
  return {};
}

/// The command as it can be typed again.
std::string commandLine(int argc, char** argv) {
  std::vector<std::string> words{"spscope"};
  for (int i = 1; i < argc; ++i) words.push_back(shellWord(argv[i]));
  return join(words, " ");
}

/// Every option of the command that has a value, given or by default.
std::vector<std::pair<std::string, std::string>> flagValues(const CLI::App& command) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const CLI::Option* option : command.get_options()) {
    const std::string value = option->count() > 0 ? join(option->reduced_results(), ",") : option->get_default_str();
    if (!value.empty() && option->get_name() != "--help") out.emplace_back(option->get_name(option->get_lnames().empty()), value + (option->count() > 0 ? "" : " (default)"));
  }
  return out;
}

int run(int argc, char** argv) {
  CLI::App app{"spscope: compiles a saved PyTorch training graph for sequence parallelism, proves it, runs it.", "spscope"};
  app.set_version_flag("--version", versionText(), "which version this is");
  app.require_subcommand(1);
  useManualPages(app);
  app.get_help_ptr()->description("this page");
  auto commands = allCommands();
  CommonFlags common;
  std::vector<CLI::App*> declared;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command->name(), command->summary());
    command->declare(*sub);
    sub->option_defaults()->group("Output");
    if (CLI::Option* help = sub->get_help_ptr()) help->description("this page")->group("Output");
    sub->add_option("--json", common.json, "write the result as one JSON object (-: to standard output)")->type_name("FILE");
    sub->add_option("--report", common.page, "write the result as a page")
        ->type_name("OUT.html|OUT.md")
        ->check([](const std::string& path) {
          const bool known = path.ends_with(".html") || path.ends_with(".md");
          return known ? std::string() : "a page is written as .html or .md, not as " + path;
        });
    sub->add_option("--log-level", common.log_level, "what is said on standard error besides errors")->capture_default_str()->type_name("debug|info|warning|error|off");
    sub->add_option("--log-format", common.log_format, "json: standard error holds one object a line (time, level, rank, category, code, message) and nothing else")
        ->capture_default_str()->type_name("text|json");
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
  const std::optional<int> rank = launchedRankIn(argc, argv);
  if (rank) report.setRank(*rank);
  if (const std::string clash = overwrites(argc, argv); !clash.empty()) {
    report.setCommand(app.get_subcommands().front()->get_name());
    const bool no_json = clash.find("--json") != std::string::npos;
    if (no_json || clash.find("--report") != std::string::npos) report.setOutputs(no_json ? std::string() : common.json, {});
    return report.fail(makeError("usage", clash, Outcome::kUsage));
  }
  log::Level level = log::Level::kWarning;
  if (!log::parseLevel(common.log_level, &level))
    return report.fail(makeError("usage", "--log-level " + common.log_level + " is none of debug, info, warning, error, off", Outcome::kUsage));
  log::Format format = log::Format::kText;
  if (!log::parseFormat(common.log_format, &format))
    return report.fail(makeError("usage", "--log-format " + common.log_format + " is neither text nor json", Outcome::kUsage));
  log::setLevel(level);
  log::setFormat(format);
  ::setenv(kRankLog, log::settingsText().c_str(), 1);
  ProgressLine progress(format == log::Format::kText);
  session::Request request;
  request.diagnostics = &report.diagnostics;
  request.progress = [&](const Progress& p) { progress.show(p); };
  report.setAsked(commandLine(argc, argv), flagValues(*app.get_subcommands().front()));
  const session::InterruptGuard interrupt(request.cancel);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!declared[i]->parsed()) continue;
    report.setCommand(commands[i]->name());
    report.startClock();
    std::unique_ptr<Abandon> abandon;
    if (commands[i]->mayBeAbandoned())
      abandon = std::make_unique<Abandon>(request.cancel, [&] {
        progress.end();
        Report last;  // the other one is in use
        last.setOutputs(common.json, {});
        if (rank) last.setRank(*rank);
        last.setCommand(commands[i]->name());
        last.setModel(report.model());
        last.startClock(report);
        std::_Exit(last.fail(makeError("cancelled", "cancelled on request", Outcome::kNo)));
      });
    try {
      const Result<int> code = commands[i]->run(report, request);
      if (abandon) abandon->arrived();
      progress.end();
      return code ? report.finish(*code) : report.fail(code.error());
    } catch (const std::exception& e) {  // no call of ours throws; memory that is not there, and faults of ours, do
      if (abandon) abandon->arrived();
      progress.end();
      return report.fail(makeError("internal", e.what(), Outcome::kRunFailed));
    }
  }
  return 2;
}

}  // namespace
}  // namespace spscope::app

int main(int argc, char** argv) {
  // A reader that has seen enough (| head) ends neither a training nor the writing of --json.
  spscope::session::ignoreBrokenPipes();
  // Not for people: how `run` starts this program as one of its ranks.
  if (argc == 2 && std::strcmp(argv[1], "rank") == 0) {
    if (const char* log = std::getenv(spscope::app::kRankLog)) spscope::log::useSettings(log);
    return spscope::session::rankMain();
  }
  // The commands that compute in this process.
  if (argc > 1 && (std::strcmp(argv[1], "verify") == 0 || std::strcmp(argv[1], "run") == 0 || std::strcmp(argv[1], "debug") == 0))
    spscope::session::restartWithSleepingThreads(argv);
  return spscope::app::run(argc, argv);
}
