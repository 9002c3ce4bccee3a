// SPDX-License-Identifier: Apache-2.0
// Events of one track may overlap without nesting; viewers want each row to nest. Lanes are the rows.
#pragma once

#include <span>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct LanePlace {
  std::int32_t lane = 0;   ///< of the event's track, from 0
  std::int32_t depth = 0;  ///< how many events of the lane it lies in
  bool split = false;      ///< begins a stack of its own on a further lane: it overlaps something without nesting in it
};

/// For each event of `order` (which comes from eventsByStart, or is a part of it) a lane, so that any two events of one
/// track and lane either nest or do not overlap. An event goes into the tightest event that encloses it; where none does,
/// into the lowest lane that is free. Waits on a stream (they overlap what is waited for) have lanes of their own, behind
/// those of its work. O(n log lanes).
std::vector<LanePlace> lanesOf(const Trace& trace, std::span<const EventIndex> order);

}  // namespace spscope::trace
