// SPDX-License-Identifier: Apache-2.0
// How a debugger is made, and how it moves.
#include "core/session/debug/debugger.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/session/verify.h"
#include "core/torch/threads.h"

namespace spscope::session::debug {
namespace {

/// "model.layers.0" of "model.layers.0.mlp".
std::string parentOf(const std::string& module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string::npos ? std::string() : module.substr(0, dot);
}

bool inside(const std::string& module, const std::string& of) { return of.empty() || module == of || module.starts_with(of + "."); }

}  // namespace

std::string_view reasonWord(StopReason reason) {
  static constexpr std::string_view kWords[] = {"start", "step", "reached", "breakpoint", "waits", "end", "failed"};
  return kWords[static_cast<std::size_t>(reason)];
}

Debugger::Debugger(Setup setup, const Request& request, Tape tape) : setup_(std::move(setup)), request_(request), tape_(std::move(tape)) {
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
  Tape::Setup tape;
  tape.programs = setup.sides.programs;
  tape.state = setup.sides.state;
  tape.inputs = setup.sides.inputs;
  tape.step = setup.sides.step;
  tape.step.cancel = request.cancel;
  tape.budget_bytes = setup.sides.budget_bytes;
  SP_ASSIGN(Tape made, Tape::create(std::move(tape)));
  return std::unique_ptr<Debugger>(new Debugger(std::move(setup), request, std::move(made)));
}

Result<std::unique_ptr<Debugger>> Debugger::open(const Model& model, const passes::Settings& settings, const DataRequest& data, const Request& request,
                                                 std::int64_t budget_bytes) {
  exec::setThreads(settings.threads);
  CompileRequest what;
  what.settings = settings;
  request.report("compile");
  SP_ASSIGN(CompileOutcome outcome, compile(model, what, request));
  Setup setup;
  setup.compiled = std::make_shared<const CompileOutcome>(std::move(outcome));
  Sides& sides = setup.sides;
  SP_ASSIGN(sides.reference, compileUnsharded(model, settings, request));
  sides.programs = programsOf(setup.compiled->compiled);
  request.report("load weights");
  SP_ASSIGN(sides.state, loadState(model, data, request));
  SP_ASSIGN(sides.inputs, loadInputs(model, data, 0, request));
  sides.tolerance = exec::Tolerance::of(model.computing_dtype);
  sides.step.seed = data.seed;
  sides.budget_bytes = budget_bytes;
  setup.bisect = [model, settings](const Sides& of, const Request& asked) -> Result<Bisection> {
    SP_ASSIGN(const std::vector<StageGraphs> stages, stageGraphs(model, settings, asked));
    SP_ASSIGN(Bisection found, session::bisect(stages, of, asked));
    if (found.pass.empty()) return found;
    bool made_there = found.suspects.size() == 1;
    if (!made_there) {  // of a pass that is only the first in which it shows, no rewrite is to blame
      SP_ASSIGN(const ValueComparison where, compareValues(of, asked));
      made_there = where.first && where.first->pass == found.pass;
    }
    if (made_there) {
      SP_ASSIGN(found.rewrite, bisectRewrites(settings, stages, found.pass, of, asked));
    }
    return found;
  };
  return create(std::move(setup), request);
}

Result<Bisection> Debugger::bisect() {
  if (!setup_.bisect) return makeError("usage", "the programs of this debugger were not compiled here: there are no passes to go through", Outcome::kUsage);
  return setup_.bisect(setup_.sides, request_);
}

NodeName Debugger::nameOf(int rank, const ir::Node& node) const {
  NodeName out;
  out.name = node.name;
  out.op = node.op.str();
  if (node.location) out.module = node.location->module_path, out.source = node.location->source;
  out.phase = phaseWord(node.phase);
  out.place = side(rank).position[static_cast<std::size_t>(node.id)];
  return out;
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
      place.collective = tape_.ranks().meets(r);
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
  std::int64_t moves = 0;
  std::vector<std::string> log;
  const auto finish = [&](Stop stop) {
    stop.moves = moves;
    stop.log = std::move(log);
    return stop;
  };
  while (true) {
    if (tape_.done() || (rank >= 0 && tape_.next(rank) == nullptr)) return finish(stopAt(StopReason::kEnd, moves, "the step is over"));
    const Places before = tape_.places();
    if (Status status = rank < 0 ? tape_.move() : tape_.move(rank); !status) {
      const Error& error = status.error();
      if (error.code == "cancelled") return std::move(status).error();
      Stop stop = stopAt(error.code == "rank-waits" ? StopReason::kWaits : StopReason::kFailed, moves, error.message);
      if (rank >= 0) stop.rank = rank;
      if (!error.node.empty()) stop.node = error.node.substr(error.node.front() == '%' ? 1 : 0);
      if (stop.reason == StopReason::kFailed) stop.message = "[" + error.code + "] " + error.message + (error.notes.empty() ? "" : ", " + error.notes.front());
      return finish(std::move(stop));
    }
    ++moves;
    SP_ASSIGN(std::optional<Stop> hit, breakAfter(before, log));
    if (hit) return finish(std::move(*hit));
    if (auto there = breakBefore(before, log)) return finish(std::move(*there));
    if (reached(before)) return finish(stopAt(reason, moves));
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

Result<std::vector<std::vector<bool>>> Debugger::placesOnSides(const NodeQuery& query) const {
  std::vector<std::vector<bool>> out;
  std::optional<Error> none;
  bool any = false;
  for (const Side& s : sides_) {
    auto places = placesOf(*s.graph, query);
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
  if (moves > 0) SP_TRY(tape_.backTo(static_cast<std::size_t>(made - moves)));
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
  SP_ASSIGN(const std::vector<bool> places, placesOf(graph(0), query));
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
