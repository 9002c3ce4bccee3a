// SPDX-License-Identifier: Apache-2.0
// The kernel of spscope.tiled_cross_entropy (core/ir/tiled_loss.h) and of its derivative.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace spscope::exec {

/// What both directions take besides the gradient.
struct TiledLoss {
  const at::Tensor& self;
  const at::Tensor& weight;
  const std::optional<at::Tensor>& bias;
  const at::Tensor& target;
  std::int64_t ignore_index;
  double label_smoothing;
  std::int64_t rows;
  std::string_view steps;
};

/// The type of the losses: that of the logits behind the last step.
at::ScalarType lossType(const at::Tensor& self, std::string_view steps);
at::Tensor tiledCrossEntropy(const TiledLoss& loss);
/// Gradients of self, weight and bias; weight's and bias's undefined where not wanted. Blocks of rows add up in float32
/// where the weight is shorter.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tiledCrossEntropyBackward(const at::Tensor& grad, const TiledLoss& loss, bool weight_wanted);

}  // namespace spscope::exec
