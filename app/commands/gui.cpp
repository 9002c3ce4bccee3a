// SPDX-License-Identifier: Apache-2.0
// spscope gui: starts the window, a program of its own beside this one, in place of this process.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "app/commands/command.h"
#include "core/session/interrupt.h"

namespace spscope::app {
namespace {

class Gui : public Command {
 public:
  std::string name() const override { return "gui"; }
  std::string summary() const override { return "the window: the graph at every stage, comparisons, runs, memory and timeline"; }
  std::string description() const override {
    return "Opens models, stages and traces in a window. With --actions it does what a script says and ends; with --screenshot it leaves a picture of the window. "
           "Both work without a display.\n"
           "Actions, one a line, each ends when its work is done: open FILE, beside TRACE, set NAME VALUE, compile, stage NAME, diff A B, undiff, select NODE, expand MODULE, collapse MODULE, "
           "colour BY, fit, search WORDS, verify, values (of the selected node), run, start-run, stop LANE, wait, event N, back, forward, debug (starts the debugger), debug LINE (a command of spscope debug; step, continue, break ... also without the word), pause, end-debug, theme dark|light, size W H, panel NAME, curve KEY (of the memory panel), plan DEVICE N, take ROW (of the plan), screenshot FILE, export FILE, close.";
  }
  std::string examples() const override {
    return "  spscope gui llama.pt2\n"
           "  spscope gui --actions tour.txt --screenshot window.png";
  }
  std::string meaningOfNo() const override { return "an action failed; its line is named"; }
  void declare(CLI::App& command) override {
    command.option_defaults()->group("Window");
    command.add_option("FILE", files_, "a model, a stage, or traces")->type_name("FILE");
    command.add_option("--actions", actions_, "a script of actions to do in order; then the window closes")->type_name("FILE");
    command.add_option("--screenshot", screenshot_, "where a picture of the window goes at the end")->type_name("OUT.png");
    command.add_flag("--fresh", fresh_, "do not open what was open the last time");
  }

  Result<int> run(Report&, const session::Request&) override {
    std::error_code failed;
    const std::string program = (std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / "spscope-gui").string();
    std::vector<std::string> words{program};
    if (!actions_.empty()) words.insert(words.end(), {"--actions", actions_});
    if (!screenshot_.empty()) words.insert(words.end(), {"--screenshot", screenshot_});
    if (fresh_) words.push_back("--fresh");
    if (!files_.empty()) words.push_back("--");
    words.insert(words.end(), files_.begin(), files_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    session::takeInterrupts();
    ::execv(program.c_str(), argv.data());
    Error error = makeError("gui-missing", "the window was not built here (" + program + ": " + std::strerror(errno) + ")");
    error.remedy = "Install qt6-base-dev (Debian, Ubuntu) and build again: ./run gui does both.";
    return error;
  }

 private:
  std::vector<std::string> files_;
  std::string actions_, screenshot_;
  bool fresh_ = false;
};

}  // namespace

std::unique_ptr<Command> makeGui() { return std::make_unique<Gui>(); }

}  // namespace spscope::app
