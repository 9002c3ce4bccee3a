// SPDX-License-Identifier: Apache-2.0
#include "core/session/compile_shared.h"

#include <algorithm>
#include <set>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/sp_ops.h"
#include "core/session/accumulation.h"
#include "core/torch/capture.h"
#include "core/torch/rule_check.h"
#include "passes/memory/op_cost.h"
#include "passes/memory/replay_plan.h"
#include "passes/memory/save_policy.h"

namespace spscope::session {

using ir::NodeId;
using ir::ValueId;

namespace {

std::string sourceOf(const ir::Node& n) { return n.location ? n.location->source : std::string(); }

void countSaved(const ir::Graph& graph, CompileFigures& out) {
  // Values that a backward node reads and a forward node made, each storage once; inputs are there anyway.
  std::vector<bool> forward_made(graph.valueCount(), false);
  std::set<ValueId> storages;
  for (NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    if (n.phase == ir::Phase::kForward) {
      for (ValueId v : n.outputs)
        if (v != ir::kNone) forward_made[static_cast<std::size_t>(v)] = true;
      continue;
    }
    ir::forEachUse(n, [&](const ir::Use& use) {
      if (!forward_made[static_cast<std::size_t>(use.value)]) return;
      const ir::Value& v = graph.value(use.value);
      const ValueId owner = v.storage == ir::kNone ? v.id : v.storage;
      if (graph.value(owner).producer != ir::kNone) storages.insert(owner);
    });
    if (n.phase != ir::Phase::kRecompute) continue;
    ++out.recomputed_nodes;
    out.recomputed_views += std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v == ir::kNone || graph.value(v).storage != ir::kNone; });
    out.recomputed_collectives += ir::isCollective(n.op);
    out.recomputed_attention += ir::isAttention(n.op);
    out.recomputed_matmul += passes::isMatmul(n.op);
  }
  out.saved_tensors = static_cast<std::int64_t>(storages.size());
}

void listLargest(const ir::Graph& graph, CompileFigures& out) {
  std::vector<std::pair<std::string, std::int64_t>> all;
  for (NodeId id : graph.order)
    for (ValueId v : graph.node(id).outputs)
      if (v != ir::kNone && graph.value(v).storage == ir::kNone)
        all.emplace_back(graph.node(id).name, std::max(graph.value(v).storage_bytes, graph.value(v).localBytes()));
  const std::size_t n = std::min<std::size_t>(10, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n), all.end(),
                    [](const auto& a, const auto& b) { return a.second > b.second; });
  all.resize(n);
  out.largest_values = std::move(all);
}

CompileFigures figuresOf(const passes::Compiled& compiled, const CompileRequest& what, const ir::OpServices& services) {
  const passes::Settings& settings = what.settings;
  CompileFigures out;
  const ir::Graph* graph = nullptr;
  const passes::LivenessOptions options = passes::livenessOptions(settings, &services);
  std::optional<passes::StepModel> model;  // of the program with the highest peak
  for (std::size_t i = 0; i < compiled.programs.size(); ++i) {
    passes::StepModel here(*compiled.programs[i], options, passes::nominalRates("cpu"));
    passes::MemoryCurve curve = passes::curveInOrder(here, compiled.programs[i]->order, true);
    if (graph && curve.peak <= out.memory.peak) continue;
    graph = compiled.programs[i].get();
    out.program = static_cast<int>(i);
    out.memory = std::move(curve);
    model = std::move(here);
  }
  if (!graph) return out;
  if (what.allocator) {
    const passes::AllocationTrace trace = passes::allocationTrace(*model, options);
    out.reserved = passes::replay(trace, *what.allocator);
    out.reserved->least = passes::leastCapacity(trace, *out.reserved, what.allocator->expandable);
  }
  out.collectives = passes::collectiveTotals(*graph);
  out.collectives_fused = passes::collectiveTotals(*graph, true);
  if (settings.zero != 0 && settings.ranks() > 1) {  // the parameters, after the update
    passes::CollectiveTotal gather;
    gather.kind = "all_gather";
    for (const ir::Input& input : graph->inputs)
      if (input.trainable) {
        const ir::Value& v = graph->value(input.value);
        const std::int64_t mine = ir::shardBlocks(ir::numel(v.local), settings.ranks())[static_cast<std::size_t>(graph->rank)];
        ++gather.count;
        gather.bytes += mine * ir::sizeOf(v.dtype) * (settings.ranks() - 1);
      }
    for (auto* totals : {&out.collectives, &out.collectives_fused}) {
      const auto it = std::find_if(totals->begin(), totals->end(), [](const auto& t) { return t.kind == "all_gather"; });
      if (it == totals->end()) totals->insert(totals->begin(), gather);
      else it->count += gather.count, it->bytes += gather.bytes;
    }
  }
  for (const passes::StageRecord& stage : compiled.stages) {
    auto get = [&](const char* name) {
      const auto it = stage.statistics.find(name);
      return it == stage.statistics.end() ? std::int64_t{0} : it->second;
    };
    if (stage.name == "plan-sequence") {
      out.expected_all_to_all = get("expected_all_to_all");
    }
    if (stage.name == "plan-sequence" || stage.name == "plan-batch")
      for (const Diagnostic& d : stage.diagnostics)
        if (d.code == "gathered") out.gathers.push_back({d.node, d.source, d.message});
    if (stage.name == "insert-all-to-all") out.inserted_all_to_all = get("inserted_all_to_all");
  }
  countSaved(*graph, out);
  out.saved_bytes = out.memory.saved_bytes;
  listLargest(*graph, out);
  if (out.memory.peak_position >= 0) {
    const ir::Node& n = graph->node(graph->order[static_cast<std::size_t>(out.memory.peak_position)]);
    out.peak_node = n.name;
    out.peak_source = sourceOf(n);
  }
  return out;
}

/// What the compiled program does with loss and gradients, for the report.
std::string scalingOf(const Model& model, const passes::Settings& s) {
  std::string out = "one rank: loss and gradients as in the file";
  if (s.ranks() > 1 && s.dp == 1)
    out = strf("loss: local sums added over %d sequence ranks, divided by counts over the whole sequence; gradients: "
               "summed over the sequence ranks once, in the backward; nothing is divided by the number of ranks",
               s.sp);
  if (s.dp > 1)
    out = strf("loss: local sums added over %d x %d ranks (data x sequence), divided by counts over the global batch; gradients: "
               "summed over all ranks once, in the backward; nothing is divided by the number of ranks",
               s.dp, s.sp);
  if (s.zero != 0 && s.ranks() > 1) out += strf("; each rank keeps a %dth of that sum and of the optimizer", s.ranks());
  if (s.accumulate > 1) out += strf("; %d batches per step, ", s.accumulate) + BatchWeights::of(*model.graph).text();
  return out;
}

/// What leaves the step in parts: a metric made of it and of whole labels would mix the two.
void warnOfParts(const Model& model, const passes::Compiled& compiled, DiagnosticSink& diagnostics) {
  std::vector<const ir::Value*> whole;  // user outputs of the file, in order; the passes keep it
  for (const ir::Output& o : model.graph->outputs)
    if (o.kind == ir::OutputKind::kUser && o.value != ir::kNone) whole.push_back(&model.graph->value(o.value));
  const ir::Graph& planned = *compiled.planned;
  std::size_t i = 0;
  for (const ir::Output& o : planned.outputs) {
    if (o.kind != ir::OutputKind::kUser || o.value == ir::kNone) continue;
    const ir::Value& v = planned.value(o.value);
    const ir::Value* asked = i < whole.size() ? whole[i] : nullptr;
    ++i;
    const bool rows = asked != nullptr && asked->shape != v.shape;
    const bool tokens = v.placement.isSharded() && ir::axisSize(planned.mesh, ir::MeshAxis::kSequence) > 1;
    if (!rows && !tokens) continue;
    const std::string name = asked != nullptr ? asked->name : v.name;
    const ir::Node* n = v.producer == ir::kNone ? nullptr : &planned.node(v.producer);
    const std::string parts = tokens ? strf("its part of dimension %d", v.placement.dim) : "the rows of its replica";
    diagnostics.warn("output-in-parts", "the output %" + name + " leaves the step in parts, each rank has " + parts + (tokens && rows ? " of the rows of its replica" : "") +
                                            ": a metric made of it and of whole labels would mix local and whole",
                     n == nullptr ? "" : "%" + n->name, n == nullptr ? "" : sourceOf(*n));
  }
}

/// Batches whose losses are averaged though nothing says that they weigh the same.
void warnOfAveraging(const Model& model, const passes::Settings& s, DiagnosticSink& diagnostics) {
  if (s.accumulate == 1) return;
  const BatchWeights weights = BatchWeights::of(*model.graph);
  if (weights.rule() != BatchWeights::Rule::kEqual) return;
  std::string node, source;
  for (const ir::Output& o : model.graph->outputs)
    if (o.kind == ir::OutputKind::kLoss && o.value != ir::kNone && model.graph->value(o.value).producer != ir::kNone) {
      const ir::Node& n = model.graph->node(model.graph->value(o.value).producer);
      node = "%" + n.name, source = sourceOf(n);
      break;
    }
  diagnostics.warn("accumulate-averaged", strf("the losses of %d batches are averaged: the loss divides by no count of the inputs that could weigh them; batches with fewer "
                                               "valid tokens would weigh as much as the others", s.accumulate), node, source);
}

}  // namespace

Status checkSettings(const Model& model, const passes::Settings& s) {
  auto refuse = [](std::string_view code, std::string message, std::string legal) {
    Error e = makeError(code, std::move(message), Outcome::kUsage);
    e.legal = std::move(legal);
    return e;
  };
  if (s.sp < 1 || s.sp > 4096) return refuse("setting-sp", strf("--sp %d is no number of ranks that can be started", s.sp), "--sp 1 to 4096");
  if (s.dp < 1 || s.dp > 4096 / s.sp) return refuse("setting-dp", strf("--dp %d with --sp %d is no number of ranks that can be started", s.dp, s.sp), strf("--dp 1 to %d", 4096 / s.sp));
  if (s.zero != 0 && s.zero != 1) return refuse("setting-zero", strf("--zero %d is not known", s.zero), "--zero 0 or 1");
  if (s.accumulate < 1) return refuse("setting-accumulate", strf("--accumulate %d: a step takes at least one batch", s.accumulate), "--accumulate 1 or more");
  if (s.device != "cpu" && s.device != "cuda") return refuse("setting-device", "--device " + s.device + " is neither cpu nor cuda", "--device cpu or cuda");
  SP_TRY(passes::parseSavePolicy(s.save));
  if (s.optimizer != "adamw" && s.optimizer != "sgd") return refuse("setting-optimizer", "--optimizer " + s.optimizer + " is not known", "--optimizer adamw or sgd");
  (void)model;
  return {};
}

Status checkSharded(const CompileOutcome& compiled, int sp, bool allow_replicated) {
  if (compiled.sharded || sp == 1 || allow_replicated) return {};
  Error error = makeError("nothing-sharded", strf("none of the values could be sharded: %d ranks would all compute everything", sp));
  error.legal = "--sp 1, or --allow-replicated";
  return error;
}

namespace {

/// `verify`: the manager checks what passes do.
Result<CompileOutcome> compileWith(const Model& model, const CompileRequest& what, bool verify, passes::SharedStages* shared, const Request& request) {
  SP_TRY(checkSettings(model, what.settings));
  CompileOutcome out;
  SP_ASSIGN(const auto equivalents, exec::compileEquivalents(what.settings.rules));
  if (what.settings.rules && what.settings.ranks() > 1) SP_TRY(exec::checkRules(*model.graph, *what.settings.rules, *equivalents, request.cancel, *request.diagnostics));
  const std::unique_ptr<ir::OpServices> services = exec::makeOpServices(equivalents);
  passes::ManagerOptions options;
  options.progress = request.progress;
  options.keep_graphs = what.keep_graphs;
  options.reproducer_dir = what.reproducer_dir;
  options.verify = verify;
  const std::int64_t begin = monotonicNs();
  passes::Compiled compiled = passes::compileShared(model.graph, what.settings, *services, what.only_rank, options, request.cancel, shared);
  out.ns = monotonicNs() - begin;
  for (const passes::StageRecord& stage : compiled.stages)
    for (const Diagnostic& d : stage.diagnostics)
      if (d.severity == Severity::kWarning) request.diagnostics->warn(d.code, d.message, d.node, d.source, d.remedy);
  if (compiled.failure) {
    Error e = *compiled.failure;
    if (!compiled.reproducer.empty()) e.notes.push_back("reproduced by " + compiled.reproducer);
    if (what.partial != nullptr) *what.partial = std::move(compiled);
    return e;
  }
  // Stage 0 is the file as it was imported, so that each stage can be compared with where it all began.
  passes::StageRecord import;
  import.name = "import";
  import.ns = model.opened_ns;
  import.changed = true;
  import.nodes = static_cast<std::int64_t>(model.graph->order.size());
  import.changed_nodes = import.nodes;
  if (what.keep_graphs) import.graph = model.graph;
  compiled.stages.insert(compiled.stages.begin(), std::move(import));

  out.figures = figuresOf(compiled, what, *services);
  for (std::size_t i = 0; !out.sharded && i < compiled.planned->valueCount(); ++i)
    out.sharded = compiled.planned->value(static_cast<ValueId>(i)).placement.isSharded();
  out.scaling = scalingOf(model, what.settings);
  warnOfParts(model, compiled, *request.diagnostics);
  warnOfAveraging(model, what.settings, *request.diagnostics);
  out.compiled = std::move(compiled);
  return out;
}

}  // namespace

Result<CompileOutcome> compile(const Model& model, const CompileRequest& what, const Request& request) { return compileWith(model, what, true, nullptr, request); }

Result<CompileOutcome> compileShared(const Model& model, const CompileRequest& what, passes::SharedStages* shared, const Request& request) {
  return compileWith(model, what, false, shared, request);
}

}  // namespace spscope::session
