// SPDX-License-Identifier: Apache-2.0
// The spools of one run's ranks as one Trace.
//
// Ranks of one machine (one boot of one kernel) share CLOCK_MONOTONIC and are on one clock as they are ("same-clock");
// others are on the wall clock of their machine (method "none") until they are aligned.
#pragma once

#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

/// Reads the files in this order; ranks of the trace likewise. A file that ends early (its rank was killed) is read up to its
/// last whole block and counted as truncated. Errors: file-unreadable (not there, or not a spool), cancelled.
Result<Trace> readSpools(const std::vector<std::string>& paths, const CancelToken& cancel = {});

}  // namespace spscope::trace
