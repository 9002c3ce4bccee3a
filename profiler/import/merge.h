// SPDX-License-Identifier: Apache-2.0
// Several traces as one: ranks one after the other, names interned again, every index moved.
#pragma once

#include <vector>

#include "core/base/result.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

/// In the order given. Properties that differ between traces get the prefix "rank.N.". Group names stay as they are: equal
/// ones are one group. Errors: trace-too-large.
Result<Trace> mergeTraces(std::vector<Trace> traces);

}  // namespace spscope::trace
