// SPDX-License-Identifier: Apache-2.0
// The analyses of a trace for a person: short tables, the largest first, with units.
#pragma once

#include "app/page.h"
#include "profiler/analyze/analysis.h"
#include "profiler/analyze/hta.h"

namespace spscope::app {

struct TracePage {
  const trace::Trace& trace;
  const trace::Analysis& analysis;
  const std::vector<trace::HtaRank>& hta;  ///< empty: not asked for
  trace::Peak peak;
  std::size_t most = 15;                   ///< rows of a list
};
void describeTrace(Page& page, const TracePage& what);

}  // namespace spscope::app
