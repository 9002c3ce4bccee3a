// SPDX-License-Identifier: Apache-2.0
// How a session begins and ends.
#include "app/dap/session.h"

namespace spscope::app::dap {

Result<Json> Session::initialize(const Fields& arguments) {
  if (initialized_) return makeError("dap-order", "initialize: it was said before", Outcome::kUsage);
  SP_ASSIGN(const std::string paths, arguments.text("pathFormat", "path"));
  if (paths != "path") return makeError("dap-argument", "initialize: pathFormat " + paths + " is not supported, only path", Outcome::kUsage);
  SP_ASSIGN(lines_from_1_, arguments.flag("linesStartAt1", true));
  SP_ASSIGN(columns_from_1_, arguments.flag("columnsStartAt1", true));
  SP_ASSIGN(types_, arguments.flag("supportsVariableType", false));
  SP_ASSIGN(progress_, arguments.flag("supportsProgressReporting", false));
  initialized_ = true;
  Json out;
  for (const char* can : {"supportsConfigurationDoneRequest", "supportsFunctionBreakpoints", "supportsConditionalBreakpoints", "supportsHitConditionalBreakpoints",
                          "supportsEvaluateForHovers", "supportsStepBack", "supportsGotoTargetsRequest", "supportsCompletionsRequest", "supportsRestartRequest",
                          "supportsExceptionInfoRequest", "supportTerminateDebuggee", "supportsDelayedStackTraceLoading", "supportsLoadedSourcesRequest", "supportsLogPoints",
                          "supportsTerminateRequest", "supportsCancelRequest", "supportsBreakpointLocationsRequest", "supportsClipboardContext", "supportsSteppingGranularity",
                          "supportsExceptionFilterOptions", "supportsSingleThreadExecutionRequests"})
    out[can] = true;
  out["completionTriggerCharacters"] = {" ", "%"};
  out["exceptionBreakpointFilters"] = Breakpoints::filters();
  return out;
}

Result<Json> Session::launch(const Fields& arguments) {
  if (debugger_ != nullptr) return makeError("dap-order", "launch: a step was launched before; restart begins it again", Outcome::kUsage);
  SP_ASSIGN(const Launch launch, readLaunch(arguments, defaults_));
  return begin(launch);
}

Result<Json> Session::begin(const Launch& launch) {
  for (const std::string& name : launch.unknown) output("important", "launch: the argument " + name + " means nothing here");
  diagnostics_ = {};
  session::Request request;
  request.diagnostics = &diagnostics_;
  {
    const std::lock_guard lock(busy_mutex_);
    busy_ = request.cancel;
    busy_seq_ = now_;
    if (cancelled_.contains(now_)) busy_->cancel();
    progress_events_ = std::make_unique<ProgressEvents>(connection_, progress_, "Compiling " + launch.flags.model.path, now_, true);
  }
  request.progress = [this, token = request.cancel](const Progress& p) {
    if (outer_.cancel.cancelled()) token.cancel();
    if (progress_events_) progress_events_->show(p);
  };
  auto opened = launch.flags.open(request);
  {
    const std::lock_guard lock(busy_mutex_);
    busy_.reset();
    progress_events_.reset();
  }
  for (const Diagnostic& d : diagnostics_.all())
    if (d.severity != Severity::kRemark) output("console", "warning[" + d.code + "]: " + d.message + (d.node.empty() ? "" : " (node " + d.node + ")"));
  if (!opened) return std::move(opened).error();
  launch_ = launch;
  working_ = request.cancel;
  debugger_ = std::move(*opened);
  sources_ = std::make_unique<Sources>(*debugger_, launch.flags.model.path, launch.folders);
  variables_ = std::make_unique<Variables>(*debugger_);
  const Json changed = breakpoints_.debug(*debugger_, *sources_);
  over_ = false;
  last_ = debugger_->where();
  after_.push_back([this, changed] {
    connection_.event("process", {{"name", launch_.flags.model.path}, {"isLocalProcess", true}, {"startMethod", "launch"}});
    for (int r = 0; r < debugger_->ranks(); ++r) connection_.event("thread", {{"reason", "started"}, {"threadId", r + 1}});
    for (const Json& one : changed) connection_.event("breakpoint", {{"reason", "changed"}, {"breakpoint", one}});
    connection_.event("initialized");
  });
  return Json();
}

void Session::entered() {
  if (launch_.stop_on_entry) stopped(debugger_->where(), "entry", 0, "at the beginning of the step");
  else start({});
}

Result<Json> Session::configurationDone(const Fields&) {
  if (configured_) return makeError("dap-order", "configurationDone: it was said before", Outcome::kUsage);
  configured_ = true;
  after_.push_back([this] { entered(); });
  return Json();
}

Result<Json> Session::restart(const Fields&) {
  motion_.reset();
  SP_ASSIGN(last_, debugger_->back(debugger_->where().made));
  moved();
  if (configured_) after_.push_back([this] { entered(); });
  return Json();
}

void Session::terminated() {
  motion_.reset();
  if (debugger_ == nullptr) return connection_.event("terminated");
  for (int r = 0; r < debugger_->ranks(); ++r) connection_.event("thread", {{"reason", "exited"}, {"threadId", r + 1}});
  connection_.event("exited", {{"exitCode", 0}});
  connection_.event("terminated");
  breakpoints_.forget();
  variables_.reset();
  sources_.reset();
  debugger_.reset();
  exception_.reset();
  over_ = true;
  configured_ = false;
}

Result<Json> Session::terminate(const Fields&) {
  after_.push_back([this] { terminated(); });
  return Json();
}

Result<Json> Session::disconnect(const Fields&) {
  done_ = true;
  motion_.reset();
  return Json();
}

Result<Json> Session::cancel(const Fields& arguments) {
  SP_ASSIGN(const std::int64_t seq, arguments.number("requestId", 0));
  if (seq <= 0) return Json();  // of a progress: it was told on arrival
  if (const auto waiting = connection_.withdraw(seq)) connection_.refuse(*waiting, makeError("cancelled", waiting->command + " was cancelled before it began", Outcome::kNo), "cancelled");
  return Json();
}

}  // namespace spscope::app::dap
