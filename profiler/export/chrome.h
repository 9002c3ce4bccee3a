// SPDX-License-Identifier: Apache-2.0
// Chrome JSON with Kineto's names: for Perfetto, chrome://tracing, and the tools that read PyTorch's profiler.
//
// Ranks are processes, threads and streams are tracks. Viewers drop or cut events that overlap without nesting: such
// events get tracks of their own ("... (lane 2)") and are counted. Times are microseconds with three decimals relative
// to baseTimeNanoseconds, written from integers. Strict JSON: no NaN, escaped control characters, valid UTF-8.
#pragma once

#include <optional>
#include <string>

#include "core/base/cancel.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

struct ChromeOptions {
  /// Only this rank (index into Trace::ranks), as PyTorch's tools want it: one file a rank.
  std::optional<std::int32_t> rank{};
  ProgressFn progress{};
  CancelToken cancel{};
};

/// Plain, or gzip where the path ends in .gz. What had to be split, left out or could not be drawn is counted in the
/// result. Errors: file-unwritable, cancelled.
Result<Problems> writeChrome(const Trace& trace, const std::string& path, const ChromeOptions& options = {});

}  // namespace spscope::trace
