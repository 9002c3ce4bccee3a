// SPDX-License-Identifier: Apache-2.0
// Where a rank's time goes: compute, communication, memory as unions of intervals; what of it is exposed; idle, and why.
//
//   idle + compute + exposed communication + exposed memory = span      exactly, in ns
//
// The span runs from the first counted event of the lane to the end of the last. Exposed communication is not overlapped
// by compute; exposed memory by neither compute nor communication.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/analyze/intervals.h"
#include "profiler/analyze/work.h"

namespace spscope::trace {

/// Why a lane was idle. Device lanes: the gap before the next work is split at its launch. What no launch explains is
/// unknown, never one of the others.
struct IdleReasons {
  std::int64_t host_ns = 0;    ///< not launched yet: the host was late (host lanes: all of it)
  std::int64_t launch_ns = 0;  ///< between the launch call and the start
  std::int64_t queued_ns = 0;  ///< launched before the gap began: it waited for something on the device
  std::int64_t unknown_ns = 0; ///< the launch was not recorded
};

struct Breakdown {
  Lane lane;                    ///< of a rank that has nothing to count: its host
  std::string absent;           ///< why there are no figures; all of them are kUnknown then
  std::int64_t start_ns = kUnknown, end_ns = kUnknown;
  std::int64_t span_ns = kUnknown, idle_ns = kUnknown;
  std::int64_t compute_ns = kUnknown, communication_ns = kUnknown, memory_ns = kUnknown;
  std::int64_t exposed_communication_ns = kUnknown, exposed_memory_ns = kUnknown;
  std::int64_t overlapped_communication_ns = kUnknown;  ///< under compute
  std::optional<double> overlap;  ///< share of the communication that is under compute; none: no communication
  std::int64_t communication_events = 0, events = 0;
  IdleReasons idle_why;
  Intervals exposed_communication;
};

/// One row a lane; a rank without any lane has a row with `absent`. `left_out`: events not to be counted (outliers), or
/// empty. O(n log n).
std::vector<Breakdown> breakdown(const Trace& trace, const WorkMap& map, const std::vector<bool>& left_out = {});

}  // namespace spscope::trace
