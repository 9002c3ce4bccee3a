// SPDX-License-Identifier: Apache-2.0
// What a command is: flags to declare, and a run that fills a report. A new command is a class here and a line in
// commands.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/report.h"
#include "core/session/model.h"

namespace spscope::app {

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;   ///< one line
  virtual std::string description() const = 0;  ///< a paragraph or several, a line each
  virtual std::string examples() const = 0;     ///< lines, indented by two
  virtual std::string meaningOfNo() const { return "an output could not be written"; }  ///< exit code 1
  virtual void declare(CLI::App& command) = 0;
  /// Whether the process may simply end in the middle of run(): nothing is left half written, no process is left behind.
  virtual bool mayBeAbandoned() const { return false; }
  /// Exit code 0 or 1; everything else is an error. The report holds what was found so far in either case.
  virtual Result<int> run(Report& report, const session::Request& request) = 0;
};

/// In the order in which help shows them.
std::vector<std::unique_ptr<Command>> allCommands();

std::unique_ptr<Command> makeInspect();
std::unique_ptr<Command> makeCompile();
std::unique_ptr<Command> makeVerify();
std::unique_ptr<Command> makeRun();
std::unique_ptr<Command> makeCheck();
std::unique_ptr<Command> makePlan();
std::unique_ptr<Command> makeCalibrate();
std::unique_ptr<Command> makeTrace();
std::unique_ptr<Command> makeDiff();
std::unique_ptr<Command> makeDebug();
std::unique_ptr<Command> makeHang();
std::unique_ptr<Command> makeGui();
std::unique_ptr<Command> makeDoctor();
std::unique_ptr<Command> makeExplain();
std::unique_ptr<Command> makeHelp();
std::unique_ptr<Command> makeCompletion();

}  // namespace spscope::app
