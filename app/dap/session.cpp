// SPDX-License-Identifier: Apache-2.0
#include "app/dap/session.h"

#include "core/base/strings.h"

namespace spscope::app::dap {

using namespace std::chrono_literals;

Session::Session(int in, int out, DebugFlags defaults, const session::Request& request)
    : defaults_(std::move(defaults)), outer_(request), breakpoints_([this](std::int64_t line) { return shownLine(line); }),
      connection_(in, out, [this](const Request& r) { arrived(r); }) {}

const std::map<std::string, Session::Entry>& Session::handlers() {
  static const std::map<std::string, Entry> all = {
      {"initialize", {&Session::initialize, Needs::kNothing}},
      {"disconnect", {&Session::disconnect, Needs::kNothing}},
      {"cancel", {&Session::cancel, Needs::kNothing}},
      {"launch", {&Session::launch, Needs::kInitialized}},
      {"attach", {&Session::launch, Needs::kInitialized}},
      {"terminate", {&Session::terminate, Needs::kInitialized}},
      {"setBreakpoints", {&Session::setBreakpoints, Needs::kInitialized}},
      {"setFunctionBreakpoints", {&Session::setFunctionBreakpoints, Needs::kInitialized}},
      {"setExceptionBreakpoints", {&Session::setExceptionBreakpoints, Needs::kInitialized}},
      {"configurationDone", {&Session::configurationDone, Needs::kLaunched}},
      {"restart", {&Session::restart, Needs::kLaunched}},
      {"pause", {&Session::pause, Needs::kLaunched}},
      {"threads", {&Session::threads, Needs::kLaunched}},
      {"breakpointLocations", {&Session::breakpointLocations, Needs::kLaunched}},
      {"source", {&Session::source, Needs::kLaunched}},
      {"loadedSources", {&Session::loadedSources, Needs::kLaunched}},
      {"completions", {&Session::completions, Needs::kLaunched}},
      {"gotoTargets", {&Session::gotoTargets, Needs::kLaunched}},
      {"continue", {&Session::resume, Needs::kStopped}},
      {"next", {&Session::next, Needs::kStopped}},
      {"stepIn", {&Session::stepIn, Needs::kStopped}},
      {"stepOut", {&Session::stepOut, Needs::kStopped}},
      {"stepBack", {&Session::stepBack, Needs::kStopped}},
      {"reverseContinue", {&Session::reverseContinue, Needs::kStopped}},
      {"goto", {&Session::goTo, Needs::kStopped}},
      {"stackTrace", {&Session::stackTrace, Needs::kStopped}},
      {"scopes", {&Session::scopes, Needs::kStopped}},
      {"variables", {&Session::variables, Needs::kStopped}},
      {"evaluate", {&Session::evaluate, Needs::kStopped}},
      {"exceptionInfo", {&Session::exceptionInfo, Needs::kStopped}},
  };
  return all;
}

Status Session::run() {
  while (!done_) {
    if (Status go_on = outer_.cancel.check(); !go_on) {
      terminated();
      return go_on;
    }
    if (const std::optional<Request> request = connection_.next(motion_ ? 0ms : 100ms)) {
      handle(*request);
      continue;  // what waits is answered before it runs on
    }
    if (connection_.ended()) break;
    if (motion_) advance();
  }
  return {};
}

Status Session::allowed(const Entry& entry, const std::string& command) const {
  const auto wrong = [&](const char* why) { return makeError("dap-order", command + ": " + why, Outcome::kUsage); };
  if (entry.needs == Needs::kNothing) return {};
  if (!initialized_) return wrong("initialize comes first");
  if (entry.needs == Needs::kInitialized) return {};
  if (debugger_ == nullptr) return wrong(over_ ? "the session is over" : "launch comes first");
  if (entry.needs == Needs::kStopped && motion_) return wrong("the ranks are running: pause them first");
  if (entry.needs == Needs::kStopped && !configured_) return wrong("configurationDone comes first");
  return {};
}

void Session::handle(const Request& request) {
  ++requests_;
  if (request.fault) return connection_.refuse(request, *request.fault);
  const auto entry = handlers().find(request.command);
  if (entry == handlers().end()) {
    std::vector<std::string> known;
    for (const auto& [name, what] : handlers()) known.push_back(name);
    Error error = makeError("dap-unknown", "there is no request " + request.command.substr(0, 80), Outcome::kUsage);
    error.legal = nearest(request.command, known);
    return connection_.refuse(request, error);
  }
  if (const Status order = allowed(entry->second, request.command); !order)
    return connection_.refuse(request, order.error(), motion_ && entry->second.needs == Needs::kStopped ? "notStopped" : "");
  now_ = request.seq;
  if (const std::lock_guard lock(busy_mutex_); cancelled_.contains(now_))
    return connection_.refuse(request, makeError("cancelled", request.command + " was cancelled before it began", Outcome::kNo), "cancelled");
  const auto workOn = [&](std::optional<CancelToken> token) {
    const std::lock_guard lock(busy_mutex_);
    busy_ = std::move(token);
    busy_seq_ = 0;  // only a client that leaves cancels it: the debugger could not go on
    progress_events_.reset();
    if (busy_) progress_events_ = std::make_unique<ProgressEvents>(connection_, progress_, request.command, request.seq, false);
  };
  if (debugger_ != nullptr) workOn(working_);
  Result<Json> body = (this->*entry->second.run)(Fields(request.command, request.arguments));
  workOn({});
  if (body) connection_.respond(request, std::move(*body));
  else connection_.refuse(request, body.error(), body.error().code == "cancelled" ? "cancelled" : "");
  for (const auto& say : std::exchange(after_, {})) say();
}

// On the reading thread: what works now may last for minutes, and must end when the client leaves or says so.
void Session::arrived(const Request& request) {
  const std::lock_guard lock(busy_mutex_);
  if (request.command == "cancel")  // it may be on its way from the line to its work
    if (const std::int64_t seq = Fields("cancel", request.arguments).number("requestId", 0).value_or(0); seq > 0 && cancelled_.size() < 10'000) cancelled_.insert(seq);
  if (!busy_) return;
  const bool leaves = request.command.empty() || request.command == "disconnect" || request.command == "terminate";
  bool meant = false;
  if (request.command == "cancel") {
    const Fields arguments("cancel", request.arguments);
    meant = arguments.number("requestId", -1).value_or(-1) == busy_seq_;
    meant = meant || (busy_seq_ > 0 && progress_events_ && arguments.text("progressId", "").value_or("") == progress_events_->id());
  }
  if (leaves || meant) busy_->cancel();
}

void Session::output(const char* category, std::string text) {
  if (text.empty()) return;
  if (!text.ends_with('\n')) text += '\n';
  connection_.event("output", {{"category", category}, {"output", std::move(text)}});
}

void Session::withoutTypes(Json& variable) const {
  if (!types_) variable.erase("type");
}

}  // namespace spscope::app::dap
