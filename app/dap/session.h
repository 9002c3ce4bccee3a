// SPDX-License-Identifier: Apache-2.0
// A debug session for an editor: the Debug Adapter Protocol over a connection, on the debugger's own commands. Ranks are threads; a
// thread's top frame is the node that it runs next, in the program's text, and the frames above are those of the user's Python.
//
// One thread works: between a few milliseconds of running it looks for requests, so that what runs can be stopped, and asked about.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include "app/dap/breakpoints.h"
#include "app/dap/launch.h"
#include "app/dap/progress_events.h"
#include "app/dap/sources.h"
#include "app/dap/variables.h"
#include "app/dap/wire/connection.h"
#include "core/session/debug/command.h"

namespace spscope::app::dap {

class Session {
 public:
  /// `in`, `out`: descriptors of the client, the caller's. `defaults`: of launch arguments.
  Session(int in, int out, DebugFlags defaults, const session::Request& request);
  /// Until the client disconnects or its stream ends. Errors: cancelled.
  Status run();
  std::int64_t requests() const { return requests_; }

 private:
  using Stop = session::debug::Stop;
  using Handler = Result<Json> (Session::*)(const Fields&);
  enum class Needs : std::uint8_t { kNothing, kInitialized, kLaunched, kStopped };
  struct Entry {
    Handler run;
    Needs needs;
  };
  static const std::map<std::string, Entry>& handlers();
  void handle(const Request& request);
  void arrived(const Request& request);
  Status allowed(const Entry& entry, const std::string& command) const;

  // session_life.cpp
  Result<Json> initialize(const Fields& arguments);
  Result<Json> launch(const Fields& arguments);
  Result<Json> configurationDone(const Fields& arguments);
  Result<Json> restart(const Fields& arguments);
  Result<Json> terminate(const Fields& arguments);
  Result<Json> disconnect(const Fields& arguments);
  Result<Json> cancel(const Fields& arguments);
  Result<Json> begin(const Launch& launch);
  void entered();
  void terminated();

  // session_break.cpp
  Result<Json> setBreakpoints(const Fields& arguments);
  Result<Json> setFunctionBreakpoints(const Fields& arguments);
  Result<Json> setExceptionBreakpoints(const Fields& arguments);
  Result<Json> breakpointLocations(const Fields& arguments);
  Result<Json> exceptionInfo(const Fields& arguments);

  // session_control.cpp
  struct Motion {
    int rank = -1;             ///< that moves alone; -1: all
    int focus = 0;             ///< whose thread is shown where it stops
    std::string reason;        ///< of the stopped event where it comes to its end
    std::function<bool(const Stop&)> reached;  ///< asked after every move; none: to a breakpoint or the end
    std::int64_t moves = 1;    ///< at once, so that requests are answered in time
  };
  Result<Json> resume(const Fields& arguments);
  Result<Json> next(const Fields& arguments);
  Result<Json> stepIn(const Fields& arguments);
  Result<Json> stepOut(const Fields& arguments);
  Result<Json> stepBack(const Fields& arguments);
  Result<Json> reverseContinue(const Fields& arguments);
  Result<Json> pause(const Fields& arguments);
  Result<Json> gotoTargets(const Fields& arguments);
  Result<Json> goTo(const Fields& arguments);
  Result<Motion> motionOf(const Fields& arguments);
  void start(Motion motion);
  void advance();
  /// True where a breakpoint stops it; the messages of those that only log have been sent.
  bool breakpointsMet(Stop& stop, const std::map<int, std::int64_t>& before);
  void logPoint(const Breakpoints::Entry& entry, const Stop& stop);
  void stopped(const Stop& stop, const std::string& reason, int focus, std::string description = {});
  void moved();

  // session_look.cpp
  Result<Json> threads(const Fields& arguments);
  Result<Json> stackTrace(const Fields& arguments);
  Result<Json> scopes(const Fields& arguments);
  Result<Json> variables(const Fields& arguments);
  Result<Json> evaluate(const Fields& arguments);
  Result<Json> completions(const Fields& arguments);
  Result<Json> source(const Fields& arguments);
  Result<Json> loadedSources(const Fields& arguments);
  /// "%v" or "v[0,2:5]" as the body of evaluate's answer. Errors: also value-unknown where it is of no such form.
  Result<Json> valueOf(std::string expression, int rank);
  Result<Json> command(const std::string& line);
  Result<int> rankOfThread(const Fields& arguments) const;
  Result<int> rankOfFrame(std::int64_t frame) const;
  void withoutTypes(Json& variable) const;

  void output(const char* category, std::string text);
  std::int64_t shownLine(std::int64_t line) const { return lines_from_1_ ? line : line - 1; }
  std::int64_t ourLine(std::int64_t line) const { return lines_from_1_ ? line : line + 1; }
  std::int64_t shownColumn() const { return columns_from_1_ ? 1 : 0; }

  const DebugFlags defaults_;
  const session::Request outer_;
  Launch launch_;
  DiagnosticSink diagnostics_;
  bool initialized_ = false, configured_ = false, over_ = false, done_ = false;
  bool lines_from_1_ = true, columns_from_1_ = true, types_ = false, progress_ = false;
  std::int64_t requests_ = 0, now_ = 0;  ///< now_: the seq of the request that is at work
  std::vector<std::function<void()>> after_;  ///< what is said behind the answer

  std::unique_ptr<session::debug::Debugger> debugger_;
  std::unique_ptr<Sources> sources_;
  std::unique_ptr<Variables> variables_;
  Breakpoints breakpoints_;
  std::optional<Motion> motion_;
  Stop last_;                             ///< where it stopped
  Json last_hits_ = Json::array();         ///< numbers of the breakpoints that the next stopped event is about
  int focus_ = 0;                         ///< rank that a client is likely to look at
  CancelToken working_;                   ///< of the debugger
  std::optional<Breakpoints::Entry> exception_;  ///< the filter that it stopped for
  std::string failure_;                   ///< of a node that could not be run; else ""
  std::vector<std::pair<std::string, std::int64_t>> goto_targets_;  ///< node, place

  // What the reading thread may stop.
  std::mutex busy_mutex_;
  std::optional<CancelToken> busy_;       ///< of what works now
  std::int64_t busy_seq_ = 0;
  std::set<std::int64_t> cancelled_;      ///< requests that are not to begin, or to end at once
  std::unique_ptr<ProgressEvents> progress_events_;
  Connection connection_;                 ///< last: it calls arrived()
};

}  // namespace spscope::app::dap
