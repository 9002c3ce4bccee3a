// SPDX-License-Identifier: Apache-2.0
// A trace as tables for spreadsheets and scripts: a folder with ranks.csv, events.csv, collectives.csv, memory.csv, nodes.csv,
// properties.csv and problems.csv (RFC 4180, UTF-8, a header line, times in ns). What is unknown is an empty cell, never 0.
#pragma once

#include <string>

#include "core/base/cancel.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

/// Makes the folder where it is not there; files of these names in it are replaced one by one, others stay.
/// Errors: file-unwritable, cancelled.
Status writeCsv(const Trace& trace, const std::string& folder, const ProgressFn& progress = {}, const CancelToken& cancel = {});

}  // namespace spscope::trace
