// SPDX-License-Identifier: Apache-2.0
#include "profiler/export/busy.h"

#include <map>

#include "profiler/analyze/intervals.h"
#include "profiler/analyze/work.h"

namespace spscope::trace {

std::vector<BusyStep> busyRanks(const Trace& trace) {
  const WorkMap map = classifyWork(trace);
  std::vector<std::vector<Interval>> ranks(trace.ranks.size());
  for (std::size_t e = 0; e < trace.events.size(); ++e) {
    if (map.lane[e] < 0 || map.work[e] == Work::kNone) continue;
    ranks[static_cast<std::size_t>(map.lanes[static_cast<std::size_t>(map.lane[e])].rank)].push_back({trace.events.start[e], trace.events.end[e]});
  }
  std::map<std::int64_t, std::int32_t> changes;
  for (auto& rank : ranks)
    for (const Interval& i : unionOf(std::move(rank))) ++changes[i.start], --changes[i.end];
  std::vector<BusyStep> out;
  std::int32_t busy = 0;
  for (const auto& [time, change] : changes)
    if (change != 0) out.push_back({time, busy += change});
  return out;
}

}  // namespace spscope::trace
