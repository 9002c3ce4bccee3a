// SPDX-License-Identifier: Apache-2.0
// Solves "what is kept for backward" for a whole joint graph at one price: the layers' cuts one by one, from the last
// layer to the prelude, equal layers once.
//
// Never run again: what saving_rules.h forbids, fused attention and convolutions unless the rules let them, and nodes
// whose results do not grow with the sequence (keeping those costs next to nothing). What one layer hands to another is
// kept if anyone needs it after the forward, so no chain crosses a layer boundary. What the prelude hands to the layers
// (embeddings, rotary tables) may be made again, once for all of them. What stands in an activation checkpoint of the user
// is made again at any price; so is, under layer-inputs, all that a layer does not hand on, exchanges and attention included.
#pragma once

#include <map>
#include <vector>

#include "passes/memory/min_cut.h"
#include "passes/memory/replay_plan.h"
#include "passes/memory/saving_rules.h"
#include "passes/memory/segments.h"

namespace spscope::passes {

/// What a solver takes for granted before it asks for the price.
enum class SavingRules : std::uint8_t {
  kSac,          ///< fused attention and convolutions run once
  kFused,        ///< they may run again too
  kLayerInputs,  ///< every layer is made again from what layers hand on (layers.h); outside of layers as kSac
};

class SavingSolver {
 public:
  /// `long_values` as findLongValues gives them. Keeps a reference to the model.
  SavingSolver(const StepModel& model, const std::vector<bool>& long_values, const Segments& segments, SavingRules rules = SavingRules::kSac);

  /// Complete decisions (see planReplay) that minimise bytes + price * nanoseconds, layer by layer.
  Decisions solve(double price) const { return solve(price, price, 0); }
  /// The same with one price for the first `first` segments (the prelude is the first of all) and another for the rest.
  Decisions solve(double price, double first_price, int first) const;
  /// What is left when recomputation has no worth: everything kept but what the user's checkpoints make again.
  Decisions least() const;

  /// By storage: the rule against making it again, or kInsideLayer for the one that asks for it; kNone where there is none.
  const std::vector<SavingReason>& rules() const { return rules_; }

  /// Lowest and highest bytes per nanosecond of any node that may be re-run; {0, 0} where there is none.
  std::pair<double, double> ratios() const { return ratios_; }
  int distinctSegments() const { return static_cast<int>(templates_.size()); }

 private:
  struct Piece {
    int problem = -1;                              ///< index into templates_
    std::vector<std::int32_t> storages;            ///< model storages, by the problem's number
    std::vector<std::vector<std::int32_t>> outside;///< by op: storages of other segments that it reads
  };
  struct Solved {
    double price = 0;
    std::vector<bool> wanted;
    CutSolution solution;
  };
  const CutSolution& solvePiece(const Piece& piece, double price, const std::vector<bool>& wanted,
                                std::vector<std::vector<Solved>>& memo) const;

  const StepModel& model_;
  std::vector<Piece> pieces_;            ///< by segment
  std::vector<CutProblem> templates_;    ///< distinct problems, without what later segments want
  std::vector<bool> crosses_;            ///< by storage: a layer hands it to another segment
  std::vector<bool> wanted_always_;      ///< by storage: needed whatever the price
  std::vector<SavingReason> rules_;
  std::pair<double, double> ratios_{0, 0};
};

}  // namespace spscope::passes
