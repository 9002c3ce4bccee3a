// SPDX-License-Identifier: Apache-2.0
// What choose-saved found on its way: every choice it compared, which one it took, and what that means for each value.
// Sessions show it as the curve of memory against recomputation, and as the answer to "why is this kept?".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/memory/liveness.h"
#include "passes/memory/saving_rules.h"

namespace spscope::passes {

/// One choice of what to keep, and what it would cost.
struct SavingPoint {
  static constexpr double kNoPrice = -1;
  /// Bytes that one nanosecond of recomputation is worth; kNoPrice where no single price leads to this choice.
  double price = 0;
  std::int64_t saved_bytes = 0;     ///< storages that cross into backward, each once, inputs not counted
  std::int64_t recompute_ns = 0;    ///< at nominal rates (see op_cost.h)
  std::int64_t recompute_flops = 0;
  std::int32_t recompute_nodes = 0;   ///< views not counted
  std::int32_t recompute_matmuls = 0;
  std::int64_t peak_bytes = 0;      ///< predicted peak of the step, everything included
  std::int64_t working_peak = 0;    ///< without parameters, optimizer and gradients
};

struct MemoryReport {
  std::string policy;
  SavingPoint save_all;             ///< nothing re-run but what the user's checkpoints ask for
  std::vector<SavingPoint> points;  ///< distinct choices, less and less run again
  int chosen = -1;                  ///< index into points; -1: save_all
  ClassBytes at_peak{};             ///< classes at the chosen choice's peak
  std::vector<ValueDecision> values;  ///< every storage that the forward makes, in the order of the program
  const SavingPoint& choice() const { return chosen < 0 ? save_all : points[static_cast<std::size_t>(chosen)]; }
};

}  // namespace spscope::passes
