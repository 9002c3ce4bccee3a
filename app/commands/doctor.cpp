// SPDX-License-Identifier: Apache-2.0
// spscope doctor: what this machine can do, and what to install for the rest. Always exits with 0: the list is the answer.
#include <algorithm>

#include "app/commands/command.h"
#include "core/base/strings.h"
#include "core/session/machine.h"

namespace spscope::app {
namespace {

class Doctor : public Command {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override { return "what this machine can do: torch, ranks, GPUs, profiling, the window"; }
  std::string description() const override {
    return "Looks for everything that some command needs, and says what to do about what is missing. Two small ranks are started to see that they can talk. "
           "What is only needed for GPUs or the window is no fault of a machine without them.";
  }
  std::string examples() const override {
    return "  spscope doctor\n"
           "  spscope doctor --json -";
  }
  std::string meaningOfNo() const override { return "an output could not be written"; }
  void declare(CLI::App&) override {}

  Result<int> run(Report& report, const session::Request& request) override {
    const auto checks = session::examineMachine({}, request);
    SP_TRY(request.cancel.check());
    report.stopClock();
    report.json["checks"] = Json::array();
    std::vector<std::vector<std::string>> rows{{"check", "", "needed for", "found"}};
    for (const session::MachineCheck& c : checks) {
      report.json["checks"].push_back({{"name", c.name}, {"ok", c.ok}, {"detail", c.detail}, {"remedy", c.remedy}, {"needed_for", c.needed_for}});
      rows.push_back({c.name, c.ok ? "ok" : "no", c.needed_for, c.detail});
      if (!c.ok) rows.push_back({"", "", "", "-> " + c.remedy});
    }
    report.page.table(std::move(rows));
    const auto missing = std::count_if(checks.begin(), checks.end(), [](const auto& c) { return !c.ok; });
    report.page.line(missing == 0 ? "Everything was found." : strf("%zu of %zu checks are fine.", checks.size() - static_cast<std::size_t>(missing), checks.size()));
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> makeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace spscope::app
