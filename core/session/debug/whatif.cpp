// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/whatif.h"

#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "core/session/value_map.h"
#include "core/session/verify.h"
#include "passes/sequence/tag_inputs.h"

namespace spscope::session::debug {
namespace {

using Kind = WhatIfQuestion::Kind;

const ir::Node* nodeNamed(const ir::Graph& g, const std::string& name) {
  for (const ir::NodeId id : g.order) {
    const ir::Node& n = g.node(id);
    if (n.name == name) return &n;
    for (const ir::ValueId v : n.outputs)
      if (v != ir::kNone && g.value(v).name == name) return &n;
  }
  return nullptr;
}

/// The node of the model from which a node of the program came: itself, or the nearest by provenance.
const ir::Node* originOf(const ir::Graph& model, const CompileOutcome& compiled, const ir::Graph& program, const ir::Node& node) {
  std::set<ir::NodeId> own(model.order.begin(), model.order.end()), seen{node.id};
  std::vector<ir::NodeId> now{node.forward != ir::kNone ? node.forward : node.id};
  const auto latest = [&](ir::NodeId id) -> const ir::Node* {
    if (static_cast<std::size_t>(id) < program.nodeCount() && program.node(id).id == id) return &program.node(id);
    for (auto stage = compiled.compiled.stages.rbegin(); stage != compiled.compiled.stages.rend(); ++stage)
      if (stage->graph && static_cast<std::size_t>(id) < stage->graph->nodeCount() && stage->graph->node(id).id == id) return &stage->graph->node(id);
    return nullptr;
  };
  while (!now.empty()) {
    std::vector<ir::NodeId> before;
    for (const ir::NodeId id : now) {
      if (own.contains(id)) return &model.node(id);
      const ir::Node* n = id < 0 ? nullptr : latest(id);
      if (n == nullptr) continue;
      for (const ir::NodeId from : n->provenance.from)
        if (seen.insert(from).second) before.push_back(from);
    }
    now = std::move(before);
  }
  return nullptr;
}

bool isView(const ir::Node& n) {
  static constexpr std::string_view kViews[] = {"view", "reshape", "transpose", "permute", "expand", "slice", "unsqueeze", "squeeze", "t", "_unsafe_view", "flatten", "unflatten", "select", "split", "chunk"};
  return std::find(std::begin(kViews), std::end(kViews), ir::baseName(n.op)) != std::end(kViews);
}

/// An activation checkpoint around the node and whatever reads it: what leaves a checkpoint may be kept, what is read inside only is made again.
void checkpoint(ir::Graph& g, ir::NodeId marked) {
  std::int32_t number = 1;
  for (const ir::NodeId id : g.order)
    if (g.node(id).location) number = std::max(number, g.node(id).location->checkpoint + 1);
  std::set<ir::ValueId> same;
  const auto mark = [&](ir::Node& n) {
    ir::Location location = n.location ? *n.location : ir::Location{};
    location.checkpoint = number;
    n.location = std::make_shared<const ir::Location>(std::move(location));
    n.must_save = false;
  };
  mark(g.node(marked));
  same.insert(g.node(marked).outputs.begin(), g.node(marked).outputs.end());
  for (const ir::NodeId id : g.order) {
    ir::Node& n = g.node(id);
    bool reads = false;
    ir::forEachUse(n, [&](const ir::Use& use) { reads = reads || same.contains(use.value); });
    if (!reads || id == marked) continue;
    mark(n);
    if (isView(n)) same.insert(n.outputs.begin(), n.outputs.end());
  }
}

/// What choose-saved decided of the value of a node, in words.
std::string keptWords(const CompileOutcome& outcome, const std::string& name) {
  const passes::Compiled& c = outcome.compiled;
  if (c.programs.empty() || c.memory.empty()) return {};
  const ir::Graph& g = *c.programs.front();
  const ir::Node* node = nodeNamed(g, name);
  if (node == nullptr) return {};
  for (const ir::ValueId v : node->outputs) {
    if (v == ir::kNone) continue;
    const ir::ValueId owner = g.value(v).storage == ir::kNone ? v : g.value(v).storage;
    for (const passes::ValueDecision& d : c.memory.front().values) {
      if (d.value != owner) continue;
      const char* what = d.decision == passes::Decision::kSave ? "saved: " : d.decision == passes::Decision::kRecompute ? "made again: " : "freed: ";
      return what + std::string(passes::reasonText(d.reason));
    }
  }
  return {};
}

WhatIfFigures figuresOf(const CompileOutcome& outcome, const std::string& joint_name, const std::string& planned_name) {
  WhatIfFigures out;
  const CompileFigures& f = outcome.figures;
  out.peak_bytes = f.memory.peak;
  out.saved_bytes = f.saved_bytes;
  for (const passes::CollectiveTotal& t : f.collectives_fused) out.comm_bytes += t.bytes, out.collectives += t.count;
  out.by_kind = f.collectives_fused;
  out.gathers = static_cast<std::int64_t>(f.gathers.size());
  const auto program = static_cast<std::size_t>(std::max(f.program, 0));
  if (program < outcome.compiled.memory.size()) {
    const passes::SavingPoint& choice = outcome.compiled.memory[program].choice();
    out.recompute_flops = choice.recompute_flops;
    out.recompute_nodes = choice.recompute_nodes;
  }
  if (program < outcome.compiled.programs.size()) out.nodes = static_cast<std::int64_t>(outcome.compiled.programs[program]->order.size());
  if (!joint_name.empty()) out.kept = keptWords(outcome, joint_name);
  if (!planned_name.empty() && outcome.compiled.planned) {
    const ir::Graph& g = *outcome.compiled.planned;
    if (const ir::Node* n = nodeNamed(g, planned_name); n != nullptr && !n->outputs.empty() && n->outputs.front() != ir::kNone) {
      out.placement = placementSentence(g.value(n->outputs.front()));
      // A mark moves it right behind its node: what the others read counts.
      for (const ir::NodeId id : g.order) {
        const ir::Node& user = g.node(id);
        if (user.op.str() == "sp.redistribute.default" && ir::useArg(user, "self") == n->outputs.front()) out.placement += "; to some of its readers " + placementSentence(g.value(user.outputs.front()));
      }
    }
  }
  return out;
}

/// The mark is one of `--sequence` below; who asks here has said nothing of that.
std::optional<Error> lacksDimension(const ir::Graph& g, ir::ValueId value, const WhatIfQuestion& question) {
  const int rank = value == ir::kNone ? 0 : static_cast<int>(g.value(value).shape.size());
  if (question.dim >= -rank && question.dim < rank) return std::nullopt;
  Error error = makeError("mark-dim", strf("%%%s has %d dims: there is no dim %d to shard", question.name.c_str(), rank, question.dim), Outcome::kUsage);
  if (rank > 0) error.legal = strf("whatif %%%s shard 0 to %d", question.name.c_str(), rank - 1);
  error.remedy = "Count the dimensions from 0; print shows the shape.";
  return error;
}

std::set<std::string> namesOf(const ir::Graph& g) {
  std::set<std::string> out;
  for (const ir::NodeId id : g.order) out.insert(g.node(id).name);
  return out;
}

}  // namespace

std::string WhatIfQuestion::text() const {
  switch (kind) {
    case Kind::kSave: return "%" + name + " save";
    case Kind::kRecompute: return "%" + name + " recompute";
    case Kind::kWhole: return "%" + name + " whole";
    case Kind::kShard: return "%" + name + strf(" shard %d", dim);
    case Kind::kPolicy: return "--save " + policy;
    case Kind::kRanks: return strf("--sp %d", ranks);
  }
  return {};
}

Result<WhatIf> whatIf(const WhatIfQuestion& question, const ir::Graph& program, const CompileOutcome& compiled, const Origin* origin, const Request& request) {
  SP_TRY(haveOrigin(origin));
  WhatIf out;
  out.question = question.text();
  Model changed = *origin->model;
  CompileRequest what;
  what.settings = origin->settings;
  what.keep_graphs = false;
  std::string joint_name, planned_name;
  if (question.kind == Kind::kPolicy) {
    what.settings.save = question.policy;
  } else if (question.kind == Kind::kRanks) {
    what.settings.sp = question.ranks;
  } else {
    const auto input = std::find_if(changed.graph->inputs.begin(), changed.graph->inputs.end(), [&](const ir::Input& i) { return i.name == question.name; });
    const ir::Node* node = input == changed.graph->inputs.end() ? nodeNamed(program, question.name) : nullptr;
    const ir::Node* own = node == nullptr ? nodeNamed(*changed.graph, question.name) : originOf(*changed.graph, compiled, program, *node);
    if (input == changed.graph->inputs.end() && node == nullptr && own == nullptr) {
      Error error = makeError("value-unknown", "neither the program nor the model has a value %" + question.name, Outcome::kUsage);
      const std::set<std::string> names = namesOf(program);
      if (const std::string near = nearest(question.name, {names.begin(), names.end()}); !near.empty()) error.legal = "%" + near;
      return error;
    }
    const bool saving = question.kind == Kind::kSave || question.kind == Kind::kRecompute;
    if ((own == nullptr && input == changed.graph->inputs.end()) || (saving && own == nullptr)) {
      Error error = makeError("whatif-no-node", "no node of the model stands behind %" + question.name + (own == nullptr && saving ? ": there is nothing to keep or to make again" : ""), Outcome::kNo);
      if (node != nullptr) error.notes.push_back("it was made by " + node->provenance.pass.str());
      return error;
    }
    out.marked = own != nullptr ? own->name : question.name;
    if (question.kind == Kind::kShard) out.refused = lacksDimension(*changed.graph, own == nullptr ? input->value : own->outputs.empty() ? ir::kNone : own->outputs.front(), question);
    if (own != nullptr && own->location) out.source = own->location->source;
    joint_name = question.name;
    planned_name = out.marked;
    if (saving) {
      ir::Graph graph = *changed.graph;
      if (question.kind == Kind::kSave) graph.node(own->id).must_save = true;
      else checkpoint(graph, own->id);
      changed.graph = std::make_shared<const ir::Graph>(std::move(graph));
    } else {
      // Of the default inputs a mark says what follows the sequence: the others keep their marks.
      what.settings.sequence_marks.emplace_back(out.marked, question.kind == Kind::kWhole ? passes::kWholeMark : question.dim);
      if (question.kind == Kind::kShard && origin->settings.sequence_marks.empty() && own != nullptr) {
        ir::Graph graph = *changed.graph;
        DiagnosticSink quiet;
        passes::tagInputs(graph, origin->settings, quiet);
        for (const ir::Input& i : graph.inputs) {
          const ir::Value& v = graph.value(i.value);
          for (std::size_t d = 0; d < v.factors.size(); ++d)
            for (const ir::Factor& f : v.factors[d])
              if (f.tag == ir::Tag::kSequence) what.settings.sequence_marks.emplace_back(i.name, static_cast<int>(d));
        }
      }
    }
  }
  out.now = figuresOf(compiled, joint_name, planned_name);
  if (out.refused) return out;
  DiagnosticSink quiet;  // its warnings are not this step's
  Request inner = request;
  inner.diagnostics = &quiet;
  request.report("compile with " + out.question);
  Result<CompileOutcome> other = compile(changed, what, inner);
  if (!other) {
    if (other.error().code == "cancelled") return std::move(other).error();
    out.refused = std::move(other).error();
    return out;
  }
  out.then = figuresOf(*other, joint_name, planned_name);
  const std::set<std::string> before = namesOf(program), after = namesOf(*programsOf(other->compiled).front());
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(out.added));
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(out.removed));
  return out;
}

}  // namespace spscope::session::debug
