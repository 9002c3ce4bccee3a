// SPDX-License-Identifier: Apache-2.0
#include "core/session/bisect.h"

#include <algorithm>
#include <map>

#include "core/ir/sp_ops.h"
#include "core/torch/capture.h"
#include "passes/sequence/shard_sequence.h"

namespace spscope::session {
namespace {

/// The part of a stage that can run: all of it, but for sums over the ranks that are not lowered yet and what follows from them.
/// Null where other redistributions are not lowered.
std::shared_ptr<const ir::Graph> runnable(const std::shared_ptr<const ir::Graph>& graph) {
  if (graph->form == ir::Form::kPlanned) return nullptr;
  std::vector<bool> lacking(graph->valueCount(), false);
  auto part = std::make_shared<ir::Graph>(*graph);
  part->order.clear();
  for (const ir::NodeId id : graph->order) {
    const ir::Node& n = graph->node(id);
    bool left_out = n.op == ir::sp::kRedistribute;
    if (left_out && !graph->value(ir::useArg(n, "self")).placement.isPartial()) return nullptr;
    ir::forEachUse(n, [&](const ir::Use& use) { left_out = left_out || lacking[static_cast<std::size_t>(use.value)]; });
    if (!left_out) part->order.push_back(id);
    for (const ir::ValueId v : n.outputs)
      if (left_out && v != ir::kNone) lacking[static_cast<std::size_t>(v)] = true;
  }
  std::erase_if(part->outputs, [&](const ir::Output& out) { return out.value != ir::kNone && lacking[static_cast<std::size_t>(out.value)]; });
  return part;
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
    const auto [it, fresh] = classes.try_emplace(passes::rankClass(*planned.graph, rank));
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
    BisectStage judged;
    judged.pass = stage.pass;
    out.suspects.push_back(stage.pass);
    if (runnable(stage.of_rank.front())) {
      request.report(stage.pass);
      Sides here = sides;
      here.programs.clear();
      for (const auto& of_rank : stage.of_rank) here.programs.push_back(runnable(of_rank));
      here.unsettled = !settled;
      here.values = !settled;
      SP_ASSIGN(const ValueComparison comparison, compareValues(here, request));
      judged.equal = comparison.equal;
      judged.loss_rel = comparison.loss_rel;
      judged.grad_rel_max = comparison.grad_rel_max;
      judged.judged_by = !settled ? "values" : comparison.gradients ? "loss and gradients" : "loss";
      if (judged.equal) out.suspects.clear();
    }
    out.stages.push_back(judged);
    if (judged.judged_by.empty() || judged.equal) continue;
    out.pass = stage.pass;
    return out;
  }
  out.suspects.clear();
  return out;
}

}  // namespace spscope::session
