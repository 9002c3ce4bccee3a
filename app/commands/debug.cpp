// SPDX-License-Identifier: Apache-2.0
// spscope debug: all ranks of a sharded step, a node at a time. Commands come from a terminal, a file or a pipe.
#include "app/commands/debug_answer.h"

#include <optional>

#include <unistd.h>

#include "app/commands/command.h"
#include "app/dap/session.h"
#include "app/debug_flags.h"
#include "app/line_editor.h"
#include "app/script_lines.h"
#include "core/base/strings.h"
#include "core/session/interrupt.h"

namespace spscope::app {
namespace {

namespace dbg = session::debug;

class Debug : public Command {
 public:
  std::string name() const override { return "debug"; }
  std::string summary() const override { return "stop, step, look at values, compare and ask why, on all ranks at once"; }
  std::string description() const override {
    return "Runs one step with all ranks in this process (--ranks gloo: a process each), a node at a time, and the unsharded step beside it. Breakpoints stand at nodes, ops, modules, source lines, phases "
           "and collectives, or where a value is NaN, too large, or not the unsharded one. Values are shown for each rank, put together by their placement, and compared; "
           "\"back\" goes back in time, to the same bits.\n"
           "Commands come from a terminal (with history and completion), from a file or a pipe, one a line, # begins a comment; \"help\" lists them. A script ends with exit "
           "code 1 at the first command that fails. --json writes one object a line for each command, and one more at the end.";
  }
  std::string examples() const override {
    return "  spscope debug resources/samples/llama_gqa.pt2 --sp 4\n"
           "  echo 'break if nan\n  continue\n  where' | spscope debug model.pt2 --json answers.jsonl\n"
           "  spscope debug model.pt2 --dtype float64 --commands find_fault.txt";
  }
  std::string meaningOfNo() const override { return "a command of a script failed; cancelled; or an output could not be written"; }
  void declare(CLI::App& command) override {
    flags_.declare(command);
    command.get_option("MODEL")->required(false);  // with --dap the client may name it
    command.option_defaults()->group("Debugger");
    command.add_option("--commands", commands_, "commands, one a line (default and -: standard input)")->type_name("FILE");
    command.add_flag("--dap", dap_, "speak the Debug Adapter Protocol with an editor on standard input and output (docs/editors.md); flags are defaults of its launch request");
  }

  bool mayBeAbandoned() const override { return dap_ || interactive(); }  // ranks that are processes end with this one
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(flags_.model.path);
    if (dap_) return serve(report, request);
    if (flags_.model.path.empty()) return makeError("usage", "debug needs a MODEL", Outcome::kUsage);
    std::optional<ScriptLines> script;
    if (!interactive()) {
      SP_ASSIGN(ScriptLines lines, ScriptLines::open(commands_));
      script.emplace(std::move(lines));
    }
    SP_ASSIGN(const auto debugger, flags_.open(request, &report.json));
    report.tellAtOnce();
    report.json["ranks"] = debugger->ranks();
    return script ? obey(report, *debugger, request, *script) : converse(report, *debugger, request);
  }

 private:
  bool interactive() const { return commands_.empty() && LineEditor::atTerminal(); }

  /// With a person: what fails is said, and it goes on.
  static Result<int> converse(Report& report, dbg::Debugger& debugger, const session::Request& request) {
    LineEditor editor("(spscope) ", [&](const std::string& line) { return dbg::completions(debugger, line); });
    dbg::Answer answer = dbg::execute(debugger, "where");
    request.report({});
    SP_TRY(report.tell(debugPage(answer), debugJson(answer)));
    while (!answer.quit) {
      const std::optional<std::string> line = editor.read();
      if (!line) break;
      {
        const session::PauseGuard stops(debugger.pauseFlag());  // Ctrl-C stops the ranks, not the debugger
        answer = dbg::execute(debugger, *line);
      }
      request.report({});  // the line of progress must not come over the prompt
      if (answer.command.empty() && !answer.error) continue;
      SP_TRY(report.tell(debugPage(answer), debugJson(answer)));
      SP_TRY(request.cancel.check());
    }
    return 0;
  }

  static Result<int> obey(Report& report, dbg::Debugger& debugger, const session::Request& request, ScriptLines& script) {
    for (int number = 1;; ++number) {
      SP_ASSIGN(const std::optional<std::string> next, script.next(request.cancel));
      if (!next) return 0;
      const std::string& line = *next;
      const dbg::Answer answer = dbg::execute(debugger, line);
      if (answer.command.empty() && !answer.error) continue;
      Page page;
      page.line("> " + line);
      if (!answer.error) page.append(debugPage(answer));
      SP_TRY(report.tell(page, debugJson(answer)));
      SP_TRY(request.cancel.check());
      if (const std::optional<Error> failed = whatFailed(answer)) {
        Error error = *failed;
        error.message = strf("line %d, %s: ", number, line.c_str()) + error.message;
        error.outcome = Outcome::kNo;
        return error;
      }
      if (answer.quit) return 0;
    }
  }

  /// A node or a file that failed on the way is an answer to a person, who stands before it; a script fails by it.
  static std::optional<Error> whatFailed(const dbg::Answer& answer) {
    if (answer.error || !answer.stop || answer.stop->reason != dbg::StopReason::kFailed) return answer.error;
    return makeError("debug-step-failed", answer.stop->message, Outcome::kNo);
  }

  /// With an editor: standard output is the protocol's alone, and what else is printed goes to standard error.
  Result<int> serve(Report& report, const session::Request& request) const {
    if (!commands_.empty()) return makeError("usage", "--dap and --commands: one of them", Outcome::kUsage);
    if (report.jsonToStdout()) return makeError("usage", "--dap has standard output for itself: name a file for --json", Outcome::kUsage);
    std::fflush(stdout);
    const int out = ::dup(STDOUT_FILENO);
    if (out < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return makeError("internal", "standard output cannot be set aside", Outcome::kRunFailed);
    report.tellAtOnce();
    std::int64_t requests = 0;
    const Status ended = [&] {
      dap::Session session(STDIN_FILENO, out, flags_, request);
      Status status = session.run();
      requests = session.requests();
      return status;
    }();
    ::close(out);
    report.json["requests"] = requests;
    if (!ended) return ended.error();
    return 0;
  }

  DebugFlags flags_;
  std::string commands_;
  bool dap_ = false;
};

}  // namespace

std::unique_ptr<Command> makeDebug() { return std::make_unique<Debug>(); }

}  // namespace spscope::app
