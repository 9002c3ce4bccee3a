// SPDX-License-Identifier: Apache-2.0
// The table of all commands; what each does is in the file of its theme.
#include "core/session/debug/command.h"

#include "core/base/strings.h"
#include "core/session/debug/command_work.h"

namespace spscope::session::debug {
namespace {

std::vector<std::string> wordsOf(const std::string& line) {
  std::vector<std::string> out;
  for (const std::string& word : split(line.substr(0, line.find('#')), ' '))
    if (!word.empty() && word != "\t") out.push_back(word);
  return out;
}

Status help(Work& w) {
  const std::string of = w.take();
  SP_TRY(w.nothingLeft());
  for (const CommandInfo& c : commandTable())
    if (of.empty() || of == c.name || of == c.alias) w.out.help.push_back(c);
  if (w.out.help.empty()) return w.usage("there is no command " + of);
  return {};
}

Status quit(Work& w) {
  SP_TRY(w.nothingLeft());
  w.out.quit = true;
  return {};
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> out;
    for (const auto theme : {moveCommands, nodeCommands, valueCommands, troubleCommands, whyCommands})
      for (Command& c : theme()) out.push_back(std::move(c));
    out.push_back({{"help", "h", "[COMMAND]", "the commands"}, help});
    out.push_back({{"quit", "q", "", "end"}, quit});
    return out;
  }();
  return all;
}

/// Here `--help` leads nowhere. `command`: "" where there is none of that name.
void pointAtHelp(Error& error, const std::string& command) {
  if (error.code == "usage" && error.remedy.empty()) error.remedy = command.empty() ? "help lists the commands." : "See help " + command + ".";
}

}  // namespace

const std::vector<CommandInfo>& commandTable() {
  static const std::vector<CommandInfo> table = [] {
    std::vector<CommandInfo> out;
    for (const Command& c : commands()) out.push_back(c.info);
    return out;
  }();
  return table;
}

Answer execute(Debugger& debugger, const std::string& line) {
  Answer out;
  out.line = line;
  std::vector<std::string> words = wordsOf(line);
  if (words.empty()) return out;
  const std::string name = words.front();
  words.erase(words.begin());
  std::vector<std::string> known;
  for (const Command& c : commands()) {
    known.push_back(c.info.name);
    if (name != c.info.name && (c.info.alias.empty() || name != c.info.alias)) continue;
    out.command = c.info.name;
    Work work{debugger, c.info, std::move(words), out};
    if (Status status = c.run(work); !status) {
      Answer failed;
      failed.line = line;
      failed.command = c.info.name;
      failed.error = std::move(status).error();
      pointAtHelp(*failed.error, c.info.name);
      return failed;
    }
    return out;
  }
  out.error = makeError("usage", "there is no command " + name, Outcome::kUsage);
  const std::string near = nearest(name, known);
  out.error->legal = near.empty() ? join(known, ", ") : near;
  pointAtHelp(*out.error, "");
  return out;
}

std::vector<std::string> completions(const Debugger& debugger, const std::string& line) {
  const std::size_t blank = line.find_last_of(" \t");
  const std::string word = line.substr(blank == std::string::npos ? 0 : blank + 1);
  std::vector<std::string> out;
  const auto offer = [&](const std::string& candidate) {
    if (candidate.starts_with(word)) out.push_back(candidate);
  };
  if (blank == std::string::npos) {
    for (const CommandInfo& c : commandTable()) offer(c.name);
    return out;
  }
  if (word.starts_with('%')) {
    for (const std::string& name : debugger.names()) offer("%" + name);
    return out;
  }
  for (const char* keyword : {"op", "module", "source", "phase", "collective", "stage", "any", "if", "do", "rank"}) offer(keyword);
  if (!word.empty())
    for (const std::string& name : debugger.names()) offer(name);
  return out;
}

}  // namespace spscope::session::debug
