// SPDX-License-Identifier: Apache-2.0
// Lines from a person: with editing, history and completion at a terminal, as they come from a file or a pipe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spscope::app {

/// Reads from a terminal where standard input and output are one; nullopt at its end. One of them at a time.
class LineEditor {
 public:
  /// `complete`: what the line, as far as the cursor, may end in.
  LineEditor(std::string prompt, std::function<std::vector<std::string>(const std::string&)> complete);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  static bool atTerminal();
  std::optional<std::string> read();

 private:
  std::string prompt_;
};

}  // namespace spscope::app
