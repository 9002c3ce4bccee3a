// SPDX-License-Identifier: Apache-2.0
// The compile request for whoever compiles a model in many settings and runs none of them: a planner.
#pragma once

#include "core/session/compile.h"
#include "passes/shared_stages.h"

namespace spscope::session {

/// compile() with the same figures, without the manager's checks between passes (ManagerOptions::verify), and with what
/// earlier calls left in `shared`, where it is not null. Errors: those of compile.
Result<CompileOutcome> compileShared(const Model& model, const CompileRequest& what, passes::SharedStages* shared, const Request& request);

}  // namespace spscope::session
