// SPDX-License-Identifier: Apache-2.0
#include "app/completion.h"

#include <algorithm>
#include <vector>

#include "app/help.h"
#include "app/shell_word.h"
#include "core/base/codes.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

enum class Kind { kFlag, kAny, kFile, kFolder, kWords };

/// An option or a positional as a shell sees it.
struct Item {
  std::vector<std::string> names;  ///< "--sp"; empty for a positional
  std::string placeholder, text;
  Kind kind = Kind::kAny;
  std::vector<std::string> words;
  bool many = false;  ///< takes all words that are left
};

struct CommandItems {
  std::string name, text;
  std::vector<Item> options, positionals;
};

std::vector<std::string> commandNames(const CLI::App& root) {
  std::vector<std::string> out;
  for (const CLI::App* c : root.get_subcommands([](const CLI::App*) { return true; })) out.push_back(c->get_name());
  return out;
}

/// "cpu|cuda" is a list of words; "OUT.html|OUT.md" is a file.
bool isListOfWords(const std::string& type) {
  return type.find('|') != std::string::npos &&
         std::all_of(type.begin(), type.end(), [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '|' || c == '-' || c == '=' || c == 'F'; });
}

Item itemOf(const CLI::Option& option, const CLI::App& root) {
  Item item;
  for (const std::string& n : option.get_lnames()) item.names.push_back("--" + n);
  for (const std::string& n : option.get_snames()) item.names.push_back("-" + n);
  item.text = option.get_description();
  item.many = option.get_items_expected_max() > 1;
  const std::string type = valueName(option);
  item.placeholder = item.names.empty() ? option.get_name(true) : type;
  if (type.empty()) item.kind = Kind::kFlag;
  else if (type == "DIR") item.kind = Kind::kFolder;
  else if (type == "FILE" || type == "PATH" || type == "TRACE" || type == "OUT" || type.find('.') != std::string::npos) item.kind = Kind::kFile;
  else if (type == "COMMAND") item.words = commandNames(root);
  else if (type == "CODE") for (const CodeInfo& c : allCodes()) item.words.emplace_back(c.code);
  else if (isListOfWords(type))
    for (const std::string& word : split(type, '|')) item.words.push_back(word.substr(0, word.find('=') == std::string::npos ? word.npos : word.find('=') + 1));
  if (!item.words.empty()) item.kind = Kind::kWords;
  return item;
}

std::vector<CommandItems> tree(const CLI::App& root) {
  std::vector<CommandItems> out;
  for (const CLI::App* c : root.get_subcommands([](const CLI::App*) { return true; })) {
    CommandItems items{c->get_name(), c->get_description(), {}, {}};
    for (const CLI::Option* o : c->get_options())
      (o->get_positional() && o->get_lnames().empty() ? items.positionals : items.options).push_back(itemOf(*o, root));
    out.push_back(std::move(items));
  }
  return out;
}

std::string header(const char* shell, const char* use) {
  return std::string("# Completion of spscope for ") + shell + ", written by: spscope completion " + shell + "\n# " + use + "\n";
}

std::string bashWords(const std::vector<std::string>& words) {
  return "mapfile -t COMPREPLY < <(compgen -W " + shellQuoted(join(words, " ")) + " -- \"$cur\")";
}

std::string bashAnswer(const Item& item) {
  switch (item.kind) {
    case Kind::kWords: return bashWords(item.words);
    case Kind::kFolder: return "mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); compopt -o filenames 2>/dev/null";
    case Kind::kFile: return "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); compopt -o filenames 2>/dev/null";
    default: return "COMPREPLY=()";
  }
}

std::string bash(const std::vector<CommandItems>& commands) {
  std::vector<std::string> first;
  for (const CommandItems& c : commands) first.push_back(c.name);
  first.insert(first.end(), {"--help", "--version"});
  std::string out = header("bash", "In ~/.bashrc: eval \"$(spscope completion bash)\"") +
                    "_spscope() {\n"
                    "  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
                    "  COMPREPLY=()\n"
                    "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                    "    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
                    "  done\n"
                    "  # --flag=value arrives as three words.\n"
                    "  [[ $cur == = ]] && cur=\n"
                    "  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n"
                    "  # Words so far that are neither options nor their values.\n"
                    "  local values= place=0\n"
                    "  case \"$command\" in\n";
  for (const CommandItems& c : commands) {
    std::vector<std::string> valued;
    for (const Item& o : c.options)
      if (o.kind != Kind::kFlag) valued.insert(valued.end(), o.names.begin(), o.names.end());
    out += "    " + c.name + ") values=" + shellQuoted(" " + join(valued, " ") + " ") + " ;;\n";
  }
  out += "  esac\n"
         "  for ((++i; i < COMP_CWORD; i++)); do\n"
         "    if [[ ${COMP_WORDS[i]} == -* ]]; then\n"
         "      if [[ ${COMP_WORDS[i+1]} == = ]]; then i=$((i + 2)); elif [[ $values == *\" ${COMP_WORDS[i]} \"* ]]; then i=$((i + 1)); fi\n"
         "    else place=$((place + 1)); fi\n"
         "  done\n"
         "  case \"$command $before\" in\n";
  for (const CommandItems& c : commands)
    for (const Item& o : c.options)
      if (o.kind != Kind::kFlag)
        for (const std::string& name : o.names) out += "    " + shellQuoted(c.name + " " + name) + ") " + bashAnswer(o) + "; return ;;\n";
  out += "  esac\n  case \"$command\" in\n    '') " + bashWords(first) + " ;;\n";
  for (const CommandItems& c : commands) {
    std::vector<std::string> names;
    for (const Item& o : c.options) names.insert(names.end(), o.names.begin(), o.names.end());
    out += "    " + c.name + ")\n      if [[ $cur == -* ]]; then " + bashWords(names) + "\n      else case $place in\n";
    for (std::size_t p = 0; p < c.positionals.size(); ++p) out += "        " + (c.positionals[p].many ? std::string("*") : std::to_string(p)) + ") " + bashAnswer(c.positionals[p]) + " ;;\n";
    out += "      esac; fi ;;\n";
  }
  return out + "  esac\n}\ncomplete -F _spscope spscope\n";
}

std::string zshText(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string zshAction(const Item& item) {
  switch (item.kind) {
    case Kind::kWords: return "(" + join(item.words, " ") + ")";
    case Kind::kFolder: return "_files -/";
    case Kind::kFile: return "_files";
    default: return " ";
  }
}

std::string zsh(const std::vector<CommandItems>& commands) {
  std::string out = "#compdef spscope\n" + header("zsh", "In ~/.zshrc, after compinit: eval \"$(spscope completion zsh)\"") +
                    "_spscope() {\n  local -a commands\n  local state\n  commands=(\n";
  for (const CommandItems& c : commands) out += "    " + shellQuoted(c.name + ":" + zshText(c.text)) + "\n";
  out += "  )\n  _arguments -C '--help[how it is used]' '--version[which version this is]' '1:command:->command' '*::argument:->argument'\n"
         "  case $state in\n    command) _describe command commands ;;\n    argument)\n      case $words[1] in\n";
  for (const CommandItems& c : commands) {
    out += "        " + c.name + ") _arguments";
    for (const Item& o : c.options)
      for (const std::string& name : o.names)
        out += " \\\n          " + shellQuoted(name + (o.kind == Kind::kFlag ? "" : name.starts_with("--") ? "=" : "") + "[" + zshText(o.text) + "]" +
                                           (o.kind == Kind::kFlag ? "" : ":" + zshText(o.placeholder) + ":" + zshAction(o)));
    for (std::size_t i = 0; i < c.positionals.size(); ++i)
      out += " \\\n          " + shellQuoted((c.positionals[i].many ? std::string("*") : std::to_string(i + 1)) + ":" + zshText(c.positionals[i].placeholder) + ":" + zshAction(c.positionals[i]));
    out += " ;;\n";
  }
  return out + "      esac ;;\n  esac\n}\n# Sourced, or autoloaded from $fpath.\nif [[ $funcstack[1] == _spscope ]]; then _spscope \"$@\"; else compdef _spscope spscope; fi\n";
}

std::string fishQuoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fishValue(const Item& item) {
  switch (item.kind) {
    case Kind::kFlag: return "";
    case Kind::kWords: return " -x -a " + fishQuoted(join(item.words, " "));
    case Kind::kFolder: return " -x -a '(__fish_complete_directories)'";
    case Kind::kFile: return " -r -F";
    default: return " -x";
  }
}

std::string fish(const std::vector<CommandItems>& commands) {
  std::string out = header("fish", "spscope completion fish > ~/.config/fish/completions/spscope.fish") +
                    "function __spscope_command\n"
                    "  # True where the first word after spscope is the one asked for (none asked for: where there is no such word).\n"
                    "  set -l words (commandline -opc)\n"
                    "  if test (count $argv) -eq 0\n    test (count $words) -lt 2\n  else\n    test (count $words) -ge 2; and test $words[2] = $argv[1]\n  end\n"
                    "end\n"
                    "function __spscope_place\n"
                    "  # True where so many words stand between the command and the cursor that are no options (many: or more of them).\n"
                    "  set -l words (commandline -opc)\n"
                    "  test (count $words) -ge 2; and test $words[2] = $argv[1]; or return 1\n"
                    "  set -l place (count (string match -v -- '-*' $words[3..-1]))\n"
                    "  test $place -eq $argv[2]; or test (count $argv) -eq 3 -a $place -gt $argv[2]\n"
                    "end\ncomplete -c spscope -f\ncomplete -c spscope -n __spscope_command -l help\ncomplete -c spscope -n __spscope_command -l version\n";
  for (const CommandItems& c : commands) {
    out += "complete -c spscope -n __spscope_command -a " + c.name + " -d " + fishQuoted(c.text) + "\n";
    const std::string here = "complete -c spscope -n " + fishQuoted("__spscope_command " + c.name);
    for (const Item& o : c.options)
      for (const std::string& name : o.names)
        out += here + (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1)) + fishValue(o) + " -d " + fishQuoted(o.text) + "\n";
    for (std::size_t i = 0; i < c.positionals.size(); ++i) {
      const Item& p = c.positionals[i];
      if (p.kind == Kind::kAny) continue;
      const std::string at = "complete -c spscope -n " + fishQuoted("__spscope_place " + c.name + " " + std::to_string(i) + (p.many ? " many" : ""));
      out += at + (p.kind == Kind::kWords ? " -a " + fishQuoted(join(p.words, " ")) : p.kind == Kind::kFolder ? " -a '(__fish_complete_directories)'" : " -F") + "\n";
    }
  }
  return out;
}

}  // namespace

std::string completionScript(const CLI::App& root, const std::string& shell) {
  const std::vector<CommandItems> commands = tree(root);
  return shell == "bash" ? bash(commands) : shell == "zsh" ? zsh(commands) : shell == "fish" ? fish(commands) : std::string();
}

}  // namespace spscope::app
