// SPDX-License-Identifier: Apache-2.0
// The answer of `spscope plan` as JSON and for people.
#pragma once

#include "app/report.h"
#include "core/session/plan/plan.h"

namespace spscope::app {

/// Legal rows stand first.
std::size_t legalRows(const session::PlanOutcome& outcome);
/// The row that levers are shown from where none was named: the one with the least work, which needs them most.
std::size_t startOfLevers(const session::PlanOutcome& outcome, session::PlanWant want);
/// `row`: whose levers and run command are given.
void addPlanJson(Json& json, const session::PlanRequest& what, const session::PlanOutcome& outcome, std::size_t row);
/// `explain`: that row by class, and its run command.
Page planPage(const session::PlanRequest& what, const session::PlanOutcome& outcome, std::size_t row, bool explain);

}  // namespace spscope::app
