// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD over a bag of parameters, in place, with libtorch's fused kernels (no temporaries). No libtorch in this
// header.
//
// 16-bit parameters are trained on float32 masters: an update of less than half a unit in the last place of a 16-bit weight would
// leave it where it is, however often it is made. The states are float32 then, too; the parameter is the master, rounded.
//
// Gradients are complete on every rank (sync-gradients has seen to it), so the global norm for clipping is a local sum. With
// `shards` an optimizer has states for its block of each parameter only (a run of its elements, ir::shardBlocks), takes
// that block of the gradient and updates that block of the parameter; the norm is then summed over the ranks by the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

struct OptimizerOptions {
  enum class Kind : std::uint8_t { kAdamW, kSgd };
  Kind kind = Kind::kAdamW;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  ///< AdamW
  double momentum = 0.0;                          ///< SGD; no dampening, no Nesterov
  std::optional<double> weight_decay;             ///< default as in torch: 0.01 for AdamW, 0 for SGD
  double clip = 0.0;                              ///< largest global norm of the gradients; 0: no clipping
  bool master_weights = true;                     ///< float32 masters and states for 16-bit parameters
  int shard = 0, shards = 1;                      ///< which block of each parameter, of how many
};

/// "adamw" or "sgd"; nullopt for anything else.
std::optional<OptimizerOptions::Kind> parseOptimizer(std::string_view text);

struct OptimizerReport {
  double gradient_norm = 0.0;  ///< global, before clipping; 0 when not clipping (it is not computed then)
  bool clipped = false;
};

class Optimizer {
 public:
  /// `trainable` are names in `parameters`, whose tensors are updated in place by apply(). States start at zero.
  /// Errors: tensor-missing; optimizer-dtype where a parameter is not a floating type.
  static Result<Optimizer> create(const OptimizerOptions& options, const TensorBag& parameters,
                                  const std::vector<std::string>& trainable);
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  /// One update. Gradients are of their parameter's type; of 16-bit parameters float32 ones are taken, too. A trainable parameter without a gradient stays as it is, as in torch. The gradients are used up: clipping
  /// scales them in place. Errors: gradient-shape, op-failed.
  /// `squares`: the squared global norm, where this optimizer sees a part of it.
  Result<OptimizerReport> apply(const TensorBag& gradients, std::optional<double> squares = std::nullopt);
  /// The squared norm of the gradients of the trainable parameters; 0 where nothing is clipped.
  Result<double> squaredNorm(const TensorBag& gradients) const;
  const std::vector<std::string>& trainable() const;

  void setLearningRate(double lr);
  std::int64_t steps() const;
  /// Bytes of the states (masters, moments), without the step counter.
  std::int64_t stateBytes() const;
  /// Shared with the optimizer: "master.<parameter>" where there is one, "exp_avg.<parameter>", "exp_avg_sq.<parameter>" (AdamW) or "momentum.<parameter>", and
  /// "step" (one float32: steps made).
  TensorBag states() const;
  /// Copies such a bag in; it has whole tensors, also where this optimizer has blocks. Errors: tensor-missing, optimizer-state (a
  /// shape or type differs, or what was saved is of another kind of optimizer).
  Status restore(const TensorBag& states);

 private:
  Optimizer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::exec
