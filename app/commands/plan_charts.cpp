// SPDX-License-Identifier: Apache-2.0
#include "app/commands/plan_charts.h"

#include "app/plot.h"
#include "core/base/strings.h"
#include "core/session/plan/peak_curves.h"

namespace spscope::app {

void addPlanCharts(Page& page, const session::PlanOutcome& outcome, std::size_t row) {
  const session::PeakCurves curves = session::peakCurves(outcome, row);
  if (curves.curves.empty()) return;
  const session::Configuration& c = outcome.rows[row].configuration;
  Plot plot;
  plot.title = strf("Peak of one rank against the length: sp %d, dp %d, zero %d, %s", c.sp, c.dp, c.zero, c.tile_loss ? "tiled loss" : "whole loss");
  plot.x_label = "tokens";
  plot.y_label = "bytes";
  plot.bytes = true;
  plot.dots = false;
  for (const session::PeakCurve& curve : curves.curves) {
    Plot::Line line{curve.name, {}};
    for (const session::PeakCurve::Point& p : curve.points) line.points.push_back({static_cast<double>(p.seq), p.bytes, "", false});
    if (curve.longest > 0) {
      const Chart::Point longest{static_cast<double>(curve.longest), curve.bytes_there, std::to_string(curve.longest), true};
      auto at = line.points.begin();
      while (at != line.points.end() && at->x < longest.x) ++at;
      line.points.insert(at, longest);
    }
    plot.lines.push_back(std::move(line));
  }
  if (curves.room.sure > 0) plot.levels.push_back({curves.room.sure, "fits below: " + formatBytes(static_cast<std::int64_t>(curves.room.sure))});
  if (curves.room.hopeful > curves.room.sure) plot.levels.push_back({curves.room.hopeful, "perhaps below: " + formatBytes(static_cast<std::int64_t>(curves.room.hopeful))});
  page.picture(svg(plot));
}

}  // namespace spscope::app
