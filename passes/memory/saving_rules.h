// SPDX-License-Identifier: Apache-2.0
// What may run a second time, what must, and the words for why a value was kept or made again.
//
// Never, under any policy or budget: what draws random numbers (the backward would see another mask), what the user marked as to be saved, and ops that are not known to
// give the same result twice. Exchanges with other ranks only under layer-inputs, by a rule that asks for no sizes: a choice by
// bytes or time may differ between ranks whose shards differ, and one would wait for a call that the other does not make. Always: what stands inside one of the user's activation checkpoints, as far as the above
// lets it; what leaves such a region is up to the policy, as torch.utils.checkpoint keeps it for whoever needs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/memory/layers.h"
#include "passes/memory/replay_plan.h"

namespace spscope::passes {

enum class SavingReason : std::uint8_t {
  kNone,
  kNotNeeded,       ///< freed: nothing after the forward reads it
  kSaveAll,         ///< kept: the policy keeps whatever the backward reads
  kRandom,          ///< kept: draws random numbers
  kCollective,      ///< kept: exchanges with other ranks
  kUserSave,        ///< kept: marked by the user
  kUnknownOp,       ///< kept: not known to be repeatable
  kAttention,       ///< kept: fused attention runs once
  kConvolution,     ///< kept: convolutions run once
  kCrossesLayer,    ///< kept: one layer hands it to another, chains stop there
  kShort,           ///< kept: does not grow with the sequence
  kGraphOutput,     ///< kept: leaves the graph, stays anyway
  kCut,             ///< kept: making it again would cost more than its bytes are worth
  kNotInList,       ///< kept, min-cut: not in PyTorch's list of recomputable ops
  kReduction,       ///< kept, min-cut: less than a quarter of its operands' size
  kMaterialized,    ///< kept, min-cut: the backward reads it in an op that cannot fuse
  kUsedFarApart,    ///< kept, min-cut: an operand of it is read before and after an op that cannot fuse
  kLongChain,       ///< kept, min-cut: more than 100 nodes of fusible ops
  kLightest,        ///< kept, min-cut: the lightest place to cut
  kUserCheckpoint,  ///< made again: inside an activation checkpoint of the user
  kInsideLayer,     ///< made again, layer-inputs: inside a layer that does not hand it on
  kCheaper,         ///< made again: its bytes are worth more than making it again costs
  kFusible,         ///< made again, min-cut: cheap ops behind a lighter place to cut
};
/// "draws random numbers: never run again" and the like, for people.
std::string_view reasonText(SavingReason reason);

/// The rule that forbids running this node a second time under any policy; kNone where there is none.
SavingReason whyNeverAgain(const ir::Node& node);

/// Whether that rule is the only one against a layer that runs again as a whole, as torch.utils.checkpoint does it: exchanges may.
bool mayRunInLayer(const ir::Node& node);

/// By storage: made inside a layer that does not hand it on, by a node that may run again there.
std::vector<bool> insideLayers(const StepModel& model, const Layers& layers, const std::vector<HandedOn>& handed_on);

/// By storage: stands in a checkpoint of the user and is read by nobody outside of it in the forward.
std::vector<bool> insideCheckpoints(const StepModel& model);

/// Complete decisions (see planReplay): what the backward needs, and what running that again needs, is kept where `keep` says
/// so or it may never run again, and made again otherwise.
Decisions decideByNeed(const StepModel& model, const std::vector<bool>& keep);

/// What a policy decided about one storage that the forward makes.
struct ValueDecision {
  ir::NodeId node = ir::kNone;       ///< that makes it
  ir::ValueId value = ir::kNone;
  Decision decision = Decision::kFree;
  SavingReason reason = SavingReason::kNone;
  std::int64_t bytes = 0;
  /// Of making it again: its node and whatever that needs that is not kept. Of freed values: its node alone.
  std::int64_t recompute_ns = 0;
};

/// One entry per storage that the forward makes, in the order of the program. `why`: by storage, what a policy's rules
/// say against making it again (kNone: nothing; kInsideLayer: for it); `kept`, `remade`: the reason where rules say nothing.
std::vector<ValueDecision> explainSaving(const StepModel& model, const Decisions& decisions, const std::vector<SavingReason>& why,
                                         SavingReason kept, SavingReason remade);

}  // namespace spscope::passes
