// SPDX-License-Identifier: Apache-2.0
#include "core/torch/value_summary.h"

#include <algorithm>
#include <cmath>

#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {
namespace {

constexpr std::int64_t kBlock = 1 << 18;  // elements converted at a time

template <typename F>
void forElements(const at::Tensor& flat, F&& f) {
  for (std::int64_t first = 0; first < flat.numel(); first += kBlock) {
    const at::Tensor block = flat.narrow(0, first, std::min(kBlock, flat.numel() - first)).to(at::kDouble);
    const double* x = block.const_data_ptr<double>();
    for (std::int64_t i = 0; i < block.numel(); ++i) f(x[i]);
  }
}

}  // namespace

Result<ValueSummary> summarize(const TensorBag& value, int bins, std::int64_t rows, std::int64_t columns) {
  if (value.size() != 1) return makeError("tensor-missing", "a bag of one tensor is wanted");
  const at::Tensor& t = value.impl().tensors.front();
  if (t.is_complex()) return makeError("tensor-dtype", "%" + value.impl().names.front() + " is complex");
  ValueSummary out;
  out.dtype = value.entry(0).dtype;
  out.shape = value.entry(0).shape;
  out.count = t.numel();
  const at::Tensor flat = t.contiguous().view({-1});
  double sum = 0.0;
  std::int64_t finite = 0;
  forElements(flat, [&](double x) {
    if (std::isnan(x)) {
      ++out.nan;
    } else if (std::isinf(x)) {
      ++out.inf;
    } else {
      out.min = finite == 0 ? x : std::min(out.min, x);
      out.max = finite == 0 ? x : std::max(out.max, x);
      sum += x;
      ++finite;
    }
  });
  if (finite > 0) {
    out.mean = sum / static_cast<double>(finite);
    out.histogram.assign(static_cast<std::size_t>(bins), 0);
    const double half = (0.5 * out.max - 0.5 * out.min) / bins;  // of a bin: the whole range may be beyond what a double holds
    forElements(flat, [&](double x) {
      if (!std::isfinite(x)) return;
      const auto bin = half > 0 ? static_cast<std::int64_t>((0.5 * x - 0.5 * out.min) / half) : 0;
      ++out.histogram[static_cast<std::size_t>(std::clamp<std::int64_t>(bin, 0, bins - 1))];
    });
  }
  at::Tensor corner = t;
  while (corner.dim() > 2 && corner.size(0) > 0) corner = corner.select(0, 0);
  if (corner.numel() > 0) {
    while (corner.dim() < 2) corner = corner.unsqueeze(0);
    corner = corner.narrow(0, 0, std::min(rows, corner.size(0))).narrow(1, 0, std::min(columns, corner.size(1)));
    out.slice_shape = corner.sizes().vec();
    forElements(corner.contiguous().view({-1}), [&](double x) { out.slice.push_back(x); });
  }
  return out;
}

}  // namespace spscope::exec
