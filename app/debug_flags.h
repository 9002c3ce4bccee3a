// SPDX-License-Identifier: Apache-2.0
// What `spscope debug` needs to know to begin a step: as flags of the command line, and as arguments of a client's launch request.
#pragma once

#include <memory>

#include "app/options.h"
#include "app/report.h"
#include "core/session/debug/debugger.h"

namespace spscope::app {

struct DebugFlags {
  ModelFlags model;
  CompileFlags compile;
  DataFlags data;
  FaultFlags faults;
  double budget_mib = 1024;
  session::debug::RanksWanted ranks;  ///< its `open` is filled in by open()

  void declare(CLI::App& command);
  /// Opens the model, compiles both sides, loads weights and inputs. `json` (may be null) gets the faults that were planted. Errors: those of
  /// session::open, resolveFaults and Debugger::open; usage.
  Result<std::unique_ptr<session::debug::Debugger>> open(const session::Request& request, Json* json = nullptr) const;
};

}  // namespace spscope::app
