// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/analysis.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::trace {
namespace {

/// What an earlier alignment noted in the ranks; nothing where there was none.
std::optional<Alignment> alignedBefore(const Trace& trace) {
  Alignment out;
  for (const Rank& rank : trace.ranks) {
    if (rank.clock.method == "none") return std::nullopt;
    out.clocks.push_back(rank.clock);
    out.residual_ns = std::max(out.residual_ns, rank.clock.residual_ns);
  }
  if (trace.ranks.size() < 2) return std::nullopt;
  out.method = trace.ranks.front().clock.method;
  return out;
}

std::optional<double> overlapOf(const std::vector<Breakdown>& rows) {
  std::int64_t communication = 0, overlapped = 0;
  for (const Breakdown& row : rows)
    if (row.absent.empty()) communication += row.communication_ns, overlapped += row.overlapped_communication_ns;
  if (communication == 0) return std::nullopt;
  return static_cast<double>(overlapped) / static_cast<double>(communication);
}

void countProblems(const Trace& trace, Analysis& a) {
  const auto& category = trace.events.category;
  const bool calls = std::find(category.begin(), category.end(), Category::kRuntime) != category.end();
  if (calls) a.problems.count(Problem::kUnmatchedLaunch, "device work", a.launches.unlaunched);
  if (a.launches.early > 0)
    a.problems.count(Problem::kEarlyStart, "at most " + formatNs(a.launches.worst_early_ns), a.launches.early);
  if (!a.outliers.events.empty())
    a.problems.count(Problem::kOutlier, "at most " + formatNs(a.outliers.events.front().duration_ns),
                     static_cast<std::int64_t>(a.outliers.events.size()));
  for (const MatchedCollective& c : a.collectives)
    if (!a.not_aligned && trace.ranks.size() > 1 && !c.why_not.empty())
      a.problems.count(Problem::kUnmatchedCollective, std::string(trace.strings.text(c.kind)) + ": " + c.why_not);
}

}  // namespace

Result<Analysis> analyze(Trace& trace, const CancelToken& cancel, const ProgressFn& progress) {
  Analysis a;
  std::int64_t done = 0;
  const auto step = [&](std::string_view what) -> Status {
    if (progress) progress({what, done++, 9});
    return cancel.check();
  };
  SP_TRY(step("putting the ranks on one clock"));
  if (auto before = alignedBefore(trace)) {
    a.alignment = std::move(*before);
  } else if (auto found = align(trace)) {
    a.alignment = std::move(*found);
    applyAlignment(trace, a.alignment);
  } else {
    a.not_aligned = found.error();
  }
  SP_TRY(step("looking for durations that cannot be"));
  a.work = classifyWork(trace);
  a.launches = linkLaunches(trace);
  a.outliers = findOutliers(trace);
  SP_TRY(step("breaking the time down"));
  a.breakdown = breakdown(trace, a.work);
  if (!a.outliers.events.empty()) a.without_outliers = breakdown(trace, a.work, a.outliers.left_out);
  a.overlap = overlapOf(a.breakdown);
  SP_TRY(step("matching collectives"));
  a.collectives = matchCollectives(trace, !a.not_aligned, a.not_aligned ? a.not_aligned->message : "");
  a.collective_totals = collectiveTotals(trace, a.collectives);
  a.stragglers = stragglers(a.collectives);
  SP_TRY(step("finding the critical path"));
  if (auto path = criticalPath(trace, a.work, a.collectives, !a.not_aligned)) a.path = std::move(*path);
  else a.no_path = path.error();
  a.exposed_on_path.resize(a.breakdown.size());
  if (a.path)
    for (std::size_t i = 0; i < a.breakdown.size(); ++i)
      if (a.breakdown[i].absent.empty())
        a.exposed_on_path[i] = exposedOnPath(*a.path, a.breakdown[i].lane.rank, a.breakdown[i].exposed_communication);
  SP_TRY(step("adding up the memory"));
  a.memory = memoryUse(trace);
  a.node_memory = memoryByNode(trace);
  SP_TRY(step("adding up nodes"));
  a.nodes = timeByNode(trace, a.work);
  a.attention = attentionKernels(trace);
  SP_TRY(step("adding up names"));
  a.names = totalsByName(trace, a.work);
  SP_TRY(step("counting queues"));
  a.queues = queueLengths(trace);
  countProblems(trace, a);
  return a;
}

}  // namespace spscope::trace
