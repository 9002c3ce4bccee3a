// SPDX-License-Identifier: Apache-2.0
// Policy "min-cut": what PyTorch's own partitioner would keep, so that it can be compared with.
//
// Source of the rules: torch 2.15, torch/_functorch/partitioners.py, min_cut_rematerialization_partition at its default
// settings (activation_memory_budget 1), restated here. It assumes that element-wise ops fuse, so that making them again
// is free, and cuts where the fewest bytes cross.
//   - A node may run again when its op is in a list (element-wise ops, sum, mean, var, casts, copies, indexing, views, ...).
//     Products, attention, softmax, embeddings, random ops and collectives are not in it.
//   - Nor may it when the backward reads it, directly or through views, in an op that does not fuse; when its result is
//     under a quarter of its operands; when an operand of it is read on both sides of an op that does not fuse; when it
//     ends a chain of more than 100 nodes of fusible ones. Views are exempt from every ban.
//   - Keeping a tensor weighs its bytes times 1.1 to the power of its distance from the backward (1 to 100 nodes), twice
//     that when all its readers fuse with it. Parameters weigh nothing.
//   - The user's marks: MUST_SAVE is a ban, MUST_RECOMPUTE (a checkpoint) runs again whatever it weighs.
// Where we differ, on purpose: the ops are those of our joint graph, no common subexpressions merged; of Inductor's
// decompositions only the class is taken over (softmax, layer norm and the loss count as the element-wise ops that they are
// made of, transpose and reshape as views, cat of one tensor as a repetition); user inputs weigh nothing, they are there
// anyway; what is kept is counted by storage, so that a tensor and its view are kept once; sp.slice is a copy, sp.vary a
// view.
#pragma once

#include "passes/memory/replay_plan.h"
#include "passes/memory/saving_rules.h"

namespace spscope::passes {

struct TorchPartition {
  Decisions decisions;               ///< complete, see planReplay
  std::vector<SavingReason> rules;   ///< by storage: why it may not run again; kNone: it may
};
TorchPartition partitionLikeTorch(const StepModel& model);

}  // namespace spscope::passes
