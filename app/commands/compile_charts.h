// SPDX-License-Identifier: Apache-2.0
// A compilation as curves for the page of --report, and its stages as lines of the log.
#pragma once

#include "app/page.h"
#include "core/session/compile.h"

namespace spscope::app {

/// Predicted memory along the step, and peak against what is computed again.
void addCompileCharts(Page& page, const session::CompileOutcome& outcome);

/// One line of level info for each stage.
void logStages(const session::CompileOutcome& outcome);

}  // namespace spscope::app
