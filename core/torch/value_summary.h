// SPDX-License-Identifier: Apache-2.0
// What a person wants to know of a tensor: range, mean, what is no number, how the values are spread, and some of them. No
// libtorch in this header.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

struct ValueSummary {
  ir::DType dtype = ir::DType::kUnknown;
  ir::Dims shape;
  std::int64_t count = 0, nan = 0, inf = 0;
  double min = 0.0, max = 0.0, mean = 0.0;  ///< of the finite elements; 0 where there are none
  std::vector<std::int64_t> histogram;      ///< of the finite elements, equal bins from min to max; empty where there are none
  ir::Dims slice_shape;                     ///< rows and columns of `slice`
  std::vector<double> slice;                ///< the beginning of the last two dimensions, at index 0 of those before
};

/// The bag holds one tensor. Errors: tensor-missing, tensor-dtype (complex).
Result<ValueSummary> summarize(const TensorBag& value, int bins = 24, std::int64_t rows = 4, std::int64_t columns = 6);

}  // namespace spscope::exec
