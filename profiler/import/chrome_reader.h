// SPDX-License-Identifier: Apache-2.0
// Kineto's and other Chrome JSON, streamed: blocks of text, in them the extents of events, runs of events parsed at once.
#pragma once

#include <string>

#include "profiler/import/byte_source.h"
#include "profiler/import/import.h"

namespace spscope::trace {

/// `name` is Rank::file. Errors: trace-unreadable (no event and no traceEvents), trace-too-large, file-unreadable, cancelled.
Result<Trace> readChrome(ByteSource& source, const std::string& name, const ImportOptions& options);

}  // namespace spscope::trace
