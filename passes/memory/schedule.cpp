// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/schedule.h"

#include <algorithm>

#include "passes/memory/choose_saved.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Adds a copy of `original` that reads through `remade`, and notes its outputs there.
ir::NodeId repeatNode(ir::Graph& graph, ir::NodeId original, const StepModel& model, const Decisions& decisions,
                      std::vector<ir::ValueId>& remade) {
  static const Symbol kPass{"schedule"};
  const ir::NodeId id = graph.addNode(graph.node(original).op, graph.node(original).name);
  {
    const ir::Node& from = graph.node(original);
    ir::Node& node = graph.node(id);
    node.args = from.args;
    node.location = from.location;
    // A view that the backward takes of what is made again stays what it was: it repeats nothing of the forward.
    const bool repeats = from.phase == ir::Phase::kForward;
    node.phase = repeats ? ir::Phase::kRecompute : from.phase;
    node.forward = repeats ? original : from.forward;
    node.provenance.pass = kPass;
    node.provenance.from = {original};
    ir::forEachUse(node, [&](ir::Use& use) {
      if (remade[at(use.value)] != ir::kNone) use.value = remade[at(use.value)];
    });
  }
  const std::size_t outputs = graph.node(original).outputs.size();
  for (std::size_t i = 0; i < outputs; ++i) {
    const ir::ValueId old_id = graph.node(original).outputs[i];
    if (old_id == ir::kNone) {
      graph.node(id).outputs.push_back(ir::kNone);
      continue;
    }
    const ir::Value old = graph.value(old_id);
    const ir::ValueId fresh = graph.addOutput(id, old.dtype, old.shape);
    ir::Value& value = graph.value(fresh);
    value.requires_grad = old.requires_grad;
    value.factors = old.factors;
    value.placement = old.placement;
    value.local = old.local;
    value.storage_bytes = old.storage_bytes;
    // The storage of a view is made again before it: its base is known by now.
    if (old.storage != ir::kNone)
      value.storage = remade[at(old.storage)] != ir::kNone ? remade[at(old.storage)] : old.storage;
    if (decisions[at(model.storageOf(old_id))] == Decision::kRecompute) remade[at(old_id)] = fresh;
  }
  return id;
}

}  // namespace

int applyPlan(ir::Graph& graph, const StepModel& model, const Decisions& decisions, const Plan& plan) {
  std::vector<ir::ValueId> remade(graph.valueCount(), ir::kNone);  // of recomputed values: the latest copy
  std::vector<ir::NodeId> order;
  order.reserve(plan.entries.size());
  int added = 0;
  for (const PlanEntry& entry : plan.entries) {
    const StepNode& step = model.nodes[at(entry.node)];
    if (entry.rerun) {
      order.push_back(repeatNode(graph, step.id, model, decisions, remade));
      ++added;
      continue;
    }
    if (!step.forward)
      ir::forEachUse(graph.node(step.id), [&](ir::Use& use) {
        if (decisions[at(model.storageOf(use.value))] == Decision::kRecompute) use.value = remade[at(use.value)];
      });
    order.push_back(step.id);
  }
  graph.order = std::move(order);
  return added;
}

Pass schedule() {
  Pass pass;
  pass.info.name = "schedule";
  pass.info.summary = "Puts each node that runs again just before its first use in the backward; drops what is not needed.";
  pass.info.statistics = {{"nodes-added", "re-run nodes, views among them"},
                          {"nodes-removed", "forward nodes that nobody needs any more"},
                          {"predicted-peak-bytes", "predicted peak of the step"}};
  pass.info.needs = ir::Form::kJoint;
  pass.info.ensures = ir::Form::kJoint;
  pass.checkLegal = [](const ir::Graph&, const PassContext&) -> Status { return {}; };
  pass.run = [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
    const StepModel model(graph, livenessOptions(context.settings, context.services), ratesOf(context.settings));
    SP_ASSIGN(const Decisions decisions, readDecisions(model));
    MemoryCurve curve;
    const Plan plan = planTightly(model, decisions, &curve);
    const auto before = static_cast<std::int64_t>(graph.order.size());
    const int added = applyPlan(graph, model, decisions, plan);
    const std::int64_t removed = before + added - static_cast<std::int64_t>(graph.order.size());
    context.count("nodes-added", added);
    context.count("nodes-removed", removed);
    context.count("predicted-peak-bytes", curve.peak);
    return added > 0 || removed > 0;
  };
  return pass;
}

}  // namespace spscope::passes
