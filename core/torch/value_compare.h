// SPDX-License-Identifier: Apache-2.0
// One value of a graph, in parts on the ranks, against the whole of it. All sums are made in float64, in blocks, whatever
// the tensors' types. No libtorch in this header.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/ir/placement.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

/// How the ranks' tensors make up the value: `kind` as in a placement; `shard` for kSharded only.
struct Assembly {
  ir::PlacementKind kind = ir::PlacementKind::kReplicated;
  ir::ShardSpec shard = {};
  friend bool operator==(const Assembly&, const Assembly&) = default;
};

/// Whether parts of these shapes, one per rank, make up a value of the shape `whole`.
bool fits(const Assembly& how, const std::vector<ir::Dims>& parts, const ir::Dims& whole);

/// The assemblies that fit, where the graph does not say: replicated and partial for equal shapes, else shards of the only
/// dimension that differs, with each of `outers` that divides it (see ir::ShardSpec).
std::vector<Assembly> assembliesFor(const std::vector<ir::Dims>& parts, const ir::Dims& whole, const std::vector<std::int64_t>& outers);

struct ValueDifference {
  double norm = 0.0;        ///< |whole|, as normOfValue has it
  double error = 0.0;       ///< |parts - whole|, the largest over the ranks where each has the whole; infinity: not finite
  double max_abs = 0.0;     ///< largest |difference| of one element; infinity where one is not finite
  double max_rel = 0.0;     ///< largest |difference| / |wanted| of one element
  ir::Dims worst;           ///< index, in the whole, of the element with max_abs
  double got = 0.0, wanted = 0.0;  ///< there
  /// Of each rank's part. For a partial value one entry, of the sum; but where some parts hold elements that are not finite, infinity for those ranks.
  std::vector<double> rank_error;
  std::vector<double> rank_norm;   ///< |whole| of the part that each entry of rank_error is about
  double finite_error = 0.0;  ///< as `error`, of the elements that are finite on both sides
};

/// `parts[r]` and `whole` hold one tensor each; they fit. A NaN that both have in one place is no difference. Errors:
/// tensor-dtype (complex), tensor-shape (they do not fit).
Result<ValueDifference> compareValue(const std::vector<TensorBag>& parts, const TensorBag& whole, const Assembly& how);

/// |x| without elements that are not finite or beyond 1e30 (masks hold such). The bag holds one tensor. Error tensor-dtype
/// (complex).
Result<double> normOfValue(const TensorBag& value);

}  // namespace spscope::exec
