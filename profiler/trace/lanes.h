// SPDX-License-Identifier: Apache-2.0
// Events of one track may overlap without nesting; viewers want each row to nest. Lanes are the rows.
#pragma once

#include <span>
#include <vector>

#include "profiler/trace/trace.h"

namespace spscope::trace {

/// For each event of `order` (which comes from eventsByStart, or is a part of it) the lane of its track, from 0, so that any
/// two events of one track and lane either nest or do not overlap. An event goes into the tightest event that encloses it;
/// where none does, into the lowest lane that is free. O(n log lanes).
std::vector<std::int32_t> lanesOf(const Trace& trace, std::span<const EventIndex> order);

}  // namespace spscope::trace
