// SPDX-License-Identifier: Apache-2.0
#include "core/session/shrink.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/mask_rule.h"
#include "core/torch/capture.h"
#include "passes/memory/choose_saved.h"
#include "passes/memory/liveness.h"
#include "passes/memory/step_model.h"

namespace spscope::session {
namespace {

std::int64_t weightBytes(const ir::Graph& graph) {
  std::int64_t out = 0;
  for (const ir::Input& input : graph.inputs)
    if (input.kind != ir::InputKind::kUser) out += ir::numel(graph.value(input.value).shape) * ir::sizeOf(graph.value(input.value).dtype);
  return out;
}

const ir::Graph* stageOf(const passes::Compiled& compiled, std::string_view name) {
  for (const passes::StageRecord& stage : compiled.stages)
    if (stage.name == name) return stage.graph.get();
  return nullptr;
}

std::int64_t issued(const std::vector<passes::CollectiveTotal>& totals) {
  std::int64_t out = 0;
  for (const passes::CollectiveTotal& t : totals) out += t.count;
  return out;
}

Error planDiffers(const passes::PlanMatch& match, const char* stage) {
  Error e = makeError("twin-plan-differs", strf("after %s the plan of the reduced twin is not the real one's: nothing that runs on it would prove the real step", stage));
  if (!match.differences.empty()) {
    e.node = match.differences[0].node;
    e.source = match.differences[0].source;
  }
  for (const passes::PlanDifference& d : match.differences)
    e.notes.push_back((d.node.empty() ? "" : d.node + (d.twin.empty() || d.twin == d.node ? "" : ", " + d.twin + " in the twin") + ": ") + d.what);
  return e;
}

/// choose-saved for the twin: what the real step chose, at the same places.
passes::Pass savedAs(const passes::SavedPlaces& places) {
  passes::Pass pass = passes::chooseSaved();
  pass.run = [places](ir::Graph& graph, const passes::PassContext& context) -> Result<bool> {
    if (!passes::markPlaces(graph, places)) return makeError("internal", "the twin has other nodes than the step whose choice it takes over");
    const passes::StepModel model(graph, passes::livenessOptions(context.settings, context.services), passes::ratesOf(context.settings));
    SP_ASSIGN(const passes::Decisions decisions, passes::readDecisions(model));
    passes::markDecisions(graph, model, decisions);
    return true;  // every value of the forward has its mark now
  };
  return pass;
}

/// Compiles the twin's programs once more with the real step's choice. Replicas have pipelines of their own: not done for them.
Status takeOverSaved(const Twin& twin, const ir::Graph& chosen, CompileOutcome& compiled, const Request& request) {
  std::vector<passes::Pass> program = passes::programPasses();
  for (passes::Pass& pass : program)
    if (pass.info.name == "choose-saved") pass = savedAs(passes::savedPlaces(chosen));
  SP_ASSIGN(const std::vector<StageGraphs> stages, stageGraphs(*twin.model, twin.settings, request, passes::planningPasses(), program));
  passes::Compiled& out = compiled.compiled;
  out.programs.clear();
  for (std::size_t rank = 0; rank < stages.back().of_rank.size(); ++rank) {
    const auto& graph = stages.back().of_rank[rank];
    const auto it = std::find(out.programs.begin(), out.programs.end(), graph);
    out.class_of_rank[rank] = static_cast<int>(it - out.programs.begin());
    if (it == out.programs.end()) out.programs.push_back(graph);
  }
  return {};
}

std::int64_t recomputedNodes(const ir::Graph& graph) {
  return std::count_if(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) { return graph.node(id).phase == ir::Phase::kRecompute; });
}

/// Folded layers whose choice is not that of the layer left for them.
std::vector<std::string> otherwiseSaved(const ir::Graph& chosen, const std::map<std::string, std::string>& stands_for) {
  const passes::SavedPlaces places = passes::savedPlaces(chosen);
  std::vector<std::string> out;
  for (const auto& [layer, left] : stands_for) {
    const auto a = places.of_layer.find(layer), b = places.of_layer.find(left);
    if (a != places.of_layer.end() && b != places.of_layer.end() && a->second != b->second) out.push_back(layer);
  }
  return out;
}

/// How far masks look back: the largest offset that a rule of the plan compares by.
std::int64_t widestWindow(const ir::Graph& graph) {
  std::int64_t out = 0;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    if (n.op != ir::kMaskedAttention) continue;
    const auto numbers = ir::intListArg(n, "mask_rule");
    for (std::size_t i = 4; numbers && i < numbers->size(); i += 5) out = std::max(out, std::abs((*numbers)[i]));
  }
  return out;
}

/// A twin that did not get small is not started.
Status checkSize(const CompileOutcome& small, const ShrinkRequest& what, const ShrinkReport& r) {
  const std::int64_t need = small.figures.memory.peak * what.verify.settings.ranks();
  if (need <= what.most_bytes) return {};
  Error e = makeError("twin-too-large", strf("the reduced twin would still need %s for %d ranks, %s at most are allowed", formatBytes(need).c_str(), what.verify.settings.ranks(),
                                             formatBytes(what.most_bytes).c_str()));
  for (const passes::Dimension& d : r.dimensions)
    if (d.to == d.from && !d.kept_because.empty()) e.notes.push_back(strf("%s stays %lld: ", d.name.c_str(), static_cast<long long>(d.to)) + d.kept_because);
  return e;
}

void tellWhatIsOpen(const Model& model, const Twin& twin, const CompileOutcome& real, const CompileOutcome& small, ShrinkReport& r) {
  const auto ll = [](std::int64_t n) { return static_cast<long long>(n); };
  r.kept.push_back(strf("ranks %d x %d, every op, placement and collective: %lld of %lld nodes of the step against the twin's %lld", twin.settings.dp, twin.settings.sp, ll(r.step.compared), ll(r.step.nodes),
                        ll(r.step.twin_nodes)));
  r.kept.push_back("counts of heads and experts, q to key heads, what divides by the number of ranks and what does not, types, masks");
  if (r.saved_as_real) r.kept.push_back(strf("what the backward makes again: %lld nodes of the real step, %lld of the twin", ll(r.recomputed), ll(r.twin_recomputed)));
  for (const passes::Dimension& d : r.dimensions)
    if (d.name == "sequence" && d.to != d.from) r.not_kept.push_back(strf("positions from %lld to %lld, and the numbers that positional encodings have there", ll(d.to), ll(d.from - 1)));
  if (std::any_of(r.dimensions.begin(), r.dimensions.end(), [](const auto& d) { return d.to != d.from; }))
    r.not_kept.push_back("rounding of sums as long as the real ones, magnitudes of real activations");
  if (r.seeded) r.not_kept.push_back(model.imported->weightless ? "the weights: the file has none, they are random" : "the weights: random, as asked for");
  else if (r.twin_weights_bytes != r.weights_bytes) r.not_kept.push_back("the whole weights: the twin has the leading part of each");
  for (const passes::FoldedGroup& g : r.layers)
    if (g.kept != g.layers) r.not_kept.push_back(strf("%d of %d layers of %s, each the same as one that is there", g.layers - g.kept, g.layers, g.group.c_str()));
  if (!r.saved_as_real) r.not_kept.push_back("what the backward makes again: the twin chose by its own sizes");
  const std::int64_t a = issued(real.figures.collectives_fused), b = issued(small.figures.collectives_fused);
  if (a != b) r.not_kept.push_back(strf("which collectives are joined into one: %lld are issued, the twin issues %lld", ll(a), ll(b)));
  for (const ir::NodeId id : real.compiled.planned->order)
    if (real.compiled.planned->node(id).op == ir::kMaskedAttention) {
      r.not_kept.push_back("masks that depend on the inputs: the twin's inputs are made, one document without padding");
      break;
    }
  const std::int64_t window = widestWindow(*real.compiled.planned);
  for (const passes::Dimension& d : r.dimensions)
    if (d.name == "sequence" && window >= d.to && window < d.from) r.not_kept.push_back(strf("the mask's window of %lld: it reaches over all of the twin's %lld tokens", ll(window), ll(d.to)));
}

}  // namespace

Result<Twin> makeTwin(const Model& model, const passes::Settings& settings, const passes::NarrowLimits& limits, const Request& request) {
  Twin out;
  passes::Fold fold = passes::foldLayers(*model.graph);
  SP_ASSIGN(passes::Narrowed narrowed, passes::narrow(fold.graph, settings, model.imported->seq, model.imported->batch, limits, request.cancel));
  auto small = std::make_shared<Model>(model);
  auto imported = std::make_shared<io::ImportedModel>(*model.imported);
  imported->seq = narrowed.seq;
  imported->batch = narrowed.batch;
  small->graph = std::make_shared<const ir::Graph>(std::move(narrowed.graph));
  small->imported = std::move(imported);
  out.settings = settings;
  if (settings.seq != 0) out.settings.seq = narrowed.seq;
  if (settings.batch != 0) out.settings.batch = narrowed.batch;
  // Tiles of the loss and buckets in proportion to what goes into them.
  double tokens = 1, classes = 1;
  for (const passes::Dimension& d : narrowed.dimensions) {
    const double part = static_cast<double>(d.to) / static_cast<double>(d.from);
    if (d.name == "sequence" || d.name == "batch") tokens *= part;
    if (d.name == "vocabulary") classes = part;
  }
  const double weights = static_cast<double>(weightBytes(*small->graph)) / static_cast<double>(std::max<std::int64_t>(1, weightBytes(fold.graph)));
  out.settings.tile_bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(settings.tile_bytes) * tokens * classes));
  out.settings.bucket_bytes = static_cast<std::int64_t>(static_cast<double>(settings.bucket_bytes) * weights);
  out.model = std::move(small);
  out.dimensions = std::move(narrowed.dimensions);
  out.layers = std::move(fold.groups);
  out.stands_for = std::move(fold.stands_for);
  return out;
}

Status matchPlans(const passes::Compiled& real, const passes::Compiled& twin, const std::map<std::string, std::string>& stands_for, ShrinkReport& report) {
  report.forward = passes::comparePlans(*real.planned, *twin.planned, stands_for);
  if (!report.forward.matches()) return planDiffers(report.forward, "plan-sequence");
  if (real.programs.size() != twin.programs.size())
    return makeError("twin-plan-differs", strf("the ranks run %zu different programs, those of the reduced twin %zu", real.programs.size(), twin.programs.size()));
  const ir::Graph *a = stageOf(real, "shard-optimizer"), *b = stageOf(twin, "shard-optimizer");
  if (a == nullptr || b == nullptr) return makeError("internal", "a stage to compare is missing");
  report.step = passes::comparePlans(*a, *b, stands_for);
  if (!report.step.matches()) return planDiffers(report.step, "shard-optimizer");
  return {};
}

Result<ShrinkOutcome> verifyShrunk(const Model& model, const ShrinkRequest& what, const Request& request) {
  const auto usage = [](const char* message) { return makeError("usage", message, Outcome::kUsage); };
  if (what.verify.ranks != "virtual") return usage("--shrink proves with all ranks in this process: --ranks virtual");
  if (!what.verify.data.inputs.empty()) return usage("--shrink makes its own inputs: those of --inputs have the real sizes");
  if (!what.verify.grads_path.empty()) return usage("--grads writes gradients of the real sizes, --shrink has others");
  CompileRequest compile_request;
  compile_request.settings = what.verify.settings;
  request.report("compile");
  SP_ASSIGN(const CompileOutcome real, compile(model, compile_request, request));
  request.report("reduce");
  SP_ASSIGN(const Twin twin, makeTwin(model, what.verify.settings, what.limits, request));
  DiagnosticSink quiet;  // the real compilation has said it
  Request inner = request;
  inner.diagnostics = &quiet;
  inner.progress = {};
  compile_request.settings = twin.settings;
  SP_ASSIGN(CompileOutcome small, compile(*twin.model, compile_request, inner));

  ShrinkOutcome out;
  ShrinkReport& r = out.report;
  r.dimensions = twin.dimensions;
  r.layers = twin.layers;
  r.weights_bytes = weightBytes(*model.graph);
  r.twin_weights_bytes = weightBytes(*twin.model->graph);
  SP_TRY(matchPlans(real.compiled, small.compiled, twin.stands_for, r));
  SP_TRY(checkSize(small, what, r));

  const ir::Graph* chosen = stageOf(real.compiled, "choose-saved");
  if (chosen != nullptr && twin.settings.dp == 1 && twin.settings.zero == 0) {
    // Ranks with shorter shards may run other nodes than the rank whose choice is known: then the twin's own choice stays.
    const Status taken = takeOverSaved(twin, *chosen, small, inner);
    SP_TRY(request.cancel.check());
    r.saved_as_real = taken.has_value();
  }
  r.recomputed = recomputedNodes(*real.compiled.programs.front());
  r.twin_recomputed = recomputedNodes(*small.compiled.programs.front());

  VerifyRequest proof = what.verify;
  proof.settings = twin.settings;
  if (model.imported->weightless && !proof.data.seed_weights) proof.data.seed_weights = 0;
  r.seeded = proof.data.seed_weights.has_value();
  tellWhatIsOpen(model, twin, real, small, r);
  if (chosen != nullptr)
    if (const auto other = otherwiseSaved(*chosen, twin.stands_for); !other.empty())
      r.not_kept.push_back(strf("what %zu folded layers keep: it is not what the layer left for them keeps (%s)", other.size(), other.front().c_str()));
  SP_ASSIGN(out.proof, prove(*twin.model, proof, std::move(small), request));
  return out;
}

}  // namespace spscope::session
