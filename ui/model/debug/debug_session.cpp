// SPDX-License-Identifier: Apache-2.0
#include "ui/model/debug/debug_session.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"
#include "ui/model/attempt.h"

namespace spscope::ui {

namespace dbg = session::debug;

namespace {

constexpr std::size_t kConsoleKept = 300;

dbg::Answer executed(dbg::Debugger& debugger, const std::string& line) {
  try {
    return dbg::execute(debugger, line);
  } catch (const std::exception& e) {  // memory that is not there must not end the window
    dbg::Answer out;
    out.line = line;
    out.error = makeError("internal", strf("exception: %s", e.what()), Outcome::kRunFailed);
    return out;
  }
}

/// A command that can be stopped anywhere and sent again, without a difference.
bool goesOn(const std::string& line) {
  for (const char* word : {"continue", "c", "until", "u", "collective"})
    if (line == word || line.starts_with(std::string(word) + " ")) return true;
  return false;
}

std::string plainText(const dbg::Answer& a) {
  if (a.error) return a.error->format();
  if (a.stop) return a.stop->message;
  return a.said;
}

}  // namespace

struct DebugSession::Held {
  std::unique_ptr<dbg::Debugger> debugger;
  DiagnosticSink sink;
  /// Before every use: who is told of progress, and what stops it.
  void serve(const JobContext& context, const CancelToken& stop) {
    sink = {};
    session::Request request = requestOf(context, sink);
    request.cancel = stop;
    debugger->use(request);
  }
};

struct DebugSession::Done {
  dbg::Answer answer;
  std::vector<BreakpointList::Wanted> given;
  std::vector<dbg::Breakpoint> now;
};

DebugSession::DebugSession(Workspace& workspace, std::function<void(Topic)> tell) : workspace_(workspace), tell_(std::move(tell)) {
  listener_ = workspace_.listen([this](Topic topic) {
    if (topic == Topic::kSelection) wantLook();
    if (topic == Topic::kModel) openFile();
    if (topic != Topic::kModel && topic != Topic::kCompiled) return;
    marks_.reset();
    if (on() && of_ && workspace_.compiled() != of_) drop("the program is another one now");
    if (topic != Topic::kCompiled || !waits_for_program_) return;
    waits_for_program_ = false;
    if (workspace_.compiled()) return begin();
    starts_ = false;
    start_error_ = workspace_.compileError();
    changed();
  });
}

DebugSession::~DebugSession() {
  life_.cancel();
  pause_.cancel();
  workspace_.unlisten(listener_);
}

void DebugSession::changed() {
  marks_.reset();
  tell_(Topic::kDebug);
}

// --- control ----------------------------------------------------------------------------------------------------------

void DebugSession::start() {
  if (!workspace_.model()) return;
  if (on()) drop({});
  starts_ = true;
  start_error_.reset();
  if (workspace_.compiled()) return begin();
  waits_for_program_ = true;
  if (!workspace_.jobs().busy("compile")) workspace_.compile();
  changed();
}

void DebugSession::begin() {
  starts_ = true;
  life_ = {};
  of_ = workspace_.compiled();
  wrong_.reset();
  look_.reset();
  asked_.value.clear();
  asked_.window.clear();
  const int last = static_cast<int>(workspace_.stages().size()) - 1;
  workspace_.showStages(last, -1);  // what runs
  workspace_.lanes().submit(kLane, [this, model = workspace_.model(), compiled = of_, settings = workspace_.settings(), life = life_](const JobContext& context) -> std::function<void()> {
    auto held = std::make_shared<Held>();
    auto out = attempt<dbg::Stop>([&](DiagnosticSink& sink) -> Result<dbg::Stop> {
      session::Request request = requestOf(context, sink);
      request.cancel = life;
      SP_ASSIGN(held->debugger, dbg::Debugger::open(*model, compiled, settings.compile, settings.data, request));
      return held->debugger->where();
    });
    return [this, out, held] {
      starts_ = false;
      if (!out->value) {
        start_error_ = out->error;
        of_.reset();
        commands_.clear();
        if (out->error->code != "cancelled") workspace_.log({Severity::kError, "debug", out->error->code, out->error->message, out->error->node, out->error->source, out->error->remedy});
        return changed();
      }
      debugger_ = held;
      stop_ = std::move(out->value);
      changed();
      follow();
      pump();
    };
  });
  changed();
}

void DebugSession::drop(const std::string& why) {
  life_.cancel();
  pause_.cancel();
  const bool lane = debugger_ != nullptr || (starts_ && !waits_for_program_);
  commands_.clear();
  running_.reset();
  goes_on_ = false;
  for (ConsoleEntry& e : console_)
    if (!e.done) e.done = e.failed = true, e.text = "debugging has ended";
  starts_ = waits_for_program_ = looking_ = want_look_ = false;
  stop_.reset();
  look_.reset();
  wrong_.reset();
  of_.reset();
  list_.detach();
  // What it holds goes where it was made; this also drops the result of what is under way.
  if (lane) workspace_.lanes().submit(kLane, [held = std::move(debugger_)](const JobContext&) mutable { return held.reset(), std::function<void()>(); });
  debugger_.reset();
  if (!why.empty()) workspace_.log({Severity::kRemark, "debug", "", "debugging has ended: " + why, {}, {}, {}});
  changed();
}

void DebugSession::end() {
  if (on()) drop({});
}

void DebugSession::pause() {
  if (starts_) return end();
  goes_on_ = false;
  if (running_ || looking_) pause_.cancel();
}

void DebugSession::send(const std::string& line) {
  console_.push_back({line, {}, false, false, ++last_number_});
  if (console_.size() > kConsoleKept) console_.erase(console_.begin(), console_.begin() + 100);
  if (!on()) {
    console_.back().text = "Nothing is debugged: start it first (F5).";
    console_.back().failed = console_.back().done = true;
    last_error_ = makeError("usage", "nothing is debugged", Outcome::kUsage);
    return changed();
  }
  if (looking_) pause_.cancel();  // it is looked again behind the command
  commands_.push_back({line, last_number_});
  pump();
  changed();
}

void DebugSession::clearConsole() {
  std::erase_if(console_, [](const ConsoleEntry& e) { return e.done; });
  changed();
}

void DebugSession::pump() {
  if (!debugger_ || running_ || looking_) return;
  if (!commands_.empty()) {
    Command next = std::move(commands_.front());
    commands_.pop_front();
    return run(std::move(next));
  }
  if (want_look_) runLook();
}

void DebugSession::run(Command command) {
  pause_ = {};
  running_ = command;
  workspace_.lanes().submit(kLane, [this, held = debugger_, command, given = list_.wanted(), stop = pause_](const JobContext& context) mutable -> std::function<void()> {
    held->serve(context, stop);
    auto done = std::make_shared<Done>();
    BreakpointList::bring(*held->debugger, given);
    done->answer = executed(*held->debugger, command.line);
    done->given = std::move(given);
    done->now = held->debugger->breakpoints();
    return [this, command, done] { take(command, std::move(*done)); };
  });
}

void DebugSession::take(const Command& command, Done done) {
  const dbg::Answer& a = done.answer;
  running_.reset();
  list_.adopt(done.given, done.now);
  if (std::exchange(goes_on_, false) && a.stop && a.stop->reason == dbg::StopReason::kPaused) {
    commands_.push_front(command);
    return pump();
  }
  last_error_ = a.error;
  answered_wrong_ = a.wrong.has_value();
  for (ConsoleEntry& e : console_) {
    if (e.number != command.number) continue;
    e.text = text ? text(a) : plainText(a);
    e.failed = a.error.has_value();
    e.done = true;
  }
  if (a.quit) return drop({});
  if (a.wrong) wrong_ = a.wrong;
  if (a.stop) stop_ = a.stop;
  want_look_ = true;  // what is live may be other values now
  changed();
  if (a.stop) follow();
  if (a.wrong && a.wrong->first) {
    if (!a.wrong->first->ranks.empty()) lookAtRank(a.wrong->first->ranks.front());
    showNode(a.wrong->first->node);
  }
  wantLook();
  pump();
}

/// The view goes to where the ranks stand: the node that the stop is about, or the next one of the rank that is looked at.
void DebugSession::follow() {
  const ir::Graph* g = program();
  if (g == nullptr || !stop_) return;
  const int rank = workspace_.selection().rank;
  std::string name = stop_->node;
  if (stop_->breakpoint == 0 && stop_->reason != dbg::StopReason::kFailed && rank >= 0 && rank < ranks()) {
    const dbg::RankPlace& at = stop_->ranks[static_cast<std::size_t>(rank)];
    name = at.ended ? std::string() : at.next.name;
  }
  asked_.value.clear();
  asked_.again = false;
  showNode(name);
  wantLook();
}

void DebugSession::showNode(const std::string& name) {
  const ir::Graph* g = of_ ? program() : workspace_.graph().get();
  if (g == nullptr) return;
  for (const ir::NodeId id : g->order)
    if (g->node(id).name == name) {
      Selection s;
      s.node = id;
      s.rank = workspace_.selection().rank;
      return workspace_.showNode(s);
    }
}

/// Rank 0's, which is the debugger's graph(0).
const ir::Graph* DebugSession::program() const {
  if (!of_) return nullptr;
  const passes::Compiled& c = of_->compiled;
  return c.programs[static_cast<std::size_t>(c.class_of_rank.front())].get();
}

DebugSession::State DebugSession::state() const {
  if (starts_) return State::kStarting;
  if (!debugger_) return State::kOff;
  return running_ || !commands_.empty() ? State::kMoving : State::kStopped;
}

bool DebugSession::busy() const { return starts_ || (debugger_ && (running_ || !commands_.empty() || looking())); }

int DebugSession::ranks() const { return stop_ ? static_cast<int>(stop_->ranks.size()) : 0; }

std::string DebugSession::headline() const {
  const auto doing = [&](const char* what) {
    const JobProgress& p = workspace_.progress();
    if (p.lane != kLane || p.what.empty()) return std::string(what);
    return std::string(what) + ": " + p.what + (p.total > 0 ? strf(" %lld/%lld", static_cast<long long>(p.done), static_cast<long long>(p.total)) : "");
  };
  switch (state()) {
    case State::kOff: return start_error_ && start_error_->code != "cancelled" ? "not started: " + start_error_->message : std::string();
    case State::kStarting: return waits_for_program_ ? "compiling" : doing("starting");
    case State::kMoving: return doing((running_ ? running_->line : commands_.front().line).c_str());
    case State::kStopped: break;
  }
  if (last_error_) return last_error_->message;
  if (answered_wrong_) {
    if (!wrong_->first) return strf("nothing is wrong: %lld values and all results are the unsharded ones", static_cast<long long>(wrong_->compared));
    return "first wrong: %" + wrong_->first->node + (wrong_->first->ranks.size() == 1 ? " on rank " : " on ranks ") + rangesText(wrong_->first->ranks) + ", made by " + wrong_->first->pass;
  }
  if (!stop_) return {};
  if (!stop_->message.empty()) return stop_->message;
  std::vector<int> at;
  for (const dbg::RankPlace& r : stop_->ranks)
    if (!r.ended && r.next.name == stop_->node) at.push_back(r.rank);
  return "before %" + stop_->node + (static_cast<int>(at.size()) == ranks() ? "" : at.empty() ? "" : (at.size() == 1 ? " on rank " : " on ranks ") + rangesText(at)) +
         strf(", move %lld", static_cast<long long>(stop_->made));
}

std::string DebugSession::lineTo(ir::NodeId node) const {
  const ir::Graph* g = program();
  if (g == nullptr || !stop_ || node == ir::kNone || static_cast<std::size_t>(node) >= g->nodeCount()) return {};
  const auto at = std::find(g->order.begin(), g->order.end(), node);
  if (at == g->order.end()) return {};
  const dbg::RankPlace& first = stop_->ranks.front();
  const std::int64_t place = at - g->order.begin(), now = first.ended ? static_cast<std::int64_t>(g->order.size()) : first.next.place;
  if (place == now) return {};
  return (place < now ? "back %" : "until %") + g->node(node).name;
}

std::vector<std::string> DebugSession::completions(const std::string& line) const {
  // The debugger is of its lane's thread: it may be asked while nothing runs there.
  if (!debugger_ || running_ || looking_ || workspace_.jobs().busy(kLane)) return {};
  return dbg::completions(*debugger_->debugger, line);
}

/// Also for ranks that are on their way: they stop between two nodes, take it, and go on.
void DebugSession::breakpointsChanged() {
  if (running_ && goesOn(running_->line)) {
    goes_on_ = true;
    pause_.cancel();
  }
  changed();
}

// --- breakpoints --------------------------------------------------------------------------------------------------------

void DebugSession::openFile() {
  const std::string file = workspace_.model() ? workspace_.settings().open.path : std::string();
  if (file == file_) return;
  list_.detach();
  if (!list_.all().empty() && !file_.empty()) others_[file_] = std::move(list_);
  // Those that were set before a model was open are the model's.
  if (!file_.empty() || list_.all().empty()) list_ = {};
  file_ = file;
  if (const auto kept = others_.find(file); kept != others_.end()) {
    list_ = std::move(kept->second);
    others_.erase(kept);
  }
  changed();
}

Status DebugSession::addBreakpoint(const std::string& what) {
  SP_TRY(list_.add(what));
  breakpointsChanged();
  return {};
}

Status DebugSession::changeBreakpoint(std::size_t place, const std::string& what) {
  SP_TRY(list_.change(place, what));
  breakpointsChanged();
  return {};
}

void DebugSession::enableBreakpoint(std::size_t place, bool on) {
  list_.enable(place, on);
  breakpointsChanged();
}

void DebugSession::removeBreakpoint(std::size_t place) {
  list_.remove(place);
  breakpointsChanged();
}

void DebugSession::toggleBreakpoint(const std::string& what) {
  if (const int there = list_.find(what); there >= 0) list_.remove(static_cast<std::size_t>(there));
  else if (const auto added = list_.add(what); !added) workspace_.log({Severity::kError, "debug", added.error().code, added.error().message, {}, {}, added.error().legal});
  breakpointsChanged();
}

std::vector<DebugSession::Kept> DebugSession::keptBreakpoints() const {
  std::vector<Kept> out;
  const auto keep = [&](const std::string& file, const BreakpointList& list) {
    for (const ListedBreakpoint& b : list.all()) out.push_back({file, b.text, b.enabled});
  };
  for (const auto& [file, list] : others_) keep(file, list);
  keep(file_, list_);
  return out;
}

void DebugSession::restoreBreakpoints(const std::vector<Kept>& kept) {
  for (const Kept& k : kept) {
    BreakpointList& list = k.file == file_ ? list_ : others_[k.file];
    (void)list.add(k.text, k.enabled);  // of a later version: left out
  }
  changed();
}

const DebugMarks& DebugSession::marks(const std::shared_ptr<const ir::Graph>& graph) const {
  if (!marks_ || marked_ != graph) {
    marked_ = graph;
    marks_ = graph ? marksOf(*graph, list_.all(), stop_ ? &*stop_ : nullptr) : DebugMarks{};
  }
  return *marks_;
}

// --- values ---------------------------------------------------------------------------------------------------------------

void DebugSession::wantLook() {
  const ir::Graph* g = program();
  if (!debugger_ || g == nullptr) return;
  const Selection& s = workspace_.selection();
  LookRequest now = asked_;
  now.node = s.node != ir::kNone && std::find(g->order.begin(), g->order.end(), s.node) != g->order.end() ? s.node : ir::kNone;
  now.rank = s.rank < ranks() ? s.rank : -1;
  if (now.node != asked_.node) now.value.clear(), now.window.clear(), now.again = false;
  if (s.value != ir::kNone && static_cast<std::size_t>(s.value) < g->valueCount()) now.value = g->value(s.value).name;
  if (now.node == ir::kNone && now.value.empty()) {
    look_.reset();
    asked_ = now;
    return tell_(Topic::kDebug);
  }
  if (now == asked_ && (looking_ || (!want_look_ && look_ && look_->asked == now))) return;
  asked_ = now;
  want_look_ = true;
  pump();
}

void DebugSession::runLook() {
  want_look_ = false;
  looking_ = true;
  pause_ = {};
  workspace_.lanes().submit(kLane, [this, held = debugger_, what = asked_, stop = pause_](const JobContext& context) -> std::function<void()> {
    held->serve(context, stop);
    auto out = attempt<NodeLook>([&](DiagnosticSink&) { return lookAt(*held->debugger, what, stop); });
    return [this, out] {
      looking_ = false;
      if (out->value) look_ = std::make_shared<const NodeLook>(std::move(*out->value));
      else if (out->error->code == "cancelled") want_look_ = !commands_.empty();
      changed();
      pump();
    };
  });
  changed();
}

void DebugSession::chooseValue(const std::string& name) {
  if (asked_.value == name) return;
  asked_.value = name;
  asked_.window.clear();
  asked_.again = false;
  want_look_ = true;
  pump();
}

void DebugSession::lookAtRank(int rank) {
  Selection s = workspace_.selection();
  s.rank = rank;
  workspace_.select(s);
}

void DebugSession::lookAtWindow(const std::string& ranges) {
  if (asked_.window == ranges) return;
  asked_.window = ranges;
  want_look_ = true;
  pump();
}

void DebugSession::setCompare(bool on) {
  if (asked_.compare == on) return;
  asked_.compare = on;
  want_look_ = true;
  pump();
}

void DebugSession::computeAgain() {
  asked_.again = true;
  want_look_ = true;
  pump();
}

}  // namespace spscope::ui
