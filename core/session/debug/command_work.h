// SPDX-License-Identifier: Apache-2.0
// One command of the debugger at work: its words, and the answer that it fills. Commands of one theme are a file and a table each;
// command.cpp puts the tables together. For the files of this folder only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/session/debug/command.h"

namespace spscope::session::debug {

struct Work {
  Debugger& debugger;
  const CommandInfo& info;
  std::vector<std::string> words;  ///< behind the command's name, those that are not taken yet
  Answer& out;

  /// Error usage: the command is not to be used like this; the error says how it is.
  Error usage(std::string message) const;
  /// The next word; "" where there is none.
  std::string take();
  /// "rank R" wherever it stands; -1 where it does not.
  Result<int> takeRank();
  /// A number from 1 on.
  Result<std::int64_t> takeCount(std::int64_t fallback);
  Result<std::string> takeValue();
  /// "[0, 2:5, :]", also without brackets and blanks: what is left of the line.
  Result<std::vector<exec::Range>> takeRanges();
  /// One rank's part of a value.
  Result<exec::TensorBag> valueOf(const std::string& value, int rank, bool& again);
  Status nothingLeft() const;
};

struct Command {
  CommandInfo info;
  Status (*run)(Work& work);
};

// By theme, each in the order in which help shows them.
std::vector<Command> moveCommands();
std::vector<Command> nodeCommands();   ///< list, find, breakpoints
std::vector<Command> valueCommands();
std::vector<Command> troubleCommands();  ///< numbers of the whole step
std::vector<Command> whyCommands();

}  // namespace spscope::session::debug
