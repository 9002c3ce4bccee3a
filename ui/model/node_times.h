// SPDX-License-Identifier: Apache-2.0
// What an opened trace says about each node of the graph, rank by rank: how often it ran, how long, how much of that was
// waiting for other ranks and how much nothing else hid. Trace and graph meet by node id.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/cancel.h"
#include "core/ir/graph.h"
#include "ui/model/trace_document.h"

namespace spscope::ui {

/// Sums over all executions on one rank; nanoseconds. trace::kUnknown: the trace holds nothing of the kind.
struct RankNodeTime {
  std::int64_t rank = 0;               ///< its number
  std::int64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t device_ns = trace::kUnknown;
  std::int64_t communication_ns = trace::kUnknown;
  std::int64_t wait_ns = trace::kUnknown;
  std::int64_t exposed_ns = trace::kUnknown;  ///< of its communication: what no computation of that rank hid
};

struct NodeTimes {
  std::string plan_hash;  ///< of the run; "": the trace does not say
  std::unordered_map<ir::NodeId, std::vector<RankNodeTime>> of;  ///< ranks in the trace's order, those that ran it
  bool empty() const { return of.empty(); }
};

/// O(ranks * events log events): not for the window's thread. Stops early, with what it has, when cancelled.
NodeTimes nodeTimes(const TraceDocument& document, const CancelToken& cancel);

}  // namespace spscope::ui
