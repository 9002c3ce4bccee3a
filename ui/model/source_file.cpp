// SPDX-License-Identifier: Apache-2.0
#include "ui/model/source_file.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

namespace fs = std::filesystem;

bool isOneOf(const std::string& name, std::initializer_list<const char*> names) {
  for (const char* n : names)
    if (name == n) return true;
  return false;
}

bool isInPath(const std::string& program, const std::string& path) {
  for (const std::string& folder : split(path, ':')) {
    std::error_code failed;
    if (!folder.empty() && fs::exists(fs::path(folder) / program, failed)) return true;
  }
  return false;
}

}  // namespace

std::string environmentText(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::optional<SourceLine> sourceLineOf(const ir::Location& location) {
  const std::size_t colon = location.source.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  SourceLine out{location.source.substr(0, colon), 0};
  const std::string number = location.source.substr(colon + 1);
  if (std::from_chars(number.data(), number.data() + number.size(), out.line).ec != std::errc()) return std::nullopt;
  // '  File "/path/model.py", line 67, in forward'
  const std::string line = ", line " + number;
  for (const std::string& frame : split(location.stack, '\n')) {
    const std::size_t open = frame.find("File \""), close = frame.find('"', open == std::string::npos ? 0 : open + 6);
    if (open == std::string::npos || close == std::string::npos || frame.compare(close + 1, line.size(), line) != 0) continue;
    const std::size_t end = close + 1 + line.size();
    if (end < frame.size() && frame[end] >= '0' && frame[end] <= '9') continue;
    const std::string path = frame.substr(open + 6, close - open - 6);
    if (fs::path(path).filename() == fs::path(out.path).filename()) out.path = path;
  }
  return out;
}

Result<std::vector<std::string>> editorCommand(const SourceLine& source, const std::function<std::string(const char*)>& environment) {
  std::error_code failed;
  if (!fs::is_regular_file(source.path, failed)) {
    Error e = makeError("file-missing", source.path + " is not on this machine");
    e.remedy = "The model was exported where that file is: copy the line and look there.";
    return e;
  }
  std::string editor = environment("VISUAL");
  if (editor.empty()) editor = environment("EDITOR");
  std::vector<std::string> command;
  for (std::string& word : split(editor, ' '))
    if (!word.empty()) command.push_back(std::move(word));
  if (command.empty()) {
    if (!isInPath("xdg-open", environment("PATH"))) {
      Error e = makeError("usage", "no editor is configured", Outcome::kUsage);
      e.remedy = "Set VISUAL to a command that opens a file in a window, such as \"code\" or \"gvim\".";
      return e;
    }
    return std::vector<std::string>{"xdg-open", source.path};
  }
  const std::string name = fs::path(command.front()).filename().string();
  const std::string number = std::to_string(source.line);
  if (source.line > 0 && isOneOf(name, {"code", "codium", "code-insiders", "cursor"})) {
    command.push_back("--goto");
    command.push_back(source.path + ":" + number);
  } else if (source.line > 0 && isOneOf(name, {"subl", "zed", "hx"})) {
    command.push_back(source.path + ":" + number);
  } else if (source.line > 0 && isOneOf(name, {"kate", "pycharm", "charm", "idea"})) {
    command.push_back("--line");
    command.push_back(number);
    command.push_back(source.path);
  } else {
    if (source.line > 0 && isOneOf(name, {"vi", "vim", "nvim", "gvim", "emacs", "emacsclient", "nano", "gedit", "micro"})) command.push_back("+" + number);
    command.push_back(source.path);
  }
  return command;
}

}  // namespace spscope::ui
