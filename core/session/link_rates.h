// SPDX-License-Identifier: Apache-2.0
// How fast ranks of this machine talk, and what a rank costs besides its tensors, for `spscope calibrate`: rank processes
// meet over Gloo and exchange blocks, as run's ranks do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/dist/rank_reporter.h"

namespace spscope::session {

/// Of the slowest rank.
struct LinkRates {
  double latency_low = 0, latency_high = 0;      ///< ns of an all-reduce of one number
  double bytes_per_ns_low = 0, bytes_per_ns_high = 0;  ///< sent by a rank in an all-to-all of large blocks
  std::int64_t outside_low = 0, outside_high = 0;      ///< bytes of a rank before any tensor: memory of its own; with shared code
  std::int64_t group_bytes = 0;                  ///< that the group's first exchanges added, beside the blocks
  int ranks = 0, times = 0;
  std::int64_t block_bytes = 0;                  ///< that a rank sends to each other one
};

/// Starts `ranks` processes of this program. Errors: those of the launcher and of the ranks; cancelled.
Result<LinkRates> measureLinks(int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel);

/// Whether a rank process was started by measureLinks().
bool isLinkMeasurement(const std::string& request);
/// What such a process does.
Status measureAsRank(dist::RankReporter& reporter);

}  // namespace spscope::session
