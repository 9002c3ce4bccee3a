// SPDX-License-Identifier: Apache-2.0
// The debugger's commands: a line of text in, one answer out. The same for a person, a script, and --json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/session/debug/debugger.h"
#include "core/session/debug/error_curve.h"
#include "core/session/debug/spikes.h"
#include "core/session/debug/trouble.h"
#include "core/session/debug/whatif.h"

namespace spscope::session::debug {

struct CommandInfo {
  std::string name, alias;  ///< alias may be empty
  std::string takes;        ///< "[N] [rank R]"
  std::string summary;
};
/// In the order in which help shows them.
const std::vector<CommandInfo>& commandTable();

struct Answer {
  std::string line, command;   ///< as it was typed; its full name, empty where there is none
  std::optional<Error> error;  ///< the rest is empty then
  std::optional<Stop> stop;
  std::optional<ValueLook> value;
  struct Window {
    std::string value;
    int rank = -1;  ///< -1: put together
    bool again = false;
    exec::ValueWindow cells;
  };
  std::optional<Window> window, heat;
  std::optional<Comparison> comparison;
  std::optional<WhatIf> what_if;
  std::vector<WhyRow> why;
  std::string about;           ///< what `why` and `nodes` are about
  std::vector<NodeName> nodes;
  std::optional<std::int64_t> marked;  ///< place among `nodes` of the one that runs next
  bool listed = false;         ///< `nodes` is the answer, even where it is empty
  std::optional<std::vector<Breakpoint>> breakpoints;
  std::optional<ValueComparison> wrong;
  std::optional<TroubleReport> trouble;
  std::optional<ErrorCurve> curve;
  std::optional<Bisection> bisection;
  std::optional<SpikeReport> spikes;
  std::vector<CommandInfo> help;
  std::string said;            ///< a sentence
  bool quit = false;
};

/// Empty lines and what stands behind "#" do nothing. Never fails otherwise than by Answer::error.
Answer execute(Debugger& debugger, const std::string& line);

/// What a word may become that is typed at the end of `line`: commands first, then names of nodes and values.
std::vector<std::string> completions(const Debugger& debugger, const std::string& line);

}  // namespace spscope::session::debug
