// SPDX-License-Identifier: Apache-2.0
// A line of the user's program: which file a node's location means, and the command that opens it in the user's editor.
// Only a command that the user has configured is ever run, as a list of arguments, never through a shell.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ui {

struct SourceLine {
  std::string path;  ///< as the stack trace has it; the bare file name where there is none
  int line = 0;      ///< 0: not known
};
/// The innermost frame of the location's stack that is its `source`. nullopt: the location names none.
std::optional<SourceLine> sourceLineOf(const ir::Location& location);

/// $VISUAL, else $EDITOR, else xdg-open, with the line where the editor is known to take one.
/// Errors: file-missing (the program was exported elsewhere: the file is not here); usage (no editor is configured).
Result<std::vector<std::string>> editorCommand(const SourceLine& source, const std::function<std::string(const char*)>& environment);
/// Of this process.
std::string environmentText(const char* name);

}  // namespace spscope::ui
