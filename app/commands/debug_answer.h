// SPDX-License-Identifier: Apache-2.0
// The debugger's answers as text and as JSON.
#pragma once

#include "app/report.h"
#include "core/session/debug/command.h"

namespace spscope::app {

Page debugPage(const session::debug::Answer& answer);
Json debugJson(const session::debug::Answer& answer);

/// "min -1, mean 0, max 1, zeros 0 %, NaN 3, first at [0, 5]".
std::string figuresOf(const session::debug::RankValue& value);

/// Where a step differs from the unsharded one; null where it does not.
Json differenceJson(const std::optional<session::FirstDifference>& difference);

/// Faults made on purpose, as they were resolved: "fault" makes the same one again. "rank" null: on all.
Json plantedJson(const std::vector<passes::Fault>& faults);

}  // namespace spscope::app
