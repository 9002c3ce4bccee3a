// SPDX-License-Identifier: Apache-2.0
// See tiled_loss.h.
#include "core/torch/tiled_loss.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/ir/tiled_loss.h"
#include "core/torch/dtype_convert.h"

namespace spscope::exec {
namespace {

using at::Tensor;
using ir::LogitStep;
using std::int64_t;

std::vector<LogitStep> stepsOf(std::string_view text) {
  auto steps = ir::parseSteps(text);
  TORCH_CHECK(steps.has_value(), "spscope: '", text, "' is no list of steps on logits");
  return std::move(*steps);
}

bool isShort(at::ScalarType t) { return t == at::kBFloat16 || t == at::kHalf; }

Tensor apply(const LogitStep& step, const Tensor& x) {
  switch (step.kind) {
    case LogitStep::kTo: return x.to(toScalarType(step.dtype));
    case LogitStep::kMul: return x.mul(step.factor);
    case LogitStep::kDiv: return x.div(step.factor);
    case LogitStep::kTanh: break;
  }
  return at::tanh(x);
}

/// Calls f(begin, size) for each block of rows.
template <typename F>
void forEachBlock(const TiledLoss& loss, F&& f) {
  const int64_t all = loss.self.size(0), rows = std::max<int64_t>(1, loss.rows);
  for (int64_t begin = 0; begin < all; begin += rows) f(begin, std::min(rows, all - begin));
}

}  // namespace

at::ScalarType lossType(const Tensor& self, std::string_view steps) {
  at::ScalarType type = self.scalar_type();
  for (const LogitStep& step : stepsOf(steps))
    if (step.kind == LogitStep::kTo) type = toScalarType(step.dtype);
  return type;
}

Tensor tiledCrossEntropy(const TiledLoss& loss) {
  const std::vector<LogitStep> steps = stepsOf(loss.steps);
  Tensor out = at::empty({loss.self.size(0)}, loss.self.options().dtype(lossType(loss.self, loss.steps)));
  forEachBlock(loss, [&](int64_t begin, int64_t size) {
    Tensor x = at::linear(loss.self.narrow(0, begin, size), loss.weight, loss.bias);
    for (const LogitStep& step : steps) x = apply(step, x);
    out.narrow(0, begin, size).copy_(
        at::cross_entropy_loss(x, loss.target.narrow(0, begin, size), {}, at::Reduction::None, loss.ignore_index, loss.label_smoothing));
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> tiledCrossEntropyBackward(const Tensor& grad, const TiledLoss& loss, bool weight_wanted) {
  const std::vector<LogitStep> steps = stepsOf(loss.steps);
  const at::ScalarType type = loss.weight.scalar_type(), sum_type = isShort(type) ? at::kFloat : type;
  const int64_t classes = loss.weight.size(0);
  Tensor d_self = at::empty(loss.self.sizes(), loss.self.options()), d_weight, d_bias;
  if (weight_wanted) d_weight = at::zeros(loss.weight.sizes(), loss.weight.options().dtype(sum_type));
  if (loss.bias.has_value()) d_bias = at::zeros({classes}, loss.weight.options().dtype(sum_type));
  forEachBlock(loss, [&](int64_t begin, int64_t size) {
    const Tensor rows = loss.self.narrow(0, begin, size);
    Tensor x = at::linear(rows, loss.weight, loss.bias);
    std::vector<std::pair<at::ScalarType, Tensor>> before;  // each step's type in, and its result where that is needed
    for (const LogitStep& step : steps) {
      before.emplace_back(x.scalar_type(), Tensor());
      x = apply(step, x);
      if (step.kind == LogitStep::kTanh) before.back().second = x;
    }
    // d loss / d logit = softmax - (1 - smoothing) at the label - smoothing / classes, nothing where the label is ignored.
    const Tensor labels = loss.target.narrow(0, begin, size), ignored = labels.eq(loss.ignore_index);
    const at::ScalarType wide = isShort(x.scalar_type()) ? at::kFloat : x.scalar_type();
    Tensor d = at::softmax(x, 1, wide);
    x.reset();
    d.scatter_add_(1, labels.masked_fill(ignored, 0).unsqueeze(1), at::full({size, 1}, loss.label_smoothing - 1.0, d.options()));
    if (loss.label_smoothing != 0) d.sub_(loss.label_smoothing / static_cast<double>(classes));
    d.mul_(grad.narrow(0, begin, size).to(wide).masked_fill(ignored, 0.0).unsqueeze(1));
    if (!steps.empty() || wide != type) {
      d = d.to(lossType(loss.self, loss.steps));
      for (std::size_t i = steps.size(); i-- > 0;) {
        if (steps[i].kind == LogitStep::kMul) d = d.mul(steps[i].factor);
        if (steps[i].kind == LogitStep::kDiv) d = d.div(steps[i].factor);
        if (steps[i].kind == LogitStep::kTanh) d = d.mul(before[i].second.square().neg_().add_(1.0));
        before[i].second.reset();
        d = d.to(before[i].first);
      }
    }
    d_self.narrow(0, begin, size).copy_(at::mm(d, loss.weight));
    if (d_weight.defined()) {
      if (sum_type == type) d_weight.addmm_(d.t(), rows);
      else d_weight.add_(at::mm(d.t(), rows));
    }
    if (d_bias.defined()) d_bias.add_(d.sum({0}, false, sum_type));
  });
  return {d_self, d_weight.defined() ? d_weight.to(type) : d_weight, d_bias.defined() ? d_bias.to(type) : d_bias};
}

}  // namespace spscope::exec
