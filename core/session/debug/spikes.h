// SPDX-License-Identifier: Apache-2.0
// Steps of a training whose loss or gradient jumps, and what is behind it: the batch, the first node whose magnitude departs from that of the
// other steps, and the row and the position of the batch where it does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/session/debug/answers.h"
#include "core/session/debug/reference.h"

namespace spscope::session::debug {

struct SpikeStep {
  double loss = 0.0, gradient_norm = 0.0;
  double loss_score = 0.0, norm_score = 0.0;  ///< how many usual deviations above the steps around it
  std::string batch;                          ///< the file, or the seed
};

struct Spike {
  std::int64_t step = 0;
  bool in_loss = false, in_gradient = false;
  double usual_loss = 0.0, usual_norm = 0.0;  ///< the median of the steps around it
  std::optional<NodeName> node;               ///< the first whose magnitude departs; empty: none does by more than twice
  std::string value;
  double largest = 0.0, usual = 0.0;          ///< its largest element in magnitude, and the median of that over the other steps
  ir::Dims index;                             ///< of that element: in the whole, or in the part of `rank`
  int rank = -1;                              ///< -1: put together from all
  std::int64_t row = -1, position = -1;       ///< of the batch and of the sequence that it belongs to; -1: the graph does not say
};

struct SpikeReport {
  std::vector<SpikeStep> steps;
  std::vector<Spike> spikes;  ///< in the order of the steps
};

/// How many usual deviations each value lies above the median of up to 8 before and 8 behind it: the deviation is the median one, and at
/// least `floor` of that median. What is no number is infinitely far above. Needs 5 values.
std::vector<double> jumps(const std::vector<double>& series, double floor);

/// Trains `steps` steps from the debugged one on, apart from it, and looks at what stands out by more than kJump. Errors: debug-no-origin,
/// debug-no-gradients, usage (fewer than 5 steps), those of Training.
Result<SpikeReport> findSpikes(std::int64_t steps, const Sides& sides, const Origin* origin, const Request& request);
inline constexpr double kJump = 8.0;

}  // namespace spscope::session::debug
