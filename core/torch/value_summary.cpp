// SPDX-License-Identifier: Apache-2.0
#include "core/torch/value_summary.h"

#include <algorithm>
#include <cmath>

#include "core/torch/elements.h"

namespace spscope::exec {

Result<ValueSummary> summarize(const TensorBag& value, int bins, std::int64_t rows, std::int64_t columns) {
  SP_ASSIGN(const at::Tensor t, onlyTensor(value));
  ValueSummary out;
  out.dtype = value.entry(0).dtype;
  out.shape = value.entry(0).shape;
  out.count = t.numel();
  const at::Tensor flat = t.contiguous().view({-1});
  double sum = 0.0;
  std::int64_t finite = 0;
  forElements(flat, [&](std::int64_t, double x) {
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
    forElements(flat, [&](std::int64_t, double x) {
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
    forElements(corner, [&](std::int64_t, double x) { out.slice.push_back(x); });
  }
  return out;
}

}  // namespace spscope::exec
