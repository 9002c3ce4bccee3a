// SPDX-License-Identifier: Apache-2.0
// What the programs here measure with: CPU time, which other processes disturb least, beside wall time.
#pragma once

#include <cstdint>
#include <ctime>

namespace spscope {

/// Nanoseconds of any of the system's clocks.
inline std::int64_t clockNs(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

/// CPU time of this process, all its threads together.
inline std::int64_t cpuNs() { return clockNs(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace spscope
