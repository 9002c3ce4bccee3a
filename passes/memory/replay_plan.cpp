// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/replay_plan.h"

#include <algorithm>

#include "core/ir/sp_ops.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Emits the backward in order, each re-run chain on demand.
class Replayer {
 public:
  Replayer(const StepModel& model, const Decisions& decisions, Plan& plan)
      : model_(model), decisions_(decisions), plan_(plan), made_(model.graph().valueCount(), false) {}

  /// What was made of this storage, views too, is not there any more.
  void forget(std::int32_t storage) {
    for (const ir::ValueId value : made_values_)
      if (made_[at(value)] && model_.storageOf(value) == storage) made_[at(value)] = false;
  }

  void need(ir::ValueId value) {
    if (decisions_[at(model_.storageOf(value))] != Decision::kRecompute || made_[at(value)]) return;
    const std::int32_t place = model_.place_of[at(model_.graph().value(value).producer)];
    const StepNode& node = model_.nodes[at(place)];
    for (const ir::ValueId use : model_.usesOf(node)) need(use);
    plan_.entries.push_back({place, true});
    plan_.rerun_ns += node.cost.ns;
    plan_.rerun_flops += node.cost.flops;
    plan_.rerun_nodes += node.view ? 0 : 1;
    plan_.rerun_matmuls += node.cost.matmul ? 1 : 0;
    for (const ir::ValueId out : model_.outsOf(node)) {
      made_[at(out)] = true;
      made_values_.push_back(out);
    }
  }

 private:
  const StepModel& model_;
  const Decisions& decisions_;
  Plan& plan_;
  std::vector<bool> made_;
  std::vector<ir::ValueId> made_values_;
};

}  // namespace

namespace {

/// A view that the backward takes of what is made again, as the gradient of a product transposes its operand: it is made
/// on demand like the rest, so that its place does not decide when the chain behind it runs.
bool isViewOfRemade(const StepModel& model, const Decisions& decisions, const StepNode& node) {
  if (!node.view || node.outs_begin == node.outs_end) return false;
  for (const ir::ValueId out : model.outsOf(node))
    if (decisions[at(model.storageOf(out))] != Decision::kRecompute || model.storageAt(out).output) return false;
  return true;
}

/// Its results are communication buffers where they are not kept for the backward.
bool communicates(Symbol op) { return ir::isCollective(op) || op == ir::sp::kUnpack; }

}  // namespace

Decisions saveAll(const StepModel& model) {
  Decisions decisions(model.storages.size(), Decision::kFree);
  for (std::size_t s = 0; s < model.storages.size(); ++s)
    if (model.storages[s].forward && model.storages[s].used_after) decisions[s] = Decision::kSave;
  return decisions;
}

Plan planReplay(const StepModel& model, const Decisions& decisions, const std::vector<Drop>& drops) {
  Plan plan;
  plan.entries.reserve(model.nodes.size() + model.nodes.size() / 4);
  Replayer replayer(model, decisions, plan);
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const StepNode& node = model.nodes[i];
    if (!node.forward) {
      for (const Drop& drop : drops)
        if (drop.before == static_cast<std::int32_t>(i)) replayer.forget(drop.storage);
      if (isViewOfRemade(model, decisions, node)) continue;
      for (const ir::ValueId use : model.usesOf(node)) replayer.need(use);
    }
    plan.entries.push_back({static_cast<std::int32_t>(i), false});
  }

  // What only served values that are now made again goes: a sweep from the end over the originals' uses.
  std::vector<bool> live(model.graph().valueCount(), false);
  for (const ir::Output& output : model.graph().outputs)
    if (output.value != ir::kNone) live[at(output.value)] = true;
  std::vector<PlanEntry> kept;
  kept.reserve(plan.entries.size());
  for (auto entry = plan.entries.rbegin(); entry != plan.entries.rend(); ++entry) {
    const StepNode& node = model.nodes[at(entry->node)];
    bool needed = entry->rerun || node.outs_begin == node.outs_end || ir::isCollective(model.graph().node(node.id).op);
    for (const ir::ValueId out : model.outsOf(node)) needed = needed || live[at(out)];
    if (!needed) continue;
    const bool original_operands = node.forward && !entry->rerun;
    for (const ir::ValueId use : model.usesOf(node))
      if (original_operands || decisions[at(model.storageOf(use))] != Decision::kRecompute) live[at(use)] = true;
    kept.push_back(*entry);
  }
  std::reverse(kept.begin(), kept.end());
  plan.entries = std::move(kept);
  return plan;
}

MemoryCurve curveOf(const StepModel& model, const Plan& plan, const Decisions& decisions, bool by_class) {
  // Instances: each storage once as the original (its number), re-made storages after them.
  struct Instance {
    std::int64_t bytes = 0;
    std::int32_t last = -1;
    MemoryClass memory_class = MemoryClass::kTemporaries;
  };
  const std::size_t originals = model.storages.size();
  std::vector<Instance> instances(originals);
  std::vector<bool> crosses(originals, false);
  std::vector<std::int32_t> remade(originals, -1);
  std::vector<std::int32_t> pool;         // operands, then results made, of each entry
  std::vector<std::int32_t> uses_end, makes_end;
  pool.reserve(plan.entries.size() * 4);
  uses_end.reserve(plan.entries.size());
  makes_end.reserve(plan.entries.size());

  MemoryCurve curve;
  for (std::size_t e = 0; e < plan.entries.size(); ++e) {
    const PlanEntry& entry = plan.entries[e];
    const StepNode& node = model.nodes[at(entry.node)];
    const bool after = entry.rerun || !node.forward;
    const auto position = static_cast<std::int32_t>(e);
    for (const ir::ValueId use : model.usesOf(node)) {
      const std::int32_t storage = model.storageOf(use);
      std::int32_t instance = storage;
      if (after && decisions[at(storage)] == Decision::kRecompute) {
        instance = remade[at(storage)];
      } else if (after && model.storages[at(storage)].forward) {
        crosses[at(storage)] = true;
      }
      instances[at(instance)].last = position;
      pool.push_back(instance);
    }
    uses_end.push_back(static_cast<std::int32_t>(pool.size()));
    for (const ir::ValueId out : model.outsOf(node)) {
      if (!model.ownsStorage(out)) continue;
      const std::int32_t storage = model.storageOf(out);
      std::int32_t instance = storage;
      if (entry.rerun) {
        instance = static_cast<std::int32_t>(instances.size());
        instances.emplace_back();
        if (communicates(model.graph().node(node.id).op)) instances.back().memory_class = MemoryClass::kCommunication;
        remade[at(storage)] = instance;
      }
      instances[at(instance)].bytes = model.storages[at(storage)].bytes;
      instances[at(instance)].last = position;
      pool.push_back(instance);
    }
    makes_end.push_back(static_cast<std::int32_t>(pool.size()));
  }
  const auto end = static_cast<std::int32_t>(plan.entries.size());
  for (std::size_t s = 0; s < originals; ++s) {
    const StepStorage& storage = model.storages[s];
    if (storage.input || storage.output) instances[s].last = end;
    MemoryClass& memory_class = instances[s].memory_class;
    if (storage.input) {
      memory_class = MemoryClass::kParameters;
    } else if (storage.gradient) {
      memory_class = MemoryClass::kGradients;
    } else if (storage.forward && (crosses[s] || storage.output)) {
      memory_class = MemoryClass::kActivations;
      curve.saved_bytes += storage.bytes;
    } else if (storage.producer >= 0 && communicates(model.graph().node(model.nodes[at(storage.producer)].id).op)) {
      memory_class = MemoryClass::kCommunication;
    }
  }

  ClassBytes now{};
  now[at(static_cast<int>(MemoryClass::kParameters))] = model.resident_parameters;
  now[at(static_cast<int>(MemoryClass::kOptimizer))] = model.resident_optimizer;
  now[at(static_cast<int>(MemoryClass::kGradients))] = model.resident_gradients;
  curve.resident = model.resident_parameters + model.resident_optimizer + model.resident_gradients;
  std::int64_t total = curve.resident;
  curve.live.reserve(plan.entries.size());
  if (by_class) curve.by_class.reserve(plan.entries.size());
  const auto change = [&](MemoryClass memory_class, std::int64_t bytes) {
    now[at(static_cast<int>(memory_class))] += bytes;
    total += bytes;
  };
  std::int32_t begin = 0;
  for (std::size_t e = 0; e < plan.entries.size(); ++e) {
    const StepNode& node = model.nodes[at(plan.entries[e].node)];
    const auto position = static_cast<std::int32_t>(e);
    for (std::int32_t i = uses_end[e]; i < makes_end[e]; ++i)
      change(instances[at(pool[at(i)])].memory_class, instances[at(pool[at(i)])].bytes);
    change(MemoryClass::kCommunication, node.packing);
    change(MemoryClass::kWorkspace, node.workspace);
    curve.live.push_back(total);
    if (by_class) curve.by_class.push_back(now);
    if (total > curve.peak) {
      curve.peak = total;
      curve.peak_position = position;
      curve.at_peak = now;
    }
    curve.working_peak = std::max(
        curve.working_peak, total - curve.resident - (now[at(static_cast<int>(MemoryClass::kGradients))] - model.resident_gradients));
    change(MemoryClass::kCommunication, -node.packing);
    change(MemoryClass::kWorkspace, -node.workspace);
    for (std::int32_t i = begin; i < makes_end[e]; ++i) {
      Instance& instance = instances[at(pool[at(i)])];
      if (instance.last != position || instance.bytes == 0) continue;
      change(instance.memory_class, -instance.bytes);
      instance.bytes = 0;  // an operand used twice, or a result nobody uses, goes once
    }
    begin = makes_end[e];
  }
  return curve;
}

MemoryCurve curveInOrder(const StepModel& model, const std::vector<ir::NodeId>& order, bool by_class) {
  Plan plan;
  plan.entries.reserve(order.size());
  for (const ir::NodeId id : order) plan.entries.push_back({model.place_of[at(id)], false});
  return curveOf(model, plan, saveAll(model), by_class);
}

}  // namespace spscope::passes
