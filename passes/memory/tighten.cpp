// SPDX-License-Identifier: Apache-2.0
// planTightly: a local search on top of the cut. The cut decides what is made again; it knows nothing of when. This
// looks at the peak itself and asks what lies there unused.
#include <algorithm>

#include "passes/memory/op_cost.h"
#include "passes/memory/replay_plan.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr int kMaxTrials = 24;
constexpr std::int64_t kWorthwhile = 500;  ///< what is less than this part of the peak is left alone

/// How high the peak is, and at how many places: fewer places at the same height is progress too.
struct Height {
  std::int64_t peak = 0;
  std::int64_t places = 0;
  friend auto operator<=>(const Height&, const Height&) = default;
};

Height heightOf(const MemoryCurve& curve) {
  return {curve.peak, std::count(curve.live.begin(), curve.live.end(), curve.peak)};
}

/// Made again once more without a second thought. Nor may ranks differ in how often they exchange something.
bool cheap(Symbol op) { return !isMatmul(op) && !isConvolution(op) && !ir::isAttention(op) && !ir::isCollective(op); }

/// Storages made again before `position` and next used after it, not at it, with the backward node that waits for them;
/// the largest first.
std::vector<Drop> idleAt(const StepModel& model, const Decisions& decisions, const Plan& plan, std::int32_t position,
                         std::int64_t least_bytes) {
  std::vector<bool> made(model.storages.size(), false), seen(model.storages.size(), false);
  for (std::int32_t e = 0; e < position; ++e) {
    const PlanEntry& entry = plan.entries[at(e)];
    if (!entry.rerun) continue;
    const StepNode& node = model.nodes[at(entry.node)];
    for (const ir::ValueId out : model.outsOf(node))
      if (model.ownsStorage(out) && cheap(model.graph().node(node.id).op) && model.storageAt(out).bytes >= least_bytes) made[at(model.storageOf(out))] = true;
  }
  // Walking on from the peak: the first use of each decides. A re-run entry works for the next original node.
  std::vector<Drop> idle;
  std::int32_t owner = -1;
  std::vector<std::int32_t> owners(plan.entries.size(), -1);
  for (auto e = static_cast<std::int32_t>(plan.entries.size()); e-- > position;) {
    if (!plan.entries[at(e)].rerun) owner = plan.entries[at(e)].node;
    owners[at(e)] = owner;
  }
  for (auto e = at(position); e < plan.entries.size(); ++e) {
    const PlanEntry& entry = plan.entries[e];
    const StepNode& node = model.nodes[at(entry.node)];
    if (!entry.rerun && node.forward) continue;
    for (const ir::ValueId use : model.usesOf(node)) {
      const auto storage = at(model.storageOf(use));
      if (seen[storage] || !made[storage] || decisions[storage] != Decision::kRecompute) continue;
      seen[storage] = true;
      // Within what runs for the same node there is nothing to gain: it would be made again at once.
      if (owners[e] != owners[at(position)]) idle.push_back({model.storageOf(use), owners[e]});
    }
    if (!entry.rerun) continue;
    for (const ir::ValueId out : model.outsOf(node)) seen[at(model.storageOf(out))] = true;  // made anew by then
  }
  std::sort(idle.begin(), idle.end(), [&](const Drop& a, const Drop& b) {
    const std::int64_t x = model.storages[at(a.storage)].bytes, y = model.storages[at(b.storage)].bytes;
    return x != y ? x > y : a.storage < b.storage;
  });
  return idle;
}

}  // namespace

Plan planTightly(const StepModel& model, const Decisions& decisions, MemoryCurve* curve_out) {
  Plan plan = planReplay(model, decisions);
  MemoryCurve curve = curveOf(model, plan, decisions, false);
  std::vector<Drop> drops;
  int trials = 0;
  for (bool better = plan.rerun_nodes > 0; better && trials < kMaxTrials;) {
    better = false;
    for (const Drop& drop : idleAt(model, decisions, plan, curve.peak_position, curve.peak / kWorthwhile)) {
      if (++trials > kMaxTrials) break;
      drops.push_back(drop);
      Plan trial = planReplay(model, decisions, drops);
      MemoryCurve lower = curveOf(model, trial, decisions, false);
      if (heightOf(lower) < heightOf(curve)) {
        plan = std::move(trial);
        curve = std::move(lower);
        better = true;
        break;
      }
      drops.pop_back();
    }
  }
  if (curve_out != nullptr) *curve_out = std::move(curve);
  return plan;
}

}  // namespace spscope::passes
