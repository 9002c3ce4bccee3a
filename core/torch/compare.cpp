// SPDX-License-Identifier: Apache-2.0
#include "core/torch/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/strings.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {
namespace {

constexpr std::int64_t kBlock = 1 << 18;  // elements converted at a time
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Calls f(first index, values, count) over the tensor in row-major order as doubles.
template <typename F>
void forBlocks(const at::Tensor& tensor, F&& f) {
  const at::Tensor flat = tensor.contiguous().view({-1});
  for (std::int64_t first = 0; first < flat.numel(); first += kBlock) {
    const std::int64_t count = std::min(kBlock, flat.numel() - first);
    const at::Tensor block = flat.narrow(0, first, count).to(at::kDouble);
    f(first, block.const_data_ptr<double>(), count);
  }
}

double normOf(const at::Tensor& tensor) {
  double squares = 0.0;
  forBlocks(tensor, [&](std::int64_t, const double* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  });
  return std::sqrt(squares);
}

/// Fills error and the worst element. `b` undefined: zero.
void difference(const at::Tensor& a, const at::Tensor& b, ParameterDifference* out) {
  const at::Tensor left = a.contiguous().view({-1});
  std::optional<at::Tensor> right;
  if (b.defined()) right = b.contiguous().view({-1});
  double squares = 0.0;
  double worst = -1.0;
  for (std::int64_t first = 0; first < left.numel(); first += kBlock) {
    const std::int64_t count = std::min(kBlock, left.numel() - first);
    const at::Tensor x = left.narrow(0, first, count).to(at::kDouble);
    const at::Tensor y = right ? right->narrow(0, first, count).to(at::kDouble) : at::Tensor();
    const double* xs = x.const_data_ptr<double>();
    const double* ys = right ? y.const_data_ptr<double>() : nullptr;
    for (std::int64_t i = 0; i < count; ++i) {
      const double wanted = ys != nullptr ? ys[i] : 0.0;
      const double d = std::abs(xs[i] - wanted);
      squares += d * d;
      // A value that is not finite is the worst there is, wherever it stands.
      const double badness = std::isfinite(d) ? d : kInfinity;
      if (badness > worst) {
        worst = badness;
        out->worst_index = first + i;
        out->got = xs[i];
        out->wanted = wanted;
      }
    }
  }
  out->error = std::sqrt(squares);
}

Result<at::Tensor> tensorOf(const TensorBag& bag, std::string_view name) {
  const int at = bag.impl().find(name);
  if (at < 0) return makeError("tensor-missing", "there is no tensor named " + std::string(name));
  const at::Tensor& tensor = bag.impl().tensors[static_cast<std::size_t>(at)];
  if (tensor.is_complex()) return makeError("tensor-dtype", "tensor " + std::string(name) + " is complex");
  return tensor;
}

}  // namespace

Tolerance Tolerance::of(ir::DType type) {
  switch (type) {
    case ir::DType::kF64: return {1e-10, 1e-8, 1e-6};
    case ir::DType::kF32: return {2e-5, 2e-4, 1e-3};
    default: return {2e-2, 5e-2, 1e-2};
  }
}

double relativeError(double got, double reference) {
  if (got == reference) return 0.0;
  const double error = std::abs(got - reference) / std::abs(reference);
  return std::isfinite(error) ? error : kInfinity;
}

Result<GradientComparison> compareGradients(const TensorBag& got, const TensorBag& reference, double floor) {
  GradientComparison all;
  const auto& want = reference.impl();
  double squares = 0.0;
  for (std::size_t i = 0; i < want.names.size(); ++i) {
    ParameterDifference p;
    p.name = want.names[i];
    p.norm = normOf(want.tensors[i]);
    squares += p.norm * p.norm;
    all.parameters.push_back(std::move(p));
  }
  all.total_norm = std::sqrt(squares);
  for (const std::string& name : got.impl().names)
    if (want.find(name) < 0) all.parameters.push_back({name, 0, 0, 0, 0, 0, 0});

  for (ParameterDifference& p : all.parameters) {
    const int g = got.impl().find(p.name);
    const int w = want.find(p.name);
    const at::Tensor a = g >= 0 ? got.impl().tensors[static_cast<std::size_t>(g)] : at::Tensor();
    const at::Tensor b = w >= 0 ? want.tensors[static_cast<std::size_t>(w)] : at::Tensor();
    if (a.defined() && b.defined() && a.sizes() != b.sizes())
      return makeError("gradient-shape", strf("the gradient of %s is [%s], the reference has [%s]", p.name.c_str(),
                                              join(a.sizes().vec(), ", ").c_str(), join(b.sizes().vec(), ", ").c_str()));
    if (a.defined()) {
      difference(a, b, &p);
    } else {
      difference(b, at::Tensor(), &p);
      std::swap(p.got, p.wanted);
    }
    const double scale = std::max(p.norm, floor * all.total_norm);
    p.rel = p.error == 0.0 ? 0.0 : p.error / scale;
    if (!std::isfinite(p.rel)) p.rel = kInfinity;
    if (p.rel > all.rel_max || all.worst.empty()) {
      all.rel_max = p.rel;
      all.worst = p.name;
    }
  }
  return all;
}

Result<TensorStatistics> statistics(const TensorBag& bag, std::string_view name) {
  SP_ASSIGN(const at::Tensor tensor, tensorOf(bag, name));
  TensorStatistics s;
  double squares = 0.0;
  forBlocks(tensor, [&](std::int64_t first, const double* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      squares += x[i] * x[i];
      s.sum += x[i];
      s.absmax = std::max(s.absmax, std::abs(x[i]));
      s.dot_sin += x[i] * std::sin(static_cast<double>(first + i + 1));
      s.not_finite += !std::isfinite(x[i]);
    }
  });
  s.norm = std::sqrt(squares);
  return s;
}

Result<std::vector<double>> elements(const TensorBag& bag, std::string_view name, const std::vector<std::int64_t>& indices) {
  SP_ASSIGN(const at::Tensor tensor, tensorOf(bag, name));
  const at::Tensor flat = tensor.contiguous().view({-1});
  std::vector<double> values;
  for (const std::int64_t i : indices) {
    if (i < 0 || i >= flat.numel())
      return makeError("tensor-shape", strf("index %lld of a tensor of %lld elements", static_cast<long long>(i),
                                            static_cast<long long>(flat.numel())));
    values.push_back(flat[i].item().toDouble());
  }
  return values;
}

}  // namespace spscope::exec
