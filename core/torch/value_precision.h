// SPDX-License-Identifier: Apache-2.0
// What a floating type holds, and what of a value it could not hold. No libtorch in this header.
#pragma once

#include <cstdint>
#include <optional>

#include "core/torch/tensor_bag.h"

namespace spscope::exec {

struct TypeRange {
  double max = 0.0;         ///< largest finite magnitude
  double min_normal = 0.0;  ///< smallest magnitude with all its digits
  double roundoff = 0.0;    ///< half a unit in the last place, relative: what rounding costs at most
};
/// Of float16, bfloat16, float32, float64; nullopt for others.
std::optional<TypeRange> rangeOf(ir::DType type);

struct RangeLoss {
  std::int64_t count = 0;
  std::int64_t saturated = 0;  ///< infinite, NaN or the largest number, where the exact value is finite and not so large
  std::int64_t flushed = 0;    ///< zero, where the exact value is not, but too small for the type
  std::int64_t subnormal = 0;  ///< kept with less digits than the type has
};
/// Element by element: `got` as the type of its value has it, `exact` the same in a wider one. One tensor each, of one shape. Errors:
/// tensor-missing, tensor-dtype (a type without a range), tensor-shape.
Result<RangeLoss> rangeLossOf(const TensorBag& got, const TensorBag& exact);

/// The element of the bag's one tensor that stands at `index` of a result it is broadcast to; nullopt where it is not.
std::optional<double> broadcastElement(const TensorBag& value, const ir::Dims& result, const ir::Dims& index);

}  // namespace spscope::exec
