// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/choose_saved.h"

#include <algorithm>

#include "passes/memory/price_search.h"
#include "passes/memory/save_policy.h"
#include "passes/memory/tags.h"
#include "passes/memory/torch_partition.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Puts a choice that the report's search did not find among those that it did, and takes it.
void addChoice(MemoryReport& report, SavingPoint point) {
  point.price = SavingPoint::kNoPrice;
  const auto place = std::find_if(report.points.begin(), report.points.end(), [&](const SavingPoint& p) { return p.recompute_ns < point.recompute_ns; });
  report.chosen = static_cast<int>(place - report.points.begin());
  report.points.insert(place, point);
}

/// The choice of a policy; `reported`: with the curve of what else there is and the reason for every value.
Result<SavingChoice> choose(const StepModel& model, const std::vector<bool>& long_values, const SavePolicy& policy, bool reported, const CancelToken& cancel) {
  using Kind = SavePolicy::Kind;
  SavingChoice choice;
  if (policy.kind == Kind::kBudget) {
    SP_ASSIGN(choice, searchBudget(model, long_values, policy.budget, cancel));
  } else if (policy.kind == Kind::kSac || reported) {
    SP_ASSIGN(choice, searchSaving(model, long_values, cancel));  // of layer-inputs, too: the curve that it stands beside
  }
  MemoryReport& report = choice.report;
  SavingReason kept = SavingReason::kCut, remade = SavingReason::kCheaper;
  if (policy.kind == Kind::kAll) {
    choice.decisions = SavingSolver(model, long_values, findSegments(model)).least();
    report.save_all = measureChoice(model, choice.decisions, &report.at_peak);
    report.chosen = -1;
    choice.rules.assign(model.storages.size(), SavingReason::kNone);
    kept = SavingReason::kSaveAll;
  } else if (policy.kind == Kind::kLayerInputs) {
    SP_ASSIGN(SavingChoice layered, searchSaving(model, long_values, cancel, SavingRules::kLayerInputs));
    choice.decisions = std::move(layered.decisions);
    choice.rules = std::move(layered.rules);
    choice.segments = layered.segments;
    choice.distinct_segments = layered.distinct_segments;
    report.save_all = layered.report.save_all;
    report.at_peak = layered.report.at_peak;
    addChoice(report, layered.report.choice());
  } else if (policy.kind == Kind::kMinCut) {
    TorchPartition partition = partitionLikeTorch(model);
    choice.decisions = std::move(partition.decisions);
    choice.rules = std::move(partition.rules);
    addChoice(report, measureChoice(model, choice.decisions, &report.at_peak));
    kept = SavingReason::kLightest;
    remade = SavingReason::kFusible;
  }
  if (reported) report.values = explainSaving(model, choice.decisions, choice.rules, kept, remade);
  return choice;
}

}  // namespace

bool markDecisions(ir::Graph& graph, const StepModel& model, const Decisions& decisions) {
  bool changed = false;
  std::vector<bool> used_after(graph.valueCount(), false);
  for (const StepNode& step : model.nodes)
    if (!step.forward)
      for (const ir::ValueId use : model.usesOf(step)) used_after[at(use)] = true;
  for (const StepNode& step : model.nodes) {
    if (!step.forward) continue;
    for (const ir::ValueId id : model.outsOf(step)) {
      ir::Keep keep = ir::Keep::kFreed;
      const StepStorage& storage = model.storageAt(id);
      const Decision decision = decisions[at(model.storageOf(id))];
      if (decision == Decision::kRecompute) {
        keep = ir::Keep::kRecompute;
      } else if (decision == Decision::kSave && (storage.base == id || used_after[at(id)])) {
        keep = ir::Keep::kSaved;
      }
      changed = changed || graph.value(id).keep != keep;
      graph.value(id).keep = keep;
    }
  }
  return changed;
}

Result<Decisions> readDecisions(const StepModel& model) {
  Decisions decisions = saveAll(model);
  for (std::size_t s = 0; s < model.storages.size(); ++s) {
    const StepStorage& storage = model.storages[s];
    if (model.graph().value(storage.base).keep != ir::Keep::kRecompute) continue;
    if (!storage.forward) {
      Error error = makeError("internal", "a value that the forward does not make is marked for recomputation");
      error.node = "%" + model.graph().value(storage.base).name;
      return error;
    }
    decisions[s] = Decision::kRecompute;
  }
  return decisions;
}

Pass chooseSaved() {
  Pass pass;
  pass.info.name = "choose-saved";
  pass.info.summary = "Chooses what the forward keeps for the backward and what is made again, by the predicted peak.";
  pass.info.statistics = {
      {"saved-bytes", "bytes that cross from forward to backward, parameters and inputs not counted"},
      {"saved-all-bytes", "the same when everything that backward uses is kept"},
      {"recomputed-nodes", "nodes that run again in the backward, views not counted"},
      {"recomputed-matmuls", "contractions among them"},
      {"recomputed-mflop", "millions of floating-point operations that run again"},
      {"predicted-peak-bytes", "predicted peak of the step"},
      {"working-peak-bytes", "the same without parameters, optimizer states and gradients"},
      {"choices", "different choices that were compared"},
      {"segments", "layers + 1 that were solved apart"},
      {"distinct-segments", "of different structure among them"}};
  pass.info.needs = ir::Form::kJoint;
  pass.info.ensures = ir::Form::kJoint;
  pass.checkLegal = [](const ir::Graph& graph, const PassContext& context) -> Status {
    SP_ASSIGN(const SavePolicy policy, parseSavePolicy(context.settings.save));
    if (policy.kind != SavePolicy::Kind::kLayerInputs || findLayers(graph).count > 0) return {};
    Error none = makeError("save-no-layers", "--save layer-inputs: no node of this model stands in a numbered module such as layers.0, so there are no layers whose inputs could be kept");
    none.legal = "--save all, sac, min-cut or budget=F";
    return none;
  };
  pass.run = [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
    SP_ASSIGN(const SavePolicy policy, parseSavePolicy(context.settings.save));
    const StepModel model(graph, livenessOptions(context.settings, context.services), ratesOf(context.settings));
    const std::vector<bool> long_values = findLongValues(graph);
    const bool searches = policy.kind == SavePolicy::Kind::kSac || policy.kind == SavePolicy::Kind::kBudget;
    if (searches && std::find(long_values.begin(), long_values.end(), true) == long_values.end())
      context.diagnostics->warn("nothing-long", "no value carries the sequence: nothing is recomputed");
    SP_ASSIGN(SavingChoice choice, choose(model, long_values, policy, context.memory != nullptr, context.cancel));
    choice.report.policy = context.settings.save;
    const SavingPoint& point = choice.report.choice();
    context.count("saved-bytes", point.saved_bytes);
    context.count("saved-all-bytes", choice.report.save_all.saved_bytes);
    context.count("recomputed-nodes", point.recompute_nodes);
    context.count("recomputed-matmuls", point.recompute_matmuls);
    context.count("recomputed-mflop", point.recompute_flops / 1000000);
    context.count("predicted-peak-bytes", point.peak_bytes);
    context.count("working-peak-bytes", point.working_peak);
    context.count("choices", std::max<std::int64_t>(1, static_cast<std::int64_t>(choice.report.points.size())));
    context.count("segments", choice.segments);
    context.count("distinct-segments", choice.distinct_segments);
    const bool changed = markDecisions(graph, model, choice.decisions);
    if (context.memory != nullptr) *context.memory = std::move(choice.report);
    return changed;
  };
  return pass;
}

}  // namespace spscope::passes
