// SPDX-License-Identifier: Apache-2.0
#include "core/torch/value_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/strings.h"
#include "core/io/npy.h"
#include "core/torch/elements.h"

namespace spscope::exec {

Result<ValueScan> scanValue(const TensorBag& value, std::size_t places) {
  SP_ASSIGN(const at::Tensor t, onlyTensor(value));
  ValueScan out;
  out.count = t.numel();
  forElements(t, [&](std::int64_t i, double x) {
    if (std::isfinite(x)) {
      out.zeros += x == 0.0;
      out.abs_max = std::max(out.abs_max, std::abs(x));
      return;
    }
    ++(std::isnan(x) ? out.nan : out.inf);
    if (out.strange.size() < places) out.strange.push_back(indexOf(i, t.sizes()));
  });
  return out;
}

namespace {

/// A window that the tensor does not have.
Error noWindow(std::string message, const at::Tensor& whole) {
  Error error = makeError("tensor-shape", std::move(message), Outcome::kUsage);
  error.remedy = "Give a range of each dimension, from the first on, as 0,2:5,: - negative ones count from the end.";
  error.legal = "ranges within [" + join(whole.sizes().vec(), ", ") + "]";
  return error;
}

}  // namespace

Result<ir::Dims> largestAt(const TensorBag& value) {
  SP_ASSIGN(const at::Tensor t, onlyTensor(value));
  double most = -1.0;
  std::int64_t place = -1;
  forElements(t, [&](std::int64_t i, double x) {
    const double size = std::isfinite(x) ? std::abs(x) : std::numeric_limits<double>::infinity();
    if (size > most) most = size, place = i;
  });
  return place < 0 ? ir::Dims() : indexOf(place, t.sizes());
}

Result<ValueWindow> windowOf(const TensorBag& value, const std::vector<Range>& ranges, std::int64_t limit) {
  SP_ASSIGN(at::Tensor t, onlyTensor(value));
  const at::Tensor whole = t;
  if (static_cast<std::int64_t>(ranges.size()) > t.dim())
    return noWindow(strf("%zu ranges for a tensor of %lld dimensions", ranges.size(), static_cast<long long>(t.dim())), whole);
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    const std::int64_t size = t.size(dim);
    const auto counted = [&](std::int64_t i) { return i < 0 ? i + size : i; };
    const std::int64_t begin = counted(ranges[d].begin), end = ranges[d].end ? counted(*ranges[d].end) : size;
    if (begin < 0 || end > size || begin > end)
      return noWindow(strf("dimension %zu has %lld elements: %lld to %lld is outside", d, static_cast<long long>(size), static_cast<long long>(begin), static_cast<long long>(end)), whole);
    t = t.narrow(dim, begin, end - begin);
  }
  if (t.numel() > limit)
    return noWindow(strf("%lld elements are too many to list (at most %lld)", static_cast<long long>(t.numel()), static_cast<long long>(limit)), whole);
  ValueWindow out;
  out.shape = t.sizes().vec();
  forElements(t, [&](std::int64_t, double x) { out.values.push_back(x); });
  return out;
}

Result<ValueWindow> heatMap(const TensorBag& value, std::int64_t rows, std::int64_t columns) {
  SP_ASSIGN(const at::Tensor t, onlyTensor(value));
  const std::int64_t width = t.dim() == 0 ? 1 : t.size(-1);
  const std::int64_t height = width == 0 ? 0 : t.numel() / width;
  ValueWindow out;
  out.shape = {std::min(rows, height), std::min(columns, width)};
  out.values.assign(static_cast<std::size_t>(ir::numel(out.shape)), 0.0);
  forElements(t, [&](std::int64_t i, double x) {
    const std::int64_t row = i / width * out.shape[0] / height, column = i % width * out.shape[1] / width;
    double& cell = out.values[static_cast<std::size_t>(row * out.shape[1] + column)];
    if (!std::isfinite(x)) cell = std::numeric_limits<double>::quiet_NaN();
    else if (!std::isnan(cell)) cell = std::max(cell, std::abs(x));
  });
  return out;
}

Status saveNpy(const TensorBag& value, const std::string& path) {
  SP_ASSIGN(at::Tensor t, onlyTensor(value));
  TensorBag copy;
  const std::string& name = value.impl().names.front();
  copy.impl().append(name, io::npyType(value.entry(0).dtype).empty() ? t.to(at::kFloat) : t);
  SP_ASSIGN(const auto bytes, copy.bytesOf(name));
  return io::writeNpy(path, copy.entry(0).dtype, copy.entry(0).shape, bytes);
}

}  // namespace spscope::exec
