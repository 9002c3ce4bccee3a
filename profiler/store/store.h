// SPDX-License-Identifier: Apache-2.0
// The native trace file: one SQLite database that Nsight Systems' own reports read (schema.h), and that gives back the
// trace exactly. Foreign traces are exported for Nsight by the same writer.
#pragma once

#include <string>

#include "core/base/cancel.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

/// Writes under a temporary name and renames: an older file stays until the new one is whole. No journal is left beside
/// it, since readers that open it immutable would not see what lies there.
/// Errors: file-unwritable (the disk is full, no permission), cancelled.
Status writeStore(const Trace& trace, const std::string& path, const ProgressFn& progress = {}, const CancelToken& cancel = {});

/// What writeStore wrote, equal in all fields. A file of a newer version, with damaged rows or missing tables is read as
/// far as it goes; Trace::problems says what was wrong. Indices of what comes back are valid whatever the file holds.
/// Errors: file-missing, file-unreadable, file-is-folder, trace-unreadable (no SQLite file, or none of ours), cancelled.
Result<Trace> readStore(const std::string& path, const ProgressFn& progress = {}, const CancelToken& cancel = {});

/// Whether the file at `path` is one that readStore takes. False where it cannot be opened.
bool isStore(const std::string& path);

}  // namespace spscope::trace
