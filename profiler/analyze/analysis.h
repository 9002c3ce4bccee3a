// SPDX-License-Identifier: Apache-2.0
// All analyses of one trace, in the order in which they need each other: what `trace report` and the window show.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "profiler/analyze/align.h"
#include "profiler/analyze/attention.h"
#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/collectives.h"
#include "profiler/analyze/critical_path.h"
#include "profiler/analyze/launches.h"
#include "profiler/analyze/memory.h"
#include "profiler/analyze/nodes.h"
#include "profiler/analyze/outliers.h"
#include "profiler/analyze/queue.h"
#include "profiler/analyze/statistics.h"

namespace spscope::trace {

struct Analysis {
  Alignment alignment;                       ///< without clocks where it was refused
  std::optional<Error> not_aligned;          ///< then nothing is compared between ranks
  WorkMap work;
  LaunchLinks launches;
  Outliers outliers;
  std::vector<Breakdown> breakdown;
  std::vector<Breakdown> without_outliers;   ///< empty where there are none
  std::optional<double> overlap;             ///< over all lanes; none: no communication
  std::vector<MatchedCollective> collectives;
  std::vector<CollectiveTotal> collective_totals;
  std::vector<Straggler> stragglers;
  std::optional<CriticalPath> path;
  std::optional<Error> no_path;
  std::vector<std::optional<std::int64_t>> exposed_on_path;  ///< by row of breakdown
  std::vector<MemoryUse> memory;
  std::vector<NodeMemory> node_memory;
  std::vector<NodeTime> nodes;
  std::vector<AttentionNode> attention;
  std::vector<NameTotal> names;
  std::vector<QueueLength> queues;
  Problems problems;                         ///< what the analyses found wrong; the readers' are in the trace
};

/// Puts the ranks on one clock first, which moves the trace's times; a trace that was aligned before is left as it is.
/// Error: cancelled.
Result<Analysis> analyze(Trace& trace, const CancelToken& cancel = {}, const ProgressFn& progress = {});

}  // namespace spscope::trace
