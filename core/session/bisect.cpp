// SPDX-License-Identifier: Apache-2.0
#include "core/session/bisect.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/ir/mask_rule.h"
#include "core/ir/sp_ops.h"
#include "core/torch/capture.h"
#include "passes/faults/plant.h"
#include "passes/rewrite_count.h"
#include "passes/sequence/shard_sequence.h"

namespace spscope::session {
namespace {

/// The part of a stage that can run: all of it, but for what is not lowered yet (redistributions, attention by the rule of its mask) and
/// what follows from that.
struct Runnable {
  std::shared_ptr<const ir::Graph> part;  ///< null for a planned graph
  bool sums_left = false;       ///< over the ranks
  bool others_left = false;     ///< other redistributions, attention
};

Runnable runnable(const std::shared_ptr<const ir::Graph>& graph) {
  Runnable out;
  if (graph->form == ir::Form::kPlanned) return out;
  std::vector<bool> lacking(graph->valueCount(), false);
  auto part = std::make_shared<ir::Graph>(*graph);
  part->order.clear();
  for (const ir::NodeId id : graph->order) {
    const ir::Node& n = graph->node(id);
    const bool moves = n.op == ir::sp::kRedistribute;
    bool left_out = moves || n.op == ir::kMaskedAttention;
    if (left_out) (moves && graph->value(ir::useArg(n, "self")).placement.isPartial() ? out.sums_left : out.others_left) = true;
    ir::forEachUse(n, [&](const ir::Use& use) { left_out = left_out || lacking[static_cast<std::size_t>(use.value)]; });
    if (!left_out) part->order.push_back(id);
    else  // what it would read is looked at, so it must not die
      ir::forEachUse(n, [&](const ir::Use& use) {
        if (!lacking[static_cast<std::size_t>(use.value)] && graph->value(use.value).producer != ir::kNone) part->outputs.push_back({use.value, ir::OutputKind::kUser, ir::kNone});
      });
    for (const ir::ValueId v : n.outputs)
      if (left_out && v != ir::kNone) lacking[static_cast<std::size_t>(v)] = true;
  }
  std::erase_if(part->outputs, [&](const ir::Output& o) { return o.value != ir::kNone && lacking[static_cast<std::size_t>(o.value)]; });
  out.part = std::move(part);
  return out;
}

/// `settled`: sums over the ranks are where they belong; or there is one rank only.
Result<BisectStage> judge(const StageGraphs& stage, bool settled, const Sides& sides, const Request& request) {
  BisectStage out;
  out.pass = stage.pass;
  Sides here = sides;
  here.programs.clear();
  Runnable first;
  for (const auto& of_rank : stage.of_rank) {
    Runnable r = runnable(of_rank);
    if (!r.part) return out;
    here.programs.push_back(r.part);
    if (here.programs.size() == 1) first = std::move(r);
  }
  request.report(stage.pass);
  const bool whole = settled && !first.sums_left && !first.others_left;
  here.unsettled = !whole;
  here.values = !whole;
  SP_ASSIGN(const ValueComparison comparison, compareValues(here, request));
  out.equal = comparison.equal;
  out.loss_rel = comparison.loss_rel;
  out.grad_rel_max = comparison.grad_rel_max;
  out.judged_by = first.others_left ? "part of the values" : !whole ? "values" : comparison.gradients ? "loss and gradients" : "loss";
  return out;
}

void append(std::vector<StageGraphs>& out, const passes::PipelineResult& result) {
  for (const passes::StageRecord& stage : result.stages) out.push_back({stage.name, {stage.graph}});
}

}  // namespace

Result<std::vector<StageGraphs>> stageGraphs(const Model& model, const passes::Settings& settings, const Request& request,
                                             const std::vector<passes::Pass>& planning, const std::vector<passes::Pass>& program) {
  SP_ASSIGN(auto equivalents, exec::compileEquivalents(settings.rules));
  const std::unique_ptr<ir::OpServices> services = exec::makeOpServices(std::move(equivalents));
  passes::PassContext context{.settings = settings};
  context.services = services.get();
  context.cancel = request.cancel;
  const passes::ManagerOptions options;
  std::vector<StageGraphs> out{{"import", {model.graph}}};
  const passes::PipelineResult planned = passes::runPipeline(model.graph, planning, context, options);
  if (planned.failure) return *planned.failure;
  append(out, planned);

  std::map<std::string, std::vector<StageGraphs>> classes;
  std::vector<const std::vector<StageGraphs>*> of_rank;
  for (int rank = 0; rank < settings.sp; ++rank) {
    const auto [it, fresh] = classes.try_emplace(passes::rankClass(*planned.graph, rank) + passes::faultClass(settings, rank));
    of_rank.push_back(&it->second);
    if (!fresh) continue;
    context.rank = rank;
    const passes::PipelineResult compiled = passes::runPipeline(planned.graph, program, context, options);
    if (compiled.failure) return *compiled.failure;
    append(it->second, compiled);
  }
  for (std::size_t i = 0; i < of_rank.front()->size(); ++i) {
    StageGraphs stage{of_rank.front()->at(i).pass, {}};
    for (const auto* stages : of_rank) stage.of_rank.push_back(stages->at(i).of_rank.front());
    out.push_back(std::move(stage));
  }
  return out;
}

Result<Bisection> bisect(const std::vector<StageGraphs>& stages, const Sides& sides, const Request& request) {
  Bisection out;
  bool settled = true;  // of one device: nothing is to be summed
  for (const StageGraphs& stage : stages) {
    const ir::Graph& graph = *stage.of_rank.front();
    if (graph.form == ir::Form::kPlanned) settled = false;
    if (stage.pass == "parallelize-loss") settled = true;
    SP_ASSIGN(const BisectStage judged, judge(stage, settled, sides, request));
    out.suspects.push_back(stage.pass);
    if (judged.equal && judged.judged_by.starts_with("loss")) out.suspects.clear();  // values show what they show
    out.stages.push_back(judged);
    if (judged.judged_by.empty() || judged.equal) continue;
    out.pass = stage.pass;
    return out;
  }
  out.suspects.clear();
  return out;
}

Result<std::optional<RewriteBisection>> bisectRewrites(const passes::Settings& settings, const std::vector<StageGraphs>& stages, const std::string& pass,
                                                       const Sides& sides, const Request& request, const std::vector<passes::Pass>& planning,
                                                       const std::vector<passes::Pass>& program) {
  const auto at = std::find_if(stages.begin(), stages.end(), [&](const StageGraphs& s) { return s.pass == pass; });
  std::vector<passes::Pass> list = planning;
  list.insert(list.end(), program.begin(), program.end());
  const auto wanted = std::find_if(list.begin(), list.end(), [&](const passes::Pass& p) { return p.info.name == pass; });
  if (at == stages.end() || at == stages.begin() || wanted == list.end()) return std::optional<RewriteBisection>();
  const StageGraphs& before = *(at - 1);
  bool settled = true;
  for (auto stage = stages.begin(); stage <= at; ++stage) {
    if (stage->of_rank.front()->form == ir::Form::kPlanned) settled = false;
    if (stage->pass == "parallelize-loss") settled = true;
  }
  SP_ASSIGN(auto equivalents, exec::compileEquivalents(settings.rules));
  const std::unique_ptr<ir::OpServices> services = exec::makeOpServices(std::move(equivalents));
  passes::PassContext context{.settings = settings};
  context.services = services.get();
  context.cancel = request.cancel;
  passes::ManagerOptions options;
  options.verify = false;  // what is done in part need not hold all that the whole does

  RewriteBisection out;
  const auto judged = [&](std::int64_t limit) -> Result<BisectStage> {
    SP_TRY(request.cancel.check());
    StageGraphs stage{pass, {}};
    for (std::size_t rank = 0; rank < at->of_rank.size(); ++rank) {
      context.rank = static_cast<int>(rank);
      const passes::RewriteCount count(limit);
      const passes::PipelineResult result = passes::runPipeline(before.of_rank[before.of_rank.size() == 1 ? 0 : rank], {*wanted}, context, options);
      if (result.failure) return *result.failure;
      stage.of_rank.push_back(result.graph);
      if (std::ssize(count.nodes()) < out.applications) continue;
      out.applications = std::ssize(count.nodes());  // of the rank with the most: faults may be one rank's own
      if (limit > 0 && limit <= out.applications) out.node = count.nodes()[static_cast<std::size_t>(limit - 1)];
    }
    return judge(stage, settled, sides, request);
  };
  const auto differs = [](const BisectStage& s) { return !s.judged_by.empty() && !s.equal; };
  SP_ASSIGN(const BisectStage all, judged(std::numeric_limits<std::int64_t>::max()));
  if (!differs(all) || out.applications == 0) return std::optional<RewriteBisection>();
  out.judged_by = all.judged_by;
  SP_ASSIGN(const BisectStage none, judged(0));
  if (differs(none)) return std::optional(out);
  std::int64_t right = 0, wrong = out.applications;
  while (wrong - right > 1) {
    const std::int64_t middle = right + (wrong - right) / 2;
    SP_ASSIGN(const BisectStage some, judged(middle));
    if (differs(some)) wrong = middle, out.judged_by = some.judged_by;
    else right = middle;
  }
  SP_TRY(judged(wrong));
  out.application = wrong;
  return std::optional(out);
}

}  // namespace spscope::session
