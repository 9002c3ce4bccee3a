// SPDX-License-Identifier: Apache-2.0
// The debugger in the window: one step of the compiled program, on virtual ranks, on a lane of its own. Commands are those of
// `spscope debug`, one after the other; the window's thread only sends them and reads what came back. Whatever changes is told as
// Topic::kDebug.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/debug/breakpoint_list.h"
#include "ui/model/debug/debug_marks.h"
#include "ui/model/debug/node_look.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

struct ConsoleEntry {
  std::string line;  ///< as it was typed, or as a button sent it
  std::string text;  ///< the answer; empty while it is under way
  bool failed = false, done = false;
  std::int64_t number = 0;
};

class DebugSession {
 public:
  /// Made by the workspace, which outlives it. `tell`: what changed.
  DebugSession(Workspace& workspace, std::function<void(Topic)> tell);
  ~DebugSession();
  DebugSession(const DebugSession&) = delete;
  DebugSession& operator=(const DebugSession&) = delete;

  /// How an answer reads; without it only messages are shown. Set once, before anything is debugged.
  std::function<std::string(const session::debug::Answer&)> text;
  static constexpr const char* kLane = "debug";

  // --- control ------------------------------------------------------------------------------------------------------
  /// With the current settings; compiles first where that was not done. What is debugged already ends.
  void start();
  void end();
  /// Stops what is under way: ranks stand before their next node, a search for the first wrong node ends. While it starts, the start.
  void pause();
  /// A command of `spscope debug`; it waits for those before it. Where nothing is debugged it says so.
  void send(const std::string& line);

  enum class State : std::uint8_t { kOff, kStarting, kMoving, kStopped };
  State state() const;
  bool on() const { return debugger_ != nullptr || state() == State::kStarting; }
  bool busy() const;
  /// "stopped before %mm_3 · breakpoint 1: ...", "running: continue"; "" where nothing is debugged.
  std::string headline() const;
  int ranks() const;
  const std::optional<session::debug::Stop>& stop() const { return stop_; }
  const std::optional<Error>& startError() const { return start_error_; }
  /// Of the command that was sent last.
  const std::optional<Error>& lastError() const { return last_error_; }
  const std::optional<session::ValueComparison>& wrong() const { return wrong_; }
  const std::vector<ConsoleEntry>& console() const { return console_; }
  void clearConsole();
  /// The command that brings the ranks to where this node is next: "until %mm", or "back %mm" where it has run; "" where there is none.
  std::string lineTo(ir::NodeId node) const;
  /// What the word at the end of a line may become; nothing while a command is under way.
  std::vector<std::string> completions(const std::string& line) const;

  // --- breakpoints: of the open model, also while nothing is debugged --------------------------------------------------
  const BreakpointList& breakpoints() const { return list_; }
  Status addBreakpoint(const std::string& text);
  Status changeBreakpoint(std::size_t place, const std::string& text);
  void enableBreakpoint(std::size_t place, bool on);
  void removeBreakpoint(std::size_t place);
  /// Adds a plain one with this text, or removes it.
  void toggleBreakpoint(const std::string& text);
  /// By file: enabled ones and others, as the session file keeps them.
  struct Kept {
    std::string file, text;
    bool enabled = true;
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  std::vector<Kept> keptBreakpoints() const;
  void restoreBreakpoints(const std::vector<Kept>& kept);

  /// For the graph view; kept until something changes.
  const DebugMarks& marks(const std::shared_ptr<const ir::Graph>& graph) const;

  // --- values of the selected node --------------------------------------------------------------------------------------
  std::shared_ptr<const NodeLook> look() const { return look_; }
  bool looking() const { return looking_ || want_look_; }
  const LookRequest& lookRequest() const { return asked_; }
  void chooseValue(const std::string& name);
  void lookAtRank(int rank);
  /// Selects a node of the program by its name; no-op where there is none.
  void showNode(const std::string& name);
  void lookAtWindow(const std::string& ranges);
  void setCompare(bool on);
  void computeAgain();

 private:
  struct Held;  ///< what lives on the lane
  struct Command {
    std::string line;
    std::int64_t number = 0;  ///< of its entry in console_
  };
  struct Done;
  void pump();
  void begin();
  void run(Command command);
  void runLook();
  void take(const Command& command, Done done);
  void follow();
  void drop(const std::string& why);
  void wantLook();
  void changed();
  void breakpointsChanged();
  void openFile();
  const ir::Graph* program() const;

  Workspace& workspace_;
  std::function<void(Topic)> tell_;
  int listener_ = 0;
  std::shared_ptr<Held> debugger_;
  CancelToken life_, pause_;
  std::deque<Command> commands_;
  std::optional<Command> running_;
  bool goes_on_ = false;  ///< what runs was stopped only to take another breakpoint
  bool starts_ = false, waits_for_program_ = false, looking_ = false, want_look_ = false;
  std::shared_ptr<const session::CompileOutcome> of_;  ///< what is debugged
  std::optional<session::debug::Stop> stop_;
  std::optional<Error> start_error_, last_error_;
  std::optional<session::ValueComparison> wrong_;
  bool answered_wrong_ = false;  ///< by the last command
  std::vector<ConsoleEntry> console_;
  std::int64_t last_number_ = 0;
  BreakpointList list_;
  std::string file_;                              ///< whose breakpoints list_ holds
  std::map<std::string, BreakpointList> others_;  ///< of other files
  LookRequest asked_;
  std::shared_ptr<const NodeLook> look_;
  mutable std::shared_ptr<const ir::Graph> marked_;
  mutable std::optional<DebugMarks> marks_;
};

}  // namespace spscope::ui
