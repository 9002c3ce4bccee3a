// SPDX-License-Identifier: Apache-2.0
// Why each value of the forward is kept, made again or freed: `compile --explain-memory`, as JSON and as a page.
#pragma once

#include "app/report.h"
#include "core/session/compile.h"

namespace spscope::app {

/// `values[]{node,source,decision,reason,bytes,recompute_ns}`, in the order of the program; `recompute_ns` at nominal rates.
void addValuesJson(Json& json, const session::CompileOutcome& outcome);
/// The decisions summed by reason, and the largest values of each kind.
void addValuesPage(Page& page, const session::CompileOutcome& outcome);

}  // namespace spscope::app
