// SPDX-License-Identifier: Apache-2.0
// Holistic Trace Analysis' definitions (0.6.1), for comparison with its numbers; own analyses are in whole nanoseconds.
// Its times are microseconds: where a file has decimals, an event starts at the next and ends at the last whole one, so
// kernels under a microsecond may vanish. With several profiler steps the last one is left out. What computes and what
// communicates is told from the kernels' names alone.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analyze/statistics.h"

namespace spscope::trace {

enum class HtaIdle : std::uint8_t { kHostWait, kKernelWait, kOther };
inline constexpr std::array<std::string_view, 3> kHtaIdleNames{"host_wait", "kernel_wait", "other"};

struct HtaStream {
  std::int64_t stream = 0;
  std::array<std::int64_t, 3> idle_us{};          ///< by HtaIdle
  std::array<std::int64_t, 3> gaps{};
  std::optional<Statistics> queue_length;
};
struct HtaRank {
  std::int32_t rank = 0;
  std::string absent;   ///< why there are no figures
  std::int64_t idle_us = kUnknown, compute_us = kUnknown, non_compute_us = kUnknown, kernel_us = kUnknown;
  std::int64_t communication_us = kUnknown;
  std::optional<double> overlap;  ///< share of the communication; none: no communication
  std::vector<HtaStream> streams; ///< by number
};
/// One row a rank, of times as the file has them: not aligned (Rank::clock is undone).
std::vector<HtaRank> htaBreakdown(const Trace& trace);

}  // namespace spscope::trace
