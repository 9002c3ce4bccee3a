// SPDX-License-Identifier: Apache-2.0
// What a 16-bit run is worth: two right answers in bfloat16 differ by their rounding, so the sharded one is not compared with
// the unsharded one alone, but both with float32: the sharded run may be no worse than the unsharded bfloat16 run is, but for a margin.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/session/model.h"
#include "core/torch/executor.h"

namespace spscope::session {

/// Distances from the unsharded run in float32 on the same weights and inputs.
struct AgainstFloat32 {
  /// The sharded run's gradient error may be so many times the unsharded run's.
  static constexpr double kMargin = 1.5;

  double loss = 0.0;               ///< of float32
  double sharded_loss = 0.0;       ///< relative errors of the loss: of the worst rank,
  double unsharded_loss = 0.0;     ///< and of the unsharded run
  double sharded_gradient = 0.0;   ///< |g - g32| / |g32| over all gradients together: of the worst rank,
  double unsharded_gradient = 0.0; ///< and of the unsharded run
  double ratio() const { return unsharded_gradient > 0 ? sharded_gradient / unsharded_gradient : sharded_gradient > 0 ? 1e300 : 1.0; }
  bool within() const { return ratio() <= kMargin; }
};

/// Nothing where the model computes in more than 16 bits. Errors: those of the unsharded step.
Result<std::optional<AgainstFloat32>> againstFloat32(const Model& model, const passes::Settings& settings, const DataRequest& data,
                                                     const exec::StepResult& unsharded, const std::vector<exec::StepResult>& sharded,
                                                     const Request& request);

}  // namespace spscope::session
