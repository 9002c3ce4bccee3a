// SPDX-License-Identifier: Apache-2.0
// spscope help and spscope completion: what the program says of itself, from its own tree of commands.
#include "app/help.h"

#include "app/commands/command.h"
#include "app/completion.h"
#include "core/base/strings.h"

namespace spscope::app {
namespace {

Json describe(const CLI::App& command) {
  Json out = {{"name", command.get_name()}, {"summary", command.get_description()}, {"options", Json::array()}};
  for (const CLI::Option* o : command.get_options()) {
    out["options"].push_back({{"name", o->get_name(o->get_lnames().empty())}, {"group", o->get_group()}, {"value", valueName(*o).empty() ? Json() : Json(valueName(*o))},
                              {"default", o->get_default_str()}, {"required", o->get_required()}, {"text", o->get_description()}});
  }
  return out;
}

class Help : public Command {
 public:
  std::string name() const override { return "help"; }
  std::string summary() const override { return "the manual page of a command"; }
  std::string description() const override {
    return "Prints what COMMAND --help prints; without COMMAND, the page of the whole program. With --json also every option as an object.";
  }
  std::string examples() const override { return "  spscope help compile\n  spscope help run --json -"; }
  void declare(CLI::App& command) override {
    root_ = command.get_parent();
    command.add_option("COMMAND", command_, "one of the program's commands")->type_name("COMMAND");
  }
  Result<int> run(Report& report, const session::Request&) override {
    const auto all = root_->get_subcommands([](const CLI::App*) { return true; });
    const CLI::App* what = root_;
    std::vector<std::string> names;
    for (const CLI::App* c : all) {
      names.push_back(c->get_name());
      if (c->get_name() == command_) what = c;
    }
    if (!command_.empty() && what == root_) {
      const std::string near = nearest(command_, names);
      Error error = makeError("usage", "there is no command " + command_ + (near.empty() ? "" : "; did you mean " + near + "?"), Outcome::kUsage);
      error.legal = join(names, ", ");
      return error;
    }
    std::string text = manualPage(*what);
    text.pop_back();  // the line ends itself
    report.page.line(text);
    report.json["commands"] = Json::array();
    if (what != root_) report.json["commands"].push_back(describe(*what));
    else for (const CLI::App* c : all) report.json["commands"].push_back(describe(*c));
    return 0;
  }

 private:
  const CLI::App* root_ = nullptr;
  std::string command_;
};

class Completion : public Command {
 public:
  std::string name() const override { return "completion"; }
  std::string summary() const override { return "a script that completes commands and options in your shell"; }
  std::string description() const override {
    return "Prints a script for the shell named. It knows every command, every option and the words that an option takes; it is made from the program "
           "itself, so make it again after an update.";
  }
  std::string examples() const override {
    return "  eval \"$(spscope completion bash)\"                                      in ~/.bashrc\n"
           "  eval \"$(spscope completion zsh)\"                                       in ~/.zshrc, after compinit\n"
           "  spscope completion fish > ~/.config/fish/completions/spscope.fish";
  }
  void declare(CLI::App& command) override {
    root_ = command.get_parent();
    command.add_option("SHELL", shell_, "bash, zsh or fish")->required()->type_name("bash|zsh|fish");
  }
  Result<int> run(Report& report, const session::Request&) override {
    std::string script = completionScript(*root_, shell_);
    if (script.empty()) {
      Error error = makeError("usage", "there is no completion for " + shell_, Outcome::kUsage);
      error.legal = "bash, zsh, fish";
      return error;
    }
    report.json["shell"] = shell_;
    report.json["script"] = script;
    script.pop_back();
    report.page.line(script);
    return 0;
  }

 private:
  const CLI::App* root_ = nullptr;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> makeHelp() { return std::make_unique<Help>(); }
std::unique_ptr<Command> makeCompletion() { return std::make_unique<Completion>(); }

}  // namespace spscope::app
