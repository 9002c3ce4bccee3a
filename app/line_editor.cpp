// SPDX-License-Identifier: Apache-2.0
#include "app/line_editor.h"

#include <editline/readline.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace spscope::app {
namespace {

// libedit asks back through plain functions.
std::function<std::vector<std::string>(const std::string&)> complete_with;
std::vector<std::string> offered;

char* nextOffered(const char* /*word*/, int state) {
  static std::size_t at = 0;
  if (state == 0) at = 0;
  return at < offered.size() ? ::strdup(offered[at++].c_str()) : nullptr;
}

char** completeWord(const char* word, int /*begin*/, int end) {
  offered = complete_with ? complete_with(std::string(rl_line_buffer, static_cast<std::size_t>(end))) : std::vector<std::string>();
  rl_attempted_completion_over = 1;  // no names of files
  return rl_completion_matches(word, nextOffered);
}

}  // namespace

LineEditor::LineEditor(std::string prompt, std::function<std::vector<std::string>(const std::string&)> complete) : prompt_(std::move(prompt)) {
  complete_with = std::move(complete);
  rl_readline_name = const_cast<char*>("spscope");
  rl_attempted_completion_function = completeWord;
  static char breaks[] = " \t";
  rl_completer_word_break_characters = breaks;
  rl_initialize();
  using_history();
}

LineEditor::~LineEditor() { complete_with = nullptr; }

bool LineEditor::atTerminal() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

std::optional<std::string> LineEditor::read() {
  char* line = ::readline(prompt_.c_str());
  if (line == nullptr) return std::nullopt;
  std::string out = line;
  std::free(line);
  if (out.find_first_not_of(" \t") != std::string::npos) add_history(out.c_str());
  return out;
}

}  // namespace spscope::app
