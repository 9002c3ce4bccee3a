// SPDX-License-Identifier: Apache-2.0
#include "core/torch/value_precision.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <limits>

#include "core/torch/elements.h"

namespace spscope::exec {
namespace {

template <typename T>
TypeRange rangeOfType() {
  using Limits = std::numeric_limits<T>;
  return {static_cast<double>(Limits::max()), static_cast<double>(Limits::min()), static_cast<double>(Limits::epsilon()) / 2};
}

}  // namespace

std::optional<TypeRange> rangeOf(ir::DType type) {
  switch (type) {
    case ir::DType::kF16: return rangeOfType<c10::Half>();
    case ir::DType::kBF16: return rangeOfType<c10::BFloat16>();
    case ir::DType::kF32: return rangeOfType<float>();
    case ir::DType::kF64: return rangeOfType<double>();
    default: return {};
  }
}

Result<RangeLoss> rangeLossOf(const TensorBag& got, const TensorBag& exact) {
  if (got.size() != 1 || exact.size() != 1) return makeError("tensor-missing", "a bag of one tensor is wanted");
  const auto range = rangeOf(got.entry(0).dtype);
  if (!range) return makeError("tensor-dtype", "%" + got.entry(0).name + " is no floating-point value");
  if (got.entry(0).shape != exact.entry(0).shape) return makeError("tensor-shape", "the values have different shapes");
  RangeLoss out;
  out.count = got.impl().tensors.front().numel();
  forElements(got.impl().tensors.front(), exact.impl().tensors.front(), [&](std::int64_t, double x, double y) {
    if (!std::isfinite(y) || y == 0.0) return;
    const double size = std::abs(x);
    out.saturated += !std::isfinite(x) || (size == range->max && std::abs(y) > range->max);
    out.flushed += x == 0.0 && std::abs(y) < range->min_normal;  // above it, it was rounding
    out.subnormal += x != 0.0 && size < range->min_normal;
  });
  return out;
}

std::optional<double> broadcastElement(const TensorBag& value, const ir::Dims& result, const ir::Dims& index) {
  if (value.size() != 1) return {};
  const at::Tensor& t = value.impl().tensors.front();
  if (t.is_complex() || static_cast<std::size_t>(t.dim()) > result.size() || index.size() != result.size()) return {};
  at::Tensor at = t;
  const std::size_t skip = result.size() - static_cast<std::size_t>(t.dim());
  for (std::size_t d = skip; d < result.size(); ++d) {
    const std::int64_t size = at.size(0);
    if (size != result[d] && size != 1) return {};
    at = at.select(0, size == 1 ? 0 : index[d]);
  }
  return at.to(at::kDouble).item<double>();
}

}  // namespace spscope::exec
