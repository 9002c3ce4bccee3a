// SPDX-License-Identifier: Apache-2.0
// Cross entropy of a product, a block of rows at a time:
//   spscope.tiled_cross_entropy.default(self [N, D], weight [V, D], bias [V] or None, target [N], ignore_index,
//                                       label_smoothing, rows, steps) -> losses [N], 0 where the label is ignored
// stands for cross_entropy_loss(steps(linear(self, weight, bias)), target, reduction=0). The logits of `rows` rows exist
// at a time, in the forward and again in the backward. `steps` is what happens to each logit by itself on its way to the
// loss, as text: "to f32, div 30, tanh, mul 30".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/symbol.h"
#include "core/ir/dtype.h"

namespace spscope::ir {

inline const Symbol kTiledCrossEntropy{"spscope.tiled_cross_entropy.default"};

struct LogitStep {
  enum Kind : std::uint8_t { kTo, kMul, kDiv, kTanh } kind = kTo;
  DType dtype = DType::kF32;  ///< kTo
  double factor = 1;          ///< kMul, kDiv
};

std::string formatSteps(const std::vector<LogitStep>& steps);
std::optional<std::vector<LogitStep>> parseSteps(std::string_view text);  ///< nullopt where it is no list of steps

}  // namespace spscope::ir
