// SPDX-License-Identifier: Apache-2.0
// What `spscope trace` can do with trace files: one function an action, one file each.
#pragma once

#include <string>
#include <vector>

#include "app/report.h"
#include "core/session/model.h"
#include "profiler/trace/trace.h"

namespace spscope::app {

struct TraceFlags {
  std::vector<std::string> files;
  bool hta = false;
  double peak_tflops = 0, peak_gbps = 0;  ///< 0: not known
  std::int64_t most = 15;                 ///< rows of a list on the page; the JSON object holds all
  std::string to, out;                    ///< export: "nsys", "chrome", "csv", "html"; the file or folder
};

/// The files as one trace, with progress. Errors: those of trace::importTraces.
Result<trace::Trace> readTraces(const std::vector<std::string>& files, const session::Request& request);
/// Whether its ranks took turns in one process (`run --ranks virtual`): their times in collectives say nothing of a network.
bool virtualRanks(const trace::Trace& trace);
/// "ranks", "events", "virtual", "format" and "problems{}" as every action gives them; `more`: problems that the action found.
void fillTraceHead(Json& json, const trace::Trace& trace, const trace::Problems& more);

/// Whether a file's first bytes are a trace's (SQLite, gzip, JSON) and no model's or stage's.
bool looksLikeTrace(const std::string& path);
/// spscope diff of two traces.
Result<int> diffTraces(const std::string& a, const std::string& b, bool exit_code, Report& report, const session::Request& request);

/// What the files hold.
Result<int> traceInfo(const TraceFlags& flags, Report& report, const session::Request& request);
/// Writes them in another format; several ranks are put on one clock first.
Result<int> traceExport(const TraceFlags& flags, Report& report, const session::Request& request);
/// Analyses them.
Result<int> traceReport(const TraceFlags& flags, Report& report, const session::Request& request);

}  // namespace spscope::app
