// SPDX-License-Identifier: Apache-2.0
// Running, a few moves at a time, and stopping.
#include <algorithm>
#include <chrono>

#include "app/dap/session.h"
#include "core/base/strings.h"

namespace spscope::app::dap {
namespace {

namespace dbg = session::debug;
using Clock = std::chrono::steady_clock;

/// How long requests may wait while the ranks run; one node may take longer.
constexpr auto kSlice = std::chrono::milliseconds(20);

const dbg::NodeName& nextOf(const dbg::Stop& stop, int rank) { return stop.ranks[static_cast<std::size_t>(rank)].next; }
bool endedAt(const dbg::Stop& stop, int rank) { return stop.ranks[static_cast<std::size_t>(rank)].ended; }

}  // namespace

Result<int> Session::rankOfThread(const Fields& arguments) const {
  SP_ASSIGN(const std::int64_t thread, arguments.number("threadId"));
  if (thread < 1 || thread > debugger_->ranks()) {
    Error error = makeError("dap-argument", strf("there is no thread %lld", static_cast<long long>(thread)), Outcome::kUsage);
    error.legal = strf("1 to %d: rank 0 to %d", debugger_->ranks(), debugger_->ranks() - 1);
    return error;
  }
  return static_cast<int>(thread - 1);
}

Result<Session::Motion> Session::motionOf(const Fields& arguments) {
  Motion out;
  SP_ASSIGN(out.focus, rankOfThread(arguments));
  SP_ASSIGN(const bool alone, arguments.flag("singleThread", false));
  if (alone) out.rank = out.focus;
  out.reason = "step";
  return out;
}

void Session::moved() {
  variables_->clear();
  exception_.reset();
  failure_.clear();
}

void Session::start(Motion motion) {
  moved();
  motion_ = std::move(motion);
}

Result<Json> Session::resume(const Fields& arguments) {
  SP_ASSIGN(Motion motion, motionOf(arguments));
  const Stop now = debugger_->where();
  const bool all = motion.rank < 0;
  if (std::all_of(now.ranks.begin(), now.ranks.end(), [](const dbg::RankPlace& r) { return r.ended; })) {
    after_.push_back([this] { terminated(); });  // it stopped at the end before, for a last look
  } else {
    start(std::move(motion));
  }
  return Json{{"allThreadsContinued", all}};
}

Result<Json> Session::next(const Fields& arguments) {
  SP_ASSIGN(Motion motion, motionOf(arguments));
  SP_ASSIGN(const std::string granularity, arguments.text("granularity", "statement"));
  const int rank = motion.focus;
  const std::string source = endedAt(debugger_->where(), rank) ? "" : nextOf(debugger_->where(), rank).source;
  // A statement is what one line of the user's program became.
  motion.reached = [rank, source, node = granularity == "instruction"](const Stop& stop) {
    if (node || endedAt(stop, rank)) return true;
    const std::string& now = nextOf(stop, rank).source;
    return !now.empty() && now != source;
  };
  start(std::move(motion));
  return Json();
}

Result<Json> Session::stepIn(const Fields& arguments) {
  SP_ASSIGN(Motion motion, motionOf(arguments));
  motion.reached = [](const Stop&) { return true; };
  start(std::move(motion));
  return Json();
}

Result<Json> Session::stepOut(const Fields& arguments) {
  SP_ASSIGN(Motion motion, motionOf(arguments));
  const int rank = motion.focus;
  const std::string module = endedAt(debugger_->where(), rank) ? "" : nextOf(debugger_->where(), rank).module;
  if (!module.empty())
    motion.reached = [rank, module](const Stop& stop) {
      const std::string& now = nextOf(stop, rank).module;
      return endedAt(stop, rank) || (now != module && !now.starts_with(module + "."));
    };
  start(std::move(motion));
  return Json();
}

Result<Json> Session::stepBack(const Fields& arguments) {
  SP_ASSIGN(const int rank, rankOfThread(arguments));
  SP_ASSIGN(const Stop stop, debugger_->back(1));
  after_.push_back([this, stop, rank] { stopped(stop, stop.made == 0 ? "entry" : "step", rank, stop.message); });
  return Json();
}

Result<Json> Session::reverseContinue(const Fields& arguments) {
  SP_ASSIGN(const int rank, rankOfThread(arguments));
  SP_ASSIGN(const Stop stop, debugger_->backToBreakpoint());
  after_.push_back([this, stop, rank] { stopped(stop, stop.reason == dbg::StopReason::kBreakpoint ? "breakpoint" : "entry", rank, stop.message); });
  return Json();
}

Result<Json> Session::pause(const Fields& arguments) {
  SP_TRY(rankOfThread(arguments));
  if (motion_)
    after_.push_back([this] {
      const int focus = motion_->focus;
      motion_.reset();
      stopped(debugger_->where(), "pause", focus);
    });
  return Json();
}

Result<Json> Session::gotoTargets(const Fields& arguments) {
  SP_ASSIGN(const Fields source, arguments.object("source"));
  SP_ASSIGN(const std::int64_t reference, source.number("sourceReference", 0));
  SP_ASSIGN(const std::string path, source.text("path", ""));
  SP_ASSIGN(const std::string name, source.text("name", ""));
  SP_ASSIGN(const std::int64_t asked, arguments.number("line"));
  const std::int64_t line = ourLine(asked);
  goto_targets_.clear();
  Json targets = Json::array();
  const auto offer = [&](const dbg::NodeName& node, std::int64_t at) {
    goto_targets_.emplace_back(node.name, node.place);
    targets.push_back({{"id", goto_targets_.size()}, {"label", "%" + node.name + ", " + node.phase + (node.module.empty() ? "" : " of " + node.module)}, {"line", shownLine(at)}});
  };
  if (const Sources::Program* const program = sources_->program(reference, path.empty() ? name : path)) {
    if (const auto place = program->placeAt(line)) {
      const ir::Node& node = program->graph->node(program->graph->order[*place]);
      SP_ASSIGN(const auto found, debugger_->find({dbg::NodeQuery::By::kName, node.name}));
      offer(found.front(), program->lineOf(*place));
    }
  } else if (const Sources::PythonFile* const file = path.empty() ? nullptr : sources_->file(path)) {
    if (const auto at = file->lines.lower_bound(line); at != file->lines.end()) {
      SP_ASSIGN(const auto found, debugger_->find({dbg::NodeQuery::By::kLine, file->recorded + ":" + std::to_string(*at)}));
      for (const dbg::NodeName& node : found) offer(node, *at);
    }
  }
  return Json{{"targets", std::move(targets)}};
}

Result<Json> Session::goTo(const Fields& arguments) {
  SP_ASSIGN(const int rank, rankOfThread(arguments));
  SP_ASSIGN(const std::int64_t id, arguments.number("targetId"));
  if (id < 1 || id > static_cast<std::int64_t>(goto_targets_.size())) return makeError("dap-argument", strf("goto: there is no target %lld", static_cast<long long>(id)), Outcome::kUsage);
  const auto [node, place] = goto_targets_[static_cast<std::size_t>(id - 1)];
  const dbg::RankPlace now = debugger_->where().ranks[static_cast<std::size_t>(rank)];
  if (now.ended || now.next.place > place) {
    SP_ASSIGN(const Stop stop, debugger_->backTo({dbg::NodeQuery::By::kName, node}));
    after_.push_back([this, stop, rank] { stopped(stop, "goto", rank); });
  } else if (now.next.place == place) {
    after_.push_back([this, rank] { stopped(debugger_->where(), "goto", rank); });
  } else {
    Motion motion;
    motion.focus = rank;
    motion.reason = "goto";
    motion.reached = [rank, name = node](const Stop& stop) { return endedAt(stop, rank) || nextOf(stop, rank).name == name; };
    start(std::move(motion));
  }
  return Json();
}

void Session::advance() {
  std::map<int, std::int64_t> before;
  for (const dbg::Breakpoint& b : debugger_->breakpoints()) before[b.id] = b.hits;
  const auto begin = Clock::now();
  auto made = debugger_->step(motion_->reached ? 1 : motion_->moves, motion_->rank);
  const auto took = Clock::now() - begin;
  const Motion motion = *motion_;
  if (!made) {
    motion_.reset();
    stopped(debugger_->where(), "exception", motion.focus, made.error().message);
    failure_ = made.error().format();
    return;
  }
  Stop stop = std::move(*made);
  for (const std::string& line : stop.log) output("console", line);
  const auto stopAs = [&](const std::string& reason) {
    motion_.reset();
    stopped(stop, reason, stop.rank >= 0 ? stop.rank : motion.focus, stop.message);
  };
  switch (stop.reason) {
    case dbg::StopReason::kBreakpoint:
      if (breakpointsMet(stop, before)) return;
      break;
    case dbg::StopReason::kFailed:
      stopAs("exception");
      failure_ = stop.message;
      return;
    case dbg::StopReason::kWaits: return stopAs("pause");
    case dbg::StopReason::kEnd: return stopAs("step");
    default: break;
  }
  if (motion.reached && motion.reached(stop)) {
    stop.message.clear();
    return stopAs(motion.reason);
  }
  motion_->moves = took < kSlice ? std::min<std::int64_t>(motion.moves * 2, 4096) : std::max<std::int64_t>(motion.moves / 2, 1);
}

bool Session::breakpointsMet(Stop& stop, const std::map<int, std::int64_t>& before) {
  const Motion motion = *motion_;
  bool stops = false;
  std::string reason = "breakpoint";
  Json ids = Json::array();
  std::optional<Breakpoints::Entry> exception;
  for (const dbg::Breakpoint& b : debugger_->breakpoints()) {
    const auto was = before.find(b.id);
    if (b.action != dbg::Action::kStop || b.hits < b.condition.hit || (was != before.end() && was->second == b.hits)) continue;
    const Breakpoints::Entry* const entry = breakpoints_.ofCore(b.id);
    if (entry != nullptr && !entry->log.empty()) {
      logPoint(*entry, stop);
      continue;
    }
    stops = true;
    if (entry == nullptr) continue;
    ids.push_back(entry->id);
    if (entry->kind == Breakpoints::Kind::kFunction) reason = "function breakpoint";
    if (entry->kind == Breakpoints::Kind::kException) reason = "exception", exception = *entry;
  }
  if (!stops) return false;
  motion_.reset();
  last_hits_ = std::move(ids);
  stopped(stop, reason, stop.rank >= 0 ? stop.rank : motion.focus, stop.message);
  exception_ = std::move(exception);
  return true;
}

void Session::logPoint(const Breakpoints::Entry& entry, const Stop& stop) {
  const int rank = std::max(stop.rank, 0);
  std::string text;
  for (std::size_t at = 0; at < entry.log.size();) {
    const std::size_t open = entry.log.find('{', at), close = open == std::string::npos ? open : entry.log.find('}', open);
    text += entry.log.substr(at, open == std::string::npos ? open : open - at);
    if (close == std::string::npos) {
      if (open != std::string::npos) text += entry.log.substr(open);
      break;
    }
    const std::string expression = entry.log.substr(open + 1, close - open - 1);
    const Result<Json> value = valueOf(expression, rank);
    text += value ? (*value)["result"].get<std::string>() : "{" + expression + ": " + value.error().message + "}";
    at = close + 1;
  }
  const bool sourced = !entry.source.is_null();
  Json body = {{"category", "console"}, {"output", text + "\n"}};
  if (sourced) {
    body["source"] = entry.source;
    body["line"] = shownLine(entry.actual);
  }
  connection_.event("output", std::move(body));
}

void Session::stopped(const Stop& stop, const std::string& reason, int focus, std::string description) {
  moved();
  last_ = stop;
  focus_ = focus;
  Json body = {{"reason", reason}};
  if (!description.empty()) body["description"] = description;
  body["threadId"] = focus + 1;
  body["allThreadsStopped"] = true;
  if (reason == "exception" && !description.empty()) body["text"] = std::move(description);
  if (!last_hits_.empty()) body["hitBreakpointIds"] = std::exchange(last_hits_, Json::array());
  connection_.event("stopped", std::move(body));
}

}  // namespace spscope::app::dap
