// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/saving_rules.h"

#include "core/ir/rng_ops.h"
#include "core/ir/sp_ops.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int32_t checkpointOf(const ir::Node& node) { return node.location ? node.location->checkpoint : 0; }

/// Adds up the nodes that a storage needs run again, each once.
class ChainCost {
 public:
  ChainCost(const StepModel& model, const Decisions& decisions)
      : model_(model), decisions_(decisions), seen_(model.nodes.size(), -1) {}

  std::int64_t of(std::int32_t storage) {
    const std::int32_t chain = next_++;
    std::int64_t ns = 0;
    std::vector<std::int32_t> open{model_.storages[at(storage)].producer};
    seen_[at(open[0])] = chain;
    while (!open.empty()) {
      const StepNode& node = model_.nodes[at(open.back())];
      open.pop_back();
      ns += node.cost.ns;
      for (const ir::ValueId use : model_.usesOf(node)) {
        const std::int32_t s = model_.storageOf(use), producer = model_.storages[at(s)].producer;
        if (producer < 0 || decisions_[at(s)] == Decision::kSave || seen_[at(producer)] == chain) continue;
        seen_[at(producer)] = chain;
        open.push_back(producer);
      }
    }
    return ns;
  }

 private:
  const StepModel& model_;
  const Decisions& decisions_;
  std::vector<std::int32_t> seen_;
  std::int32_t next_ = 0;
};

}  // namespace

std::string_view reasonText(SavingReason reason) {
  switch (reason) {
    case SavingReason::kNone: return "";
    case SavingReason::kNotNeeded: return "not needed by the backward";
    case SavingReason::kSaveAll: return "the backward needs it, and this policy makes nothing again";
    case SavingReason::kRandom: return "draws random numbers: never run again";
    case SavingReason::kCollective: return "an exchange between ranks: runs once";
    case SavingReason::kUserSave: return "marked by the user: must be saved";
    case SavingReason::kUnknownOp: return "an op not known to give the same result twice";
    case SavingReason::kAttention: return "fused attention: runs once";
    case SavingReason::kConvolution: return "a convolution: runs once";
    case SavingReason::kCrossesLayer: return "one layer hands it to another: chains stop there";
    case SavingReason::kShort: return "does not grow with the sequence";
    case SavingReason::kGraphOutput: return "an output of the graph: stays anyway";
    case SavingReason::kCut: return "making it again costs more than its bytes are worth";
    case SavingReason::kNotInList: return "PyTorch: not in the list of recomputable ops";
    case SavingReason::kReduction: return "PyTorch: a reduction, under a quarter of its operands";
    case SavingReason::kMaterialized: return "PyTorch: read in the backward by an op that does not fuse";
    case SavingReason::kUsedFarApart: return "PyTorch: an operand is read before and after an op that does not fuse";
    case SavingReason::kLongChain: return "PyTorch: a chain of more than 100 fusible nodes";
    case SavingReason::kLightest: return "PyTorch: the lightest place to cut";
    case SavingReason::kUserCheckpoint: return "inside an activation checkpoint of the user";
    case SavingReason::kInsideLayer: return "inside a layer: made again from what layers hand on";
    case SavingReason::kCheaper: return "its bytes are worth more than making it again costs";
    case SavingReason::kFusible: return "PyTorch: fusible ops behind a lighter place to cut";
  }
  return "";
}

SavingReason whyNeverAgain(const ir::Node& node) {
  static const Symbol kDropout{"dropout_p"};
  if (ir::isRandom(node.op) || ir::doubleArg(node, kDropout, 0) > 0) return SavingReason::kRandom;
  if (ir::isCollective(node.op)) return SavingReason::kCollective;
  if (node.must_save) return SavingReason::kUserSave;
  // An op that we know nothing of may have state or effects. Redistributions without traffic are only copies.
  const bool known = node.op.str().rfind("aten.", 0) == 0 || ir::isAttention(node.op) || node.op == ir::sp::kSlice || node.op == ir::sp::kVary ||
                     ir::rng::isRng(node.op);  // drawn by position: the same again
  return known ? SavingReason::kNone : SavingReason::kUnknownOp;
}

bool mayRunInLayer(const ir::Node& node) {
  const SavingReason never = whyNeverAgain(node);
  return never == SavingReason::kNone || never == SavingReason::kCollective;
}

std::vector<bool> insideLayers(const StepModel& model, const Layers& layers, const std::vector<HandedOn>& handed_on) {
  std::vector<bool> inside(model.storages.size(), false);
  for (std::size_t s = 0; s < model.storages.size(); ++s) {
    const StepStorage& storage = model.storages[s];
    if (!storage.forward || storage.output) continue;
    const ir::NodeId maker = model.nodes[at(storage.producer)].id;
    inside[s] = layers.of[at(maker)] > 0 && mayRunInLayer(model.graph().node(maker));
  }
  for (const HandedOn& what : handed_on) inside[at(model.storageOf(what.base))] = false;
  return inside;
}

std::vector<bool> insideCheckpoints(const StepModel& model) {
  const ir::Graph& graph = model.graph();
  std::vector<std::int32_t> region(model.storages.size(), 0);
  bool any = false;
  for (std::size_t s = 0; s < model.storages.size(); ++s) {
    const StepStorage& storage = model.storages[s];
    if (storage.forward) region[s] = checkpointOf(graph.node(model.nodes[at(storage.producer)].id));
    any = any || region[s] != 0;
  }
  std::vector<bool> inside(model.storages.size(), false);
  if (!any) return inside;
  for (std::size_t s = 0; s < model.storages.size(); ++s) inside[s] = region[s] != 0 && !model.storages[s].output;
  for (const StepNode& step : model.nodes) {
    if (!step.forward) continue;
    const std::int32_t reader = checkpointOf(graph.node(step.id));
    for (const ir::ValueId use : model.usesOf(step)) {
      const std::size_t s = at(model.storageOf(use));
      if (region[s] != reader) inside[s] = false;
    }
  }
  return inside;
}

Decisions decideByNeed(const StepModel& model, const std::vector<bool>& keep) {
  Decisions decisions(model.storages.size(), Decision::kFree);
  std::vector<std::int32_t> open;
  const auto need = [&](std::int32_t s) {
    const StepStorage& storage = model.storages[at(s)];
    Decision& decision = decisions[at(s)];
    if (!storage.forward || decision != Decision::kFree) return;
    const ir::Node& node = model.graph().node(model.nodes[at(storage.producer)].id);
    decision = keep[at(s)] || whyNeverAgain(node) != SavingReason::kNone ? Decision::kSave : Decision::kRecompute;
    if (decision == Decision::kRecompute) open.push_back(storage.producer);
  };
  for (std::size_t s = 0; s < model.storages.size(); ++s)
    if (model.storages[s].used_after) need(static_cast<std::int32_t>(s));
  while (!open.empty()) {
    const StepNode& node = model.nodes[at(open.back())];
    open.pop_back();
    for (const ir::ValueId use : model.usesOf(node)) need(model.storageOf(use));
  }
  return decisions;
}

std::vector<ValueDecision> explainSaving(const StepModel& model, const Decisions& decisions, const std::vector<SavingReason>& why,
                                         SavingReason kept, SavingReason remade) {
  const std::vector<bool> checkpointed = insideCheckpoints(model);
  ChainCost chain(model, decisions);
  std::vector<ValueDecision> out;
  for (const StepNode& step : model.nodes) {
    if (!step.forward) continue;
    for (const ir::ValueId value : model.outsOf(step)) {
      if (!model.ownsStorage(value)) continue;
      const std::int32_t s = model.storageOf(value);
      ValueDecision entry{step.id, value, decisions[at(s)], SavingReason::kNotNeeded, model.storages[at(s)].bytes, step.cost.ns};
      if (entry.decision != Decision::kFree) entry.recompute_ns = chain.of(s);
      if (entry.decision == Decision::kSave)
        entry.reason = model.storages[at(s)].output ? SavingReason::kGraphOutput : why[at(s)] != SavingReason::kNone ? why[at(s)] : kept;
      if (entry.decision == Decision::kRecompute) {
        const bool layered = why[at(s)] == SavingReason::kInsideLayer;
        entry.reason = checkpointed[at(s)] ? SavingReason::kUserCheckpoint : layered ? SavingReason::kInsideLayer : remade;
      }
      out.push_back(entry);
    }
  }
  return out;
}

}  // namespace spscope::passes
