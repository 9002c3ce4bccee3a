// SPDX-License-Identifier: Apache-2.0
// Nsight Systems' SQLite export. Ranks are what used one GPU from one process: a process with several GPUs is several ranks,
// and its calls go to the rank whose work they launched.
#pragma once

#include <span>
#include <string>

#include "profiler/import/import.h"

namespace spscope::trace {

/// Opened read-only and immutable. Errors: file-missing, file-is-folder, file-unreadable, trace-unreadable (no export of
/// Nsight), trace-too-large, cancelled.
Result<Trace> readNsys(const std::string& path, const ImportOptions& options);
Result<Trace> readNsysBytes(std::span<const std::byte> bytes, const std::string& name, const ImportOptions& options);

}  // namespace spscope::trace
