// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/seeded_faults.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"
#include "core/torch/compare.h"
#include "core/torch/value_compare.h"
#include "core/torch/virtual_ranks.h"
#include "passes/faults/plant.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

using ir::Graph;
using passes::Fault;

bool bitEqual(exec::TensorBag a, exec::TensorBag b) {
  if (a.entry(0).shape != b.entry(0).shape) return false;
  const auto x = a.bytesOf(a.entry(0).name), y = b.bytesOf(b.entry(0).name);
  return x && y && x->size() == y->size() && std::memcmp(x->data(), y->data(), x->size()) == 0;
}

/// The node of that name; or the one that makes the value of that name, where capturing made another node of it.
const ir::Node* nodeNamed(const Graph& g, const std::string& name) {
  for (const ir::NodeId id : g.order)
    if (g.node(id).name == name) return &g.node(id);
  for (const ir::NodeId id : g.order)
    for (const ir::ValueId v : g.node(id).outputs)
      if (v != ir::kNone && g.value(v).name == name) return &g.node(id);
  return nullptr;
}

/// The node of the program that does the planted one's work: itself; or, where a later pass merged it with what reads it, as a view of
/// a view, the first of these that is left. The stages tell.
const ir::Node* plantedIn(const Graph& program, const passes::Compiled& compiled, const std::string& planted) {
  if (const ir::Node* n = nodeNamed(program, planted)) return n;
  for (auto stage = compiled.stages.rbegin(); stage != compiled.stages.rend(); ++stage) {
    if (stage->graph == nullptr) continue;
    const Graph& g = *stage->graph;
    const ir::Node* gone = nodeNamed(g, planted);
    if (gone == nullptr) continue;
    std::set<ir::ValueId> its(gone->outputs.begin(), gone->outputs.end());
    for (const ir::NodeId id : g.order) {
      bool reads = false;
      ir::forEachUse(g.node(id), [&](const ir::Use& use) { reads = reads || its.contains(use.value); });
      if (!reads) continue;
      if (const ir::Node* n = nodeNamed(program, g.node(id).name)) return n;
      its.insert(g.node(id).outputs.begin(), g.node(id).outputs.end());
    }
  }
  return nullptr;
}

/// Whether all that is ever read of the value is its sum over the ranks.
bool isOnlySummed(const Graph& g, ir::ValueId v) {
  bool some = false, all = true;
  for (const ir::Output& out : g.outputs) all = all && out.value != v;
  for (const ir::NodeId id : g.order) {
    const ir::Node& n = g.node(id);
    bool reads = false;
    ir::forEachUse(n, [&](const ir::Use& use) { reads = reads || use.value == v; });
    if (!reads) continue;
    some = true;
    const bool view = n.outputs.size() == 1 && g.value(n.outputs[0]).storage != ir::kNone;
    all = all && (n.op == ir::sp::kAllReduce || n.op == ir::sp::kReduceScatter || (view && isOnlySummed(g, n.outputs[0])));
  }
  return some && all;
}

/// The value of the right program that the planted node's result stands for.
std::string standsFor(const Graph& g, const Graph& right_graph, const Fault& fault, const ir::Node* n, const std::map<std::string, exec::TensorBag>& right) {
  if (fault.kind == passes::FaultKind::kShiftLabels) {
    const ir::Node* cut = nodeNamed(right_graph, fault.node);
    return cut == nullptr ? "" : right_graph.value(cut->outputs[0]).name;
  }
  std::string name = g.value(n->outputs[0]).name;
  while (!right.contains(name)) {
    const ir::ValueId v = ir::useArg(*n, "self");
    if (v == ir::kNone) return {};
    name = g.value(v).name;
    if (right.contains(name) || g.value(v).producer == ir::kNone) break;
    n = &g.node(g.value(v).producer);
  }
  return name;
}

}  // namespace

std::string_view endingWord(Ending ending) {
  static constexpr std::string_view kWords[] = {"exact", "listed", "equivalent", "too small", "refused", "missed"};
  return kWords[static_cast<std::size_t>(ending)];
}

Result<std::unique_ptr<FaultBench>> FaultBench::open(const std::string& name, int ranks) {
  std::unique_ptr<FaultBench> out(new FaultBench);
  const Case what = caseOf(name, ranks);
  const session::Request request = out->request();
  session::OpenRequest open;
  open.path = what.path;
  open.dtype = ir::DType::kF64;
  SP_ASSIGN(out->model_, session::open(open, request));
  out->settings_.sp = ranks;
  out->settings_.communication = "plain";  // one collective is one node
  session::CompileRequest compile;
  compile.settings = out->settings_;
  SP_ASSIGN(out->right_, session::compile(*out->model_, compile, request));
  out->sites_ = session::faultSitesOf(out->right_.compiled, ranks);
  session::DataRequest data;
  data.inputs = what.inputs;
  SP_ASSIGN(out->sides_.state, session::loadState(*out->model_, data, request));
  SP_ASSIGN(out->sides_.inputs, session::loadInputs(*out->model_, data, 0, request));
  SP_ASSIGN(out->sides_.reference, session::compileUnsharded(*out->model_, out->settings_, request));
  out->sides_.tolerance = exec::Tolerance::of(out->model_->computing_dtype);
  out->sides_.programs = session::programsOf(out->right_.compiled);
  SP_ASSIGN(out->values_, out->valuesOf(out->sides_.programs, out->results_));
  for (const auto& [value, bag] : out->values_.front())
    if (const auto norm = exec::normOfValue(bag); norm && ir::isFloating(bag.entry(0).dtype)) out->norm_ = std::max(out->norm_, *norm);
  return out;
}

Result<FaultBench::Values> FaultBench::valuesOf(const std::vector<std::shared_ptr<const Graph>>& programs, std::vector<exec::StepResult>& results) const {
  const int size = settings_.sp;
  std::vector<std::shared_ptr<const exec::Program>> prepared;
  for (int r = 0; r < size; ++r) {
    SP_ASSIGN(auto program, exec::Program::prepare(programs[static_cast<std::size_t>(r)], {r, size, /*keep_values=*/true}));
    prepared.push_back(std::move(program));
  }
  SP_ASSIGN(auto ranks, exec::VirtualRanks::create(std::move(prepared)));
  SP_TRY(ranks.bind(sides_.state));
  SP_TRY(ranks.begin(sides_.inputs));
  while (!ranks.done()) SP_TRY(ranks.stepNode());
  Values out(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    const Graph& g = *programs[static_cast<std::size_t>(r)];
    const auto add = [&](ir::ValueId v) {
      if (v == ir::kNone) return;
      if (auto bag = ranks.value(r, v)) out[static_cast<std::size_t>(r)].emplace(g.value(v).name, std::move(*bag));
    };
    for (const ir::Input& in : g.inputs) add(in.value);
    for (const ir::NodeId id : g.order)
      for (const ir::ValueId v : g.node(id).outputs) add(v);
  }
  SP_ASSIGN(results, ranks.finish());
  return out;
}

Result<bool> FaultBench::sameResults(const std::vector<exec::StepResult>& now) const {
  for (std::size_t r = 0; r < now.size(); ++r) {
    if (!(exec::relativeError(now[r].loss, results_[r].loss) <= sides_.tolerance.loss)) return false;
    SP_ASSIGN(const auto gradients, exec::compareGradients(now[r].gradients, results_[r].gradients, sides_.tolerance.floor));
    if (!gradients.within(sides_.tolerance)) return false;
  }
  return true;
}

Result<bool> FaultBench::findsNothing() {
  SP_ASSIGN(const session::ValueComparison c, session::compareValues(sides_, request()));
  return c.equal && !c.first && c.compared > 0;
}

Result<Trial> FaultBench::run(const Fault& fault) {
  Trial out;
  SP_ASSIGN(out.fault, session::resolveFault(fault, sites_, right_.compiled, settings_.sp));
  session::CompileRequest compile;
  compile.settings = settings_;
  compile.settings.faults = {out.fault};
  const auto compiled = session::compile(*model_, compile, request());
  if (!compiled) {
    out.ending = Ending::kRefused;
    out.why = compiled.error().format();
    return out;
  }
  session::Sides sides = sides_;
  sides.programs = session::programsOf(compiled->compiled);
  std::vector<exec::StepResult> results;
  const auto wrong = valuesOf(sides.programs, results);
  if (!wrong) {
    out.ending = Ending::kRefused;
    out.why = wrong.error().format();
    return out;
  }

  // What the answer must be.
  bool differs = false, seen = false, only_summed = true;
  std::string planted_name = out.fault.planted;
  double largest = 0.0, absolute = 0.0;
  for (int r = 0; r < settings_.sp; ++r) {
    const auto& right = values_[static_cast<std::size_t>(r)];
    const auto& now = (*wrong)[static_cast<std::size_t>(r)];
    for (const auto& [name, value] : now)
      if (const auto it = right.find(name); it != right.end() && !bitEqual(value, it->second)) differs = true;
    const Graph& g = *sides.programs[static_cast<std::size_t>(r)];
    if (out.fault.rank >= 0 && out.fault.rank != r) continue;
    const ir::Node* planted = plantedIn(g, compiled->compiled, out.fault.planted);
    if (planted == nullptr) continue;
    seen = true;
    only_summed = only_summed && isOnlySummed(g, planted->outputs[0]);
    planted_name = planted->name;
    const std::string name = standsFor(g, *sides_.programs[static_cast<std::size_t>(r)], out.fault, planted, right);
    const auto it = right.find(name), got = now.find(g.value(planted->outputs[0]).name);
    if (it == right.end() || got == now.end()) {
      out.why = "the planted node's value stands for none of the right program";
      return out;
    }
    if (it->second.entry(0).shape != got->second.entry(0).shape) {  // a count that was one number and is another
      out.wanted_ranks.push_back(r);
      largest = 1.0;
      continue;
    }
    const auto difference = exec::compareValue({got->second}, it->second, {ir::PlacementKind::kReplicated});
    if (!difference) return difference.error();
    const double rel = difference->error / std::max(difference->norm, 1e-300);
    absolute = std::max(absolute, difference->error);
    if (difference->error > 0.0) largest = std::max(largest, rel);
    if (difference->error > 0.0 && !(rel <= sides.tolerance.gradient)) out.wanted_ranks.push_back(r);
  }
  if (!differs && largest == 0.0) {
    out.ending = Ending::kEquivalent;
    return out;
  }
  if (!seen) {
    out.why = "the planted node is in no program";
    return out;
  }
  SP_ASSIGN(const session::ValueComparison c, session::compareValues(sides, request()));
  // Its own value is right to what the comparison allows, or so small that it counts for nothing, or only the sum of it over the ranks
  // counts, and that is (the bias of keys moves no attention: its gradient is zero); and so are loss and gradients.
  bool same_results = false;
  if (c.equal) {
    SP_ASSIGN(same_results, sameResults(results));
  }
  const bool small = absolute <= sides.tolerance.gradient * sides.tolerance.floor * norm_ || only_summed;
  if (c.equal && same_results && (out.wanted_ranks.empty() || (!c.first && small))) {
    out.ending = Ending::kTooSmall;
    return out;
  }
  if (!c.first) {
    out.why = "nothing was found";
    return out;
  }
  out.node = c.first->node;
  out.pass = c.first->pass;
  out.ranks = c.first->ranks;
  // Tiled are keys and values: where the unsharded program makes the values first, theirs come first.
  const bool twin = out.fault.kind == passes::FaultKind::kTileHeads && out.node == out.fault.node + "_value_tiled";
  if (out.node == planted_name || twin) {
    const bool all = std::ssize(out.ranks) == settings_.sp && c.first->placement == "partial sum";  // its parts cannot be told apart
    if (out.ranks != out.wanted_ranks && !all) {
      out.why = "other ranks";
      return out;
    }
    if (out.pass == out.fault.pass) {
      out.ending = Ending::kExact;
      return out;
    }
  }  // a later pass changed the node, too: as where another node is named, --bisect tells
  const auto& beside = c.first->not_compared;
  if (out.node != planted_name && !twin && std::find(beside.begin(), beside.end(), planted_name) == beside.end()) {
    out.why = "another node; beside it " + join(beside, " ");
    return out;
  }
  session::Sides judged = sides_;
  SP_ASSIGN(const auto stages, session::stageGraphs(*model_, compile.settings, request()));
  SP_ASSIGN(const session::Bisection found, session::bisect(stages, judged, request()));
  out.pass = found.pass;
  const bool suspected = std::find(found.suspects.begin(), found.suspects.end(), out.fault.pass) != found.suspects.end();
  if (!suspected) out.why = "bisect names " + found.pass;
  else out.ending = Ending::kListed;
  return out;
}

Result<Trial> FaultBench::next(std::uint64_t seed, std::vector<Trial>& others) {
  for (std::uint64_t attempt = 0; attempt < 50; ++attempt) {
    Fault fault;
    fault.random = true;
    fault.seed = seed * 1000 + attempt;
    SP_ASSIGN(Trial trial, run(fault));
    if (trial.ending != Ending::kEquivalent && trial.ending != Ending::kTooSmall && trial.ending != Ending::kRefused) return trial;
    others.push_back(std::move(trial));
  }
  return makeError("internal", "no fault of this model makes a difference");
}

}  // namespace spscope::zoo
