// SPDX-License-Identifier: Apache-2.0
// One step on real ranks, with everything that a proof needs of it: each rank's loss and gradients.
#pragma once

#include <string>
#include <vector>

#include "core/session/compile.h"
#include "core/torch/executor.h"

namespace spscope::session {

/// Runs one step of `open`'s model on settings.sp processes; `ranks` is "gloo" (or "nccl"). Results by rank: loss,
/// gradients, peak_bytes. Errors: those of run(); a rank's failure, with outcome kRunFailed.
Result<std::vector<exec::StepResult>> stepOnProcesses(const OpenRequest& open, const passes::Settings& settings,
                                                      const DataRequest& data, const std::string& ranks, const Request& request);

}  // namespace spscope::session
