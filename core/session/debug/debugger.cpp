// SPDX-License-Identifier: Apache-2.0
// How a debugger is made, and how it moves.
#include "core/session/debug/debugger.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/session/debug/process_tape.h"
#include "core/session/debug/stage_nodes.h"
#include "core/session/debug/virtual_tape.h"
#include "core/session/verify.h"
#include "core/torch/threads.h"

namespace spscope::session::debug {
namespace {

/// "model.layers.0" of "model.layers.0.mlp".
std::string parentOf(const std::string& module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string::npos ? std::string() : module.substr(0, dot);
}

/// How often breakpoints were met and what they said, by move: moves that were put off may come to nothing.
class Tally {
 public:
  Tally(const std::vector<Breakpoint>& breakpoints, std::size_t moves) { rows_.push_back({moves, hitsOf(breakpoints), 0}); }
  void note(std::size_t moves, const std::vector<Breakpoint>& breakpoints, const std::vector<std::string>& log) {
    if (breakpoints.empty()) return;
    if (auto hits = hitsOf(breakpoints); hits != rows_.back().hits) rows_.push_back({moves, std::move(hits), log.size()});
  }
  void backTo(std::size_t moves, std::vector<Breakpoint>& breakpoints, std::vector<std::string>& log) {
    while (rows_.size() > 1 && rows_.back().moves > moves) rows_.pop_back();
    for (std::size_t i = 0; i < breakpoints.size(); ++i) breakpoints[i].hits = rows_.back().hits[i];
    log.resize(std::min(log.size(), rows_.back().logged));
  }

 private:
  struct Row {
    std::size_t moves = 0;
    std::vector<std::int64_t> hits;
    std::size_t logged = 0;
  };
  static std::vector<std::int64_t> hitsOf(const std::vector<Breakpoint>& breakpoints) {
    std::vector<std::int64_t> out;
    for (const Breakpoint& b : breakpoints) out.push_back(b.hits);
    return out;
  }
  std::vector<Row> rows_;
};

bool inside(const std::string& module, const std::string& of) { return of.empty() || module == of || module.starts_with(of + "."); }

}  // namespace

std::string_view reasonWord(StopReason reason) {
  static constexpr std::string_view kWords[] = {"start", "step", "reached", "breakpoint", "waits", "end", "failed", "paused"};
  return kWords[static_cast<std::size_t>(reason)];
}

Debugger::Debugger(Setup setup, const Request& request, std::unique_ptr<Tape> tape)
    : setup_(std::move(setup)), request_(request), life_(request.cancel), owned_tape_(std::move(tape)), tape_(*owned_tape_) {
  tape_.pauseWhen([this] { return wantsPause(); });
  for (const auto& program : setup_.sides.programs) {
    const auto known = std::find_if(sides_.begin(), sides_.end(), [&](const Side& s) { return s.graph == program.get(); });
    side_of_.push_back(static_cast<std::size_t>(known - sides_.begin()));
    if (known != sides_.end()) continue;
    Side s;
    s.graph = program.get();
    s.position = ir::positionsOf(*program);
    for (const ir::Input& input : program->inputs) {
      s.values.emplace(program->value(input.value).name, input.value);
      s.values.emplace(input.name, input.value);
    }
    for (const ir::NodeId id : program->order)
      for (const ir::ValueId v : program->node(id).outputs)
        if (v != ir::kNone) s.values.emplace(program->value(v).name, v);
    for (const ir::NodeId id : program->order) {
      const ir::Node& node = program->node(id);
      for (const ir::ValueId v : node.outputs)
        if (v != ir::kNone) s.values.emplace(node.name, v);
    }
    sides_.push_back(std::move(s));
  }
  outers_ = shardOuters(*setup_.sides.programs.front());
  mark();
}

Result<std::unique_ptr<Debugger>> Debugger::create(Setup setup, const Request& request) {
  std::unique_ptr<Tape> tape;
  if (setup.processes) {
    ProcessTape::Setup what{setup.sides.programs, *setup.processes, setup.sides.step};
    SP_ASSIGN(tape, ProcessTape::create(std::move(what), request));
  } else {
    VirtualTape::Setup what{setup.sides.programs, setup.sides.state, setup.sides.inputs, setup.sides.step, setup.sides.budget_bytes};
    what.step.cancel = request.cancel;
    SP_ASSIGN(tape, VirtualTape::create(std::move(what)));
  }
  return std::unique_ptr<Debugger>(new Debugger(std::move(setup), request, std::move(tape)));
}

Result<std::unique_ptr<Debugger>> Debugger::open(const Model& model, const passes::Settings& settings, const DataRequest& data, const Request& request,
                                                 std::int64_t budget_bytes, const RanksWanted& ranks) {
  SP_TRY(checkTransport(ranks.kind));
  exec::setThreads(settings.threads);
  CompileRequest what;
  what.settings = settings;
  request.report("compile");
  SP_ASSIGN(CompileOutcome outcome, compile(model, what, request));
  return open(model, std::make_shared<const CompileOutcome>(std::move(outcome)), settings, data, request, budget_bytes, ranks);
}

Result<std::unique_ptr<Debugger>> Debugger::open(const Model& model, std::shared_ptr<const CompileOutcome> compiled, const passes::Settings& settings,
                                                 const DataRequest& data, const Request& request, std::int64_t budget_bytes, const RanksWanted& ranks) {
  SP_TRY(checkTransport(ranks.kind));
  exec::setThreads(settings.threads);
  Setup setup;
  setup.compiled = std::move(compiled);
  setup.origin = Origin{std::make_shared<const Model>(model), settings, data};
  Sides& sides = setup.sides;
  SP_ASSIGN(sides.reference, compileUnsharded(model, settings, request));
  sides.programs = programsOf(setup.compiled->compiled);
  request.report("load weights");
  SP_ASSIGN(sides.state, loadState(model, data, request));
  SP_ASSIGN(sides.inputs, loadInputs(model, data, 0, request));
  sides.tolerance = exec::Tolerance::of(model.computing_dtype);
  sides.step.seed = data.seed;
  sides.budget_bytes = budget_bytes;
  if (ranks.kind != "virtual") {
    RunRequest& run = setup.processes.emplace();
    run.open = ranks.open;
    run.settings = settings;
    run.data = data;
    run.ranks = ranks.kind;
    run.timeout_seconds = ranks.timeout_seconds;
    run.program = ranks.program;
  }
  return create(std::move(setup), request);
}

Result<Bisection> Debugger::bisect() {
  if (!setup_.origin) return makeError("debug-no-origin", "the model that these programs were compiled from is not at hand", Outcome::kUsage);
  const Origin& from = *setup_.origin;
  SP_ASSIGN(const std::vector<StageGraphs> stages, stageGraphs(*from.model, from.settings, request_));
  SP_ASSIGN(Bisection found, session::bisect(stages, setup_.sides, request_));
  if (found.pass.empty()) return found;
  bool made_there = found.suspects.size() == 1;
  if (!made_there) {  // of a pass that is only the first in which it shows, no rewrite is to blame
    SP_ASSIGN(const ValueComparison where, compareValues(setup_.sides, request_));
    made_there = where.first && where.first->pass == found.pass;
  }
  if (made_there) {
    SP_ASSIGN(found.rewrite, bisectRewrites(from.settings, stages, found.pass, setup_.sides, request_));
  }
  return found;
}

NodeName Debugger::nameOf(int rank, const ir::Node& node) const {
  return debug::nameOf(node, side(rank).position[static_cast<std::size_t>(node.id)]);
}

NodeName Debugger::nameOf(int rank, std::size_t place) const {
  return nameOf(rank, graph(rank).node(graph(rank).order[place]));
}

Stop Debugger::stopAt(StopReason reason, std::int64_t moves, std::string message) const {
  Stop out;
  out.reason = reason;
  out.moves = moves;
  out.made = static_cast<std::int64_t>(tape_.moves());
  out.message = std::move(message);
  for (int r = 0; r < ranks(); ++r) {
    RankPlace place;
    place.rank = r;
    const ir::Node* node = tape_.next(r);
    place.ended = node == nullptr;
    if (node != nullptr) {
      place.collective = tape_.meets(r);
      place.next = nameOf(r, *node);
    }
    out.ranks.push_back(std::move(place));
  }
  if (tape_.done() && reason != StopReason::kBreakpoint) out.reason = StopReason::kEnd;
  if (out.node.empty() && !out.ranks.front().ended) out.node = out.ranks.front().next.name;
  return out;
}

Stop Debugger::where() const { return stopAt(tape_.moves() == 0 ? StopReason::kStart : StopReason::kStep, 0); }

Result<Stop> Debugger::advance(int rank, const Goal& reached, StopReason reason) {
  if (rank >= ranks()) return makeError("usage", strf("there is no rank %d: they are 0 to %d", rank, ranks() - 1), Outcome::kUsage);
  pause_ = false;  // asked for while nothing ran: nothing to pause
  const std::size_t made = tape_.moves();
  std::vector<std::string> log;
  Tally tally(breakpoints_, made);
  const auto complete = [&](Stop stop) {
    stop.moves = static_cast<std::int64_t>(tape_.moves()) - static_cast<std::int64_t>(made);
    stop.log = std::move(log);
    return stop;
  };
  const auto failed = [&](const Error& error) -> Result<Stop> {
    tally.backTo(tape_.moves(), breakpoints_, log);
    if (error.code == "debug-paused") return complete(stopAt(StopReason::kPaused, 0, "paused on request"));
    if (error.code == "cancelled" || tape_.lost()) return error;
    Stop stop = stopAt(error.code == "rank-waits" ? StopReason::kWaits : StopReason::kFailed, 0, error.message);
    if (rank >= 0) stop.rank = rank;
    if (!error.node.empty()) stop.node = error.node.substr(error.node.front() == '%' ? 1 : 0);
    if (stop.reason == StopReason::kFailed) stop.message = "[" + error.code + "] " + error.message + (error.notes.empty() ? "" : ", " + error.notes.front());
    return complete(std::move(stop));
  };
  const auto finish = [&](Stop stop) -> Result<Stop> {
    const auto whole = tape_.settle();
    if (!whole) return failed(whole.error());
    if (!*whole) return failed(makeError("debug-paused", "", Outcome::kNo));
    return complete(std::move(stop));
  };
  while (true) {
    if (wantsPause()) return finish(stopAt(StopReason::kPaused, 0, "paused on request"));
    if (tape_.done() || (rank >= 0 && tape_.next(rank) == nullptr)) return finish(stopAt(StopReason::kEnd, 0, "the step is over"));
    if (tape_.moves() % 64 == 63) request_.report("running", static_cast<std::int64_t>(tape_.places().front()), static_cast<std::int64_t>(graph(0).order.size()));
    const Places before = tape_.places();
    if (Status status = rank < 0 ? tape_.move() : tape_.move(rank); !status) {
      const auto whole = tape_.settle();  // what was put off came before it
      return failed(!whole ? whole.error() : !*whole ? makeError("debug-paused", "", Outcome::kNo) : status.error());
    }
    auto hit = breakAfter(before, log);
    if (!hit) return failed(hit.error());
    if (*hit) return finish(std::move(**hit));
    auto there = breakBefore(before, log);
    tally.note(tape_.moves(), breakpoints_, log);
    if (there) return finish(std::move(*there));
    if (reached(before)) return finish(stopAt(reason, 0));
  }
}

Result<Stop> Debugger::step(std::int64_t count, int rank) {
  return advance(rank, [&](const Places&) { return --count <= 0; }, StopReason::kStep);
}

Result<Stop> Debugger::next(int levels, int rank) {
  const int leader = std::max(rank, 0);
  const auto moduleOf = [&](const ir::Node* node) { return node != nullptr && node->location ? node->location->module_path : std::string(); };
  std::string module = moduleOf(tape_.next(std::min(leader, ranks() - 1)));
  for (int i = 0; i < levels; ++i) module = parentOf(module);
  return advance(rank, [&](const Places&) {
    const ir::Node* node = tape_.next(leader);
    return node == nullptr || module.empty() || !inside(moduleOf(node), module);
  }, StopReason::kStep);
}

std::set<ir::NodeId> Debugger::stageNodes(const Side& s, const NodeQuery& query) const {
  if (query.by != NodeQuery::By::kStage || compiled() == nullptr) return {};
  // Stages are on record for one class of ranks; another one's later nodes may have other ids.
  const bool on_record = !compiled()->compiled.stages.empty() && compiled()->compiled.stages.back().graph != nullptr &&
                         compiled()->compiled.stages.back().graph->rank == s.graph->rank;
  return on_record ? nodesOfStages(compiled()->compiled, query.pattern) : std::set<ir::NodeId>();
}

Result<std::vector<std::vector<bool>>> Debugger::placesOnSides(const NodeQuery& query) const {
  std::vector<std::vector<bool>> out;
  std::optional<Error> none;
  bool any = false;
  for (const Side& s : sides_) {
    auto places = placesOf(*s.graph, query, stageNodes(s, query));
    any = any || places.has_value();
    out.push_back(places ? std::move(*places) : std::vector<bool>(s.graph->order.size(), false));
    if (!places && !none) none = std::move(places).error();
  }
  if (!any) return std::move(*none);
  return out;
}

Result<Debugger::Goal> Debugger::goalOf(const NodeQuery& query, int rank) const {
  SP_ASSIGN(std::vector<std::vector<bool>> marks, placesOnSides(query));
  return Goal([this, marks = std::move(marks), rank](const Places& before) {
    for (int r = 0; r < ranks(); ++r) {
      const std::size_t at = tape_.places()[static_cast<std::size_t>(r)];
      const auto& of_side = marks[side_of_[static_cast<std::size_t>(r)]];
      if ((rank < 0 || r == rank) && at != before[static_cast<std::size_t>(r)] && at < of_side.size() && of_side[at]) return true;
    }
    return false;
  });
}

Result<Stop> Debugger::untilCollective(int rank) { return until({NodeQuery::By::kCollective, {}}, rank); }

Result<Stop> Debugger::until(const NodeQuery& query, int rank) {
  SP_ASSIGN(const Goal goal, goalOf(query, rank));
  return advance(rank, goal, StopReason::kReached);
}

Result<Stop> Debugger::resume(int rank) {
  return advance(rank, [](const Places&) { return false; }, StopReason::kStep);
}

Result<Stop> Debugger::back(std::int64_t count) {
  const auto made = static_cast<std::int64_t>(tape_.moves());
  const std::int64_t moves = std::clamp<std::int64_t>(count, 0, made);
  open_.clear();
  if (moves > 0 || tape_.lost()) SP_TRY(tape_.backTo(static_cast<std::size_t>(made - moves)));
  return stopAt(tape_.moves() == 0 ? StopReason::kStart : StopReason::kStep, -moves, moves < count ? "this is the beginning of the step" : "");
}

Result<Stop> Debugger::backTo(const NodeQuery& query) {
  SP_ASSIGN(const std::vector<std::vector<bool>> marks, placesOnSides(query));
  for (std::size_t index = tape_.moves(); index-- > 0;) {
    const Places& then = tape_.before(index);
    const Places& after = index + 1 < tape_.moves() ? tape_.before(index + 1) : tape_.places();
    for (std::size_t r = 0; r < then.size(); ++r) {
      const auto& of_side = marks[side_of_[r]];
      if (then[r] == after[r] || then[r] >= of_side.size() || !of_side[then[r]]) continue;
      SP_ASSIGN(Stop stop, back(static_cast<std::int64_t>(tape_.moves() - index)));
      if (stop.reason == StopReason::kStep) stop.reason = StopReason::kReached;
      return stop;
    }
  }
  return makeError("usage", query.text() + " has not run yet", Outcome::kUsage);
}

Result<std::vector<NodeName>> Debugger::find(const NodeQuery& query) const {
  SP_ASSIGN(const std::vector<bool> places, placesOf(graph(0), query, stageNodes(side(0), query)));
  std::vector<NodeName> out;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i]) out.push_back(nameOf(0, i));
  return out;
}

std::vector<NodeName> Debugger::around(int rank, std::int64_t before, std::int64_t after) const {
  const auto at = static_cast<std::int64_t>(tape_.places()[static_cast<std::size_t>(rank)]);
  const auto size = static_cast<std::int64_t>(graph(rank).order.size());
  std::vector<NodeName> out;
  for (std::int64_t i = std::max<std::int64_t>(0, at - before); i < std::min(size, at + after + 1); ++i) out.push_back(nameOf(rank, static_cast<std::size_t>(i)));
  return out;
}

std::vector<std::string> Debugger::names() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : sides_.front().values) out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace spscope::session::debug
