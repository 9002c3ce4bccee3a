// SPDX-License-Identifier: Apache-2.0
// The figures of a compilation as JSON fields and as a page; compile, verify and run show them alike.
#pragma once

#include "app/report.h"
#include "core/session/compile.h"

namespace spscope::app {

/// The program whose figures are shown, the class of ranks with the highest predicted peak; -1: there is none.
int shownProgram(const session::CompileOutcome& outcome);
/// Its memory report; null: none.
const passes::MemoryReport* shownReport(const session::CompileOutcome& outcome);
/// Every field of `spscope compile` (see its help).
void addCompileJson(Json& json, const session::CompileOutcome& outcome);
void addCompilePage(Page& page, const session::CompileOutcome& outcome, const passes::Settings& settings);

}  // namespace spscope::app
