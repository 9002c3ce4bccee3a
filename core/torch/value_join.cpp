// SPDX-License-Identifier: Apache-2.0
#include "core/torch/value_join.h"

#include <ATen/ops/cat.h>

#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {

Result<TensorBag> joinParts(const std::vector<TensorBag>& parts, const Assembly& how) {
  std::vector<at::Tensor> tensors;
  std::vector<ir::Dims> shapes;
  for (const TensorBag& part : parts) {
    if (part.size() != 1) return makeError("tensor-missing", "a bag of one tensor is wanted");
    tensors.push_back(part.impl().tensors.front());
    shapes.push_back(tensors.back().sizes().vec());
  }
  if (tensors.empty()) return makeError("tensor-missing", "there are no parts");
  const ir::ShardSpec& shard = how.shard;
  const bool sharded = how.kind == ir::PlacementKind::kSharded;
  ir::Dims whole = shapes.front();
  if (const auto dim = static_cast<std::size_t>(shard.dim); sharded && dim < whole.size()) {
    whole[dim] = 0;
    for (const std::int64_t block : shard.blocks) whole[dim] += shard.outer * block;
  }
  if (!fits(how, shapes, whole)) return makeError("tensor-shape", "the parts do not make up a value that is placed so");
  at::Tensor joined = tensors.front();
  if (how.kind == ir::PlacementKind::kPartial) {
    joined = joined.clone();
    for (std::size_t r = 1; r < tensors.size(); ++r) joined.add_(tensors[r]);
  } else if (sharded) {
    // The dimension as [outer, blocks]: each rank's part is a window of the second.
    std::vector<at::Tensor> windows;
    for (std::size_t r = 0; r < tensors.size(); ++r)
      if (shard.blocks[r] > 0) windows.push_back(tensors[r].unflatten(shard.dim, at::IntArrayRef{shard.outer, shard.blocks[r]}));
    if (!windows.empty()) joined = at::cat(windows, shard.dim + 1).reshape(whole);
  }
  TensorBag out;
  out.impl().append(parts.front().impl().names.front(), std::move(joined));
  return out;
}

}  // namespace spscope::exec
