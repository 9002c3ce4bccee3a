// SPDX-License-Identifier: Apache-2.0
// run --nsys: the same command line again, under `nsys profile`, and what Nsight Systems then knows of it.
#pragma once

#include <string>

#include "app/report.h"
#include "core/session/model.h"

namespace spscope::app {

struct NsysRun {
  std::string base;   ///< BASE.nsys-rep and BASE.sqlite are written, and replaced
  bool cuda = false;  ///< trace CUDA, too
};

/// The nsys that would be used: SPSCOPE_NSYS, or the one on the path. "": none.
std::string findNsys();

/// Runs this process' command line without --nsys, --json and the like; its answer, with "nsys" added, is the report's. Gives
/// the exit code of the run. Errors: nsys-missing, nsys-failed (no report came out of it; the run itself may be well).
Result<int> runUnderNsys(const NsysRun& what, Report& report, const session::Request& request);

}  // namespace spscope::app
