// SPDX-License-Identifier: Apache-2.0
#include "app/commands/command.h"

namespace spscope::app {

std::vector<std::unique_ptr<Command>> allCommands() {
  std::vector<std::unique_ptr<Command>> out;
  out.push_back(makeInspect());
  out.push_back(makeCompile());
  out.push_back(makeVerify());
  out.push_back(makeRun());
  out.push_back(makeCheck());
  out.push_back(makePlan());
  out.push_back(makeCalibrate());
  out.push_back(makeTrace());
  out.push_back(makeDiff());
  out.push_back(makeDebug());
  out.push_back(makeHang());
  out.push_back(makeGui());
  out.push_back(makeDoctor());
  out.push_back(makeExplain());
  out.push_back(makeHelp());
  out.push_back(makeCompletion());
  return out;
}

}  // namespace spscope::app
