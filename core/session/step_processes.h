// SPDX-License-Identifier: Apache-2.0
// One step on real ranks, with everything that a proof needs of it: each rank's loss and gradients.
#pragma once

#include <string>
#include <vector>

#include "core/session/verify.h"
#include "core/torch/executor.h"

namespace spscope::session {

/// Runs one step of what.open's model on settings.sp processes; what.ranks is "gloo" (or "nccl"). Results by rank: loss,
/// gradients, peak_bytes. Errors: those of run(); a rank's failure, with outcome kRunFailed.
Result<std::vector<exec::StepResult>> stepOnProcesses(const VerifyRequest& what, const Request& request);

}  // namespace spscope::session
