// SPDX-License-Identifier: Apache-2.0
#include "app/commands/compile_charts.h"

#include <algorithm>

#include "app/commands/compile_report.h"
#include "core/base/log.h"
#include "core/base/strings.h"

namespace spscope::app {

void addCompileCharts(Page& page, const session::CompileOutcome& outcome) {
  const passes::MemoryCurve& memory = outcome.figures.memory;
  Chart along{"Memory of one rank along the step, predicted", "node of the step", "bytes", {}, true, false};
  for (std::size_t i = 0; i < memory.live.size(); ++i) {
    const bool peak = static_cast<std::int32_t>(i) == memory.peak_position;
    along.points.push_back({static_cast<double>(i), static_cast<double>(memory.live[i]),
                            peak ? "peak " + formatBytes(memory.peak) + (outcome.figures.peak_node.empty() ? "" : " at " + outcome.figures.peak_node) : "", peak});
  }
  along.points = peaksOf(along.points, 600);

  Chart choices{"What could be saved: peak against computing again", "ms of computing again in one step, predicted", "peak of one rank", {}, true, true};
  if (const passes::MemoryReport* report = shownReport(outcome)) {
    const auto add = [&](const passes::SavingPoint& p, bool chosen) {
      choices.points.push_back({static_cast<double>(p.recompute_ns) / 1e6, static_cast<double>(p.peak_bytes),
                                (chosen ? "taken: " : "") + formatBytes(p.peak_bytes) + ", " + std::to_string(p.recompute_nodes) + " nodes again", chosen});
    };
    for (std::size_t i = 0; i < report->points.size(); ++i) add(report->points[i], static_cast<int>(i) == report->chosen);
    add(report->save_all, report->chosen < 0);
  }
  std::stable_sort(choices.points.begin(), choices.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  if (along.points.size() < 2) return;
  page.heading("Curves");
  page.chart(std::move(along));
  page.chart(std::move(choices));
}

void logStages(const session::CompileOutcome& outcome) {
  for (const passes::StageRecord& s : outcome.compiled.stages)
    log::info("compile", strf("stage %s: %s, %lld nodes, %lld changed", s.name.c_str(), formatNs(s.ns).c_str(), static_cast<long long>(s.nodes),
                              static_cast<long long>(s.changed_nodes)));
  log::info("compile", "plan " + outcome.compiled.plan_hash);
}

}  // namespace spscope::app
