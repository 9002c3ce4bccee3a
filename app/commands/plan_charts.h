// SPDX-License-Identifier: Apache-2.0
// A plan as curves for the page of --report.
#pragma once

#include "app/page.h"
#include "core/session/plan/plan.h"

namespace spscope::app {

/// The peak against the length, a curve for each memory policy of the row's mesh, and the device's line. Nothing where no
/// longest length was searched for.
void addPlanCharts(Page& page, const session::PlanOutcome& outcome, std::size_t row);

}  // namespace spscope::app
