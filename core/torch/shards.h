// SPDX-License-Identifier: Apache-2.0
// Optimizer states that are sharded over the ranks (--zero 1), and gradients of several batches: what happens to bags of
// tensors outside the graph. No libtorch in this header.
//
// A shard is this rank's block (ir::shardBlocks) of a tensor's elements in memory order.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/dist/collectives.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

/// The parameters after an update: every rank has updated its block, in place; sends it to all. In place; parameters go in
/// runs of at most `bucket_bytes`. Bytes that this rank sent. Errors: those of the group.
Result<std::int64_t> gatherParameters(const TensorBag& parameters, const std::vector<std::string>& names, dist::Collectives& group,
                                      std::int64_t bucket_bytes);
/// Whole tensors out of one bag of blocks per rank, in the shapes that `like` has.
Result<TensorBag> joinShards(const std::vector<TensorBag>& blocks, const TensorBag& like);
/// The same where each rank has its own blocks only; every rank gets all. One tensor after the other.
Result<TensorBag> gatherShards(const TensorBag& blocks, const TensorBag& like, dist::Collectives& group);
/// Sum over the ranks of the group, the same bits on all.
Result<double> sumOver(dist::Collectives& group, double value);

/// A weighted mean of bags that come one after the other: gradients of several batches. Half-precision tensors are added up
/// in float32, and stay so.
class WeightedMean {
 public:
  /// The tensors of the first bag are taken over, and changed.
  Status add(const TensorBag& bag, double weight);
  /// sum(weight * bag) / sum(weight); what is left is empty. `divide` false: the sum alone.
  Result<TensorBag> take(bool divide = true);
  std::int64_t bytes() const { return sum_.bytes(); }

 private:
  TensorBag sum_;
  double weight_ = 0.0;
};

}  // namespace spscope::exec
