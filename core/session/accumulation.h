// SPDX-License-Identifier: Apache-2.0
// Several batches per step of the optimizer (--accumulate K), with the loss that one batch of all their rows would have.
//
// A loss that is a mean over valid labels is weighted, batch by batch, with the number of its labels: sum of w * loss / sum
// of w. The number is computed from the batch's own inputs, which every rank has whole: without traffic, before the step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/session/model.h"
#include "core/torch/executor.h"

namespace spscope::session {

/// What a batch weighs in the mean over several.
class BatchWeights {
 public:
  enum class Rule {
    kCounted,  ///< by what the loss divides by: the number of valid labels, or a tensor of the inputs
    kSum,      ///< the loss is a sum over its rows: batches are added
    kMean,     ///< the loss is a mean over as many numbers in every batch: the mean of the batches' losses
    kEqual,    ///< no such number was found, and yet the mean of the batches' losses
  };
  /// Looks where the loss divides. Never fails: kEqual is what is left.
  static BatchWeights of(const ir::Graph& graph);

  Rule rule() const { return rule_; }
  /// For reports: "weighted by the number of valid labels (%cross_entropy)".
  std::string text() const;
  /// 1 where the rule is not kCounted.
  Result<double> weight(const exec::TensorBag& inputs) const;
  /// Where the loss divides, "%node"; "": that is not known.
  std::string node() const { return node_.empty() ? "" : "%" + node_; }
  /// Nothing else is added to the part of the loss that is weighted.
  bool exact() const { return exact_; }
  /// Is sum(w * x) divided by sum(w)?
  bool divides() const { return rule_ != Rule::kSum; }

 private:
  Rule rule_ = Rule::kEqual;
  std::string node_;                        ///< where the loss divides
  bool exact_ = true;                       ///< nothing else is added to that part of the loss
  std::shared_ptr<const ir::Graph> count_;  ///< kCounted: from inputs to the number
};

/// One batch, run: what each rank (of those in this process) got, and what it weighs.
struct BatchResult {
  std::vector<exec::StepResult> ranks;
  double weight = 1.0;
};
/// Runs `count` batches from number `first` on; the results of the step that they make up: mean loss and gradients, the
/// highest peak, with the sums of gradients counted that lay beside it.
Result<std::vector<exec::StepResult>> accumulate(int count, std::int64_t first, const BatchWeights& weights,
                                                 const std::function<Result<BatchResult>(std::int64_t index)>& run);

}  // namespace spscope::session
