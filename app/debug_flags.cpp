// SPDX-License-Identifier: Apache-2.0
#include "app/debug_flags.h"

#include "app/commands/debug_answer.h"
#include "core/session/plant.h"
#include "core/session/stage.h"

namespace spscope::app {

void DebugFlags::declare(CLI::App& command) {
  model.declare(command);
  compile.declare(command);
  data.declare(command);
  faults.declare(command);
  command.option_defaults()->group("Debugger");
  command.add_option("--ranks", ranks.kind, "virtual: all in this process; gloo and nccl: a process each")->capture_default_str()->type_name("virtual|gloo|nccl");
  command.add_option("--timeout", ranks.timeout_seconds, "processes: deadline of every collective, in seconds; none runs while they stand")
      ->check(numberFrom(0.1, 1e6))->capture_default_str()->type_name("SECONDS");
  command.add_option("--history", budget_mib, "memory for snapshots and for values of the unsharded step, each, in MiB")->check(numberFrom(1.0, 1e7))->capture_default_str()->type_name("MIB");
}

Result<std::unique_ptr<session::debug::Debugger>> DebugFlags::open(const session::Request& request, Json* json) const {
  SP_ASSIGN(session::OpenRequest what, model.request());
  SP_ASSIGN(what, session::resolveStage(what));
  SP_ASSIGN(const auto opened, session::open(what, request));
  SP_ASSIGN(passes::Settings settings, compile.settings(model));
  if (!faults.plant.empty() && ranks.kind != "virtual") return makeError("usage", "--plant is for ranks in this process: --ranks virtual", Outcome::kUsage);
  SP_ASSIGN(settings.faults, session::resolveFaults(*opened, settings, faults.plant, request));
  if (json != nullptr && !faults.plant.empty()) (*json)["planted"] = plantedJson(settings.faults);
  SP_ASSIGN(const session::DataRequest batch, data.request());
  session::debug::RanksWanted wanted = ranks;
  wanted.open = what;
  return session::debug::Debugger::open(*opened, settings, batch, request, static_cast<std::int64_t>(budget_mib * 1024 * 1024), wanted);
}

}  // namespace spscope::app
