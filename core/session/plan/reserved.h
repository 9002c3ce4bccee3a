// SPDX-License-Identifier: Apache-2.0
// What PyTorch's allocator of CUDA memory would reserve for a compiled program.
#pragma once

#include "core/base/result.h"
#include "passes/memory/allocation_trace.h"
#include "passes/pass.h"

namespace spscope::session {

/// `program` and its settings as `compile` leaves them; without expandable segments; `least` is filled in. Errors: those of
/// rules that do not compile (Settings::rules).
Result<passes::ReplayFigures> reservedFor(const ir::Graph& program, const passes::Settings& settings);

}  // namespace spscope::session
