// SPDX-License-Identifier: Apache-2.0
// Training with all ranks in this process: slower than real ranks, but nothing is started and everything can be seen.
#pragma once

#include "core/session/run.h"

namespace spscope::session {

/// `out.compiled` must hold the program of every rank. Fills steps, peaks, saved_to, cancelled.
Status runVirtual(const Model& model, const RunRequest& what, const Request& request, const OnStep& on_step, RunOutcome& out);

}  // namespace spscope::session
