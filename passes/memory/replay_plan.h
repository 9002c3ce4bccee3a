// SPDX-License-Identifier: Apache-2.0
// Which nodes run in which order once it is decided which storages are kept for backward: the forward without what
// nobody needs any more, and the backward with each re-run node just before its first use.
//
// A plan is light (two integers per entry), so that hundreds of decisions can be compared by their predicted peak
// without touching the graph; the pass `schedule` turns the chosen one into nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/memory/step_model.h"

namespace spscope::passes {

/// What happens to a storage that the forward makes.
enum class Decision : std::uint8_t {
  kFree,       ///< nobody needs it after the forward (also: inputs, and storages that the backward makes)
  kSave,       ///< kept until its last use
  kRecompute,  ///< freed in forward, made again in backward
};
using Decisions = std::vector<Decision>;  ///< by storage of the StepModel

struct PlanEntry {
  std::int32_t node = -1;  ///< place in the order of the graph that the model was made of
  bool rerun = false;
};

/// "Do not keep what was made again of this storage until that node uses it: make it once more there."
struct Drop {
  std::int32_t storage = -1;
  std::int32_t before = -1;  ///< place of the backward node that needs it next (itself or through what it makes run again)
  friend bool operator==(const Drop&, const Drop&) = default;
};

struct Plan {
  std::vector<PlanEntry> entries;
  std::int64_t rerun_ns = 0;
  std::int64_t rerun_flops = 0;
  std::int32_t rerun_nodes = 0;    ///< views not counted
  std::int32_t rerun_matmuls = 0;
};

/// Saves every storage that a node after the forward uses.
Decisions saveAll(const StepModel& model);

/// `decisions` must be complete: a storage that backward uses is saved or recomputed, and so is, recursively, every
/// storage that a re-run node uses. Collectives keep their order, none is moved; one that runs again stands where the order of the
/// backward and of arguments puts it, the same on ranks whose decisions about collectives are the same.
Plan planReplay(const StepModel& model, const Decisions& decisions, const std::vector<Drop>& drops = {});

/// planReplay, then cheap results that lie idle across the peak are dropped and made once more as long as that lowers
/// the predicted peak (a norm's input cast to f32, waiting for the norm's own backward while the MLP's is at work).
/// Contractions, attention and exchanges are never repeated twice. `curve` (may be null) gets the curve of the plan.
Plan planTightly(const StepModel& model, const Decisions& decisions, MemoryCurve* curve = nullptr);

/// The curve of a plan; `live` has one entry per plan entry.
MemoryCurve curveOf(const StepModel& model, const Plan& plan, const Decisions& decisions, bool by_class);

/// The curve of the program with nothing made again, its nodes in this order (legal; of Graph::order or another one).
MemoryCurve curveInOrder(const StepModel& model, const std::vector<ir::NodeId>& order, bool by_class);

}  // namespace spscope::passes
