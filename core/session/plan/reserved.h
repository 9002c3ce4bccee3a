// SPDX-License-Identifier: Apache-2.0
// What PyTorch's allocator of CUDA memory would reserve for a compiled program.
#pragma once

#include "core/base/result.h"
#include "passes/memory/allocation_trace.h"
#include "passes/pass.h"

namespace spscope::session {

/// `program` and its settings as `compile` leaves them; `expandable`: as PYTORCH_ALLOC_CONF=expandable_segments:True sets it; `least` is filled in. Errors: those of
/// rules that do not compile (Settings::rules).
Result<passes::ReplayFigures> reservedFor(const ir::Graph& program, const passes::Settings& settings, bool expandable = false);

}  // namespace spscope::session
