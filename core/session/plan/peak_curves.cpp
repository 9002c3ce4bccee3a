// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/peak_curves.h"

#include <algorithm>

namespace spscope::session {
namespace {

constexpr int kPoints = 33;

bool sameButPolicy(Configuration a, const Configuration& b) {
  a.save = b.save;
  return a == b;
}

}  // namespace

PeakCurves peakCurves(const PlanOutcome& outcome, std::size_t row) {
  PeakCurves out;
  if (row >= outcome.rows.size() || outcome.rows[row].illegal) return out;
  const PlanRow& here = outcome.rows[row];
  out.room = here.room;
  std::int64_t first = 0, last = 0;
  const auto add = [&](std::size_t i) {
    const PlanRow& r = outcome.rows[i];
    if (r.illegal || r.fit.points() < 2) return;
    out.curves.push_back({i, r.configuration.save, {}, r.max_seq, r.max_seq > 0 ? static_cast<double>(r.footprint.peak_high) : 0});
    first = first == 0 ? r.fit.shortest() : std::min(first, r.fit.shortest());
    last = std::max({last, r.max_seq, r.possible_seq, r.fit.shortest()});
  };
  add(row);
  for (std::size_t i = 0; i < outcome.rows.size(); ++i)
    if (i != row && sameButPolicy(outcome.rows[i].configuration, here.configuration)) add(i);
  last += std::max<std::int64_t>(last / 5, 1);
  for (PeakCurve& curve : out.curves) {
    const PlanRow& r = outcome.rows[curve.row];
    for (int k = 0; k < kPoints; ++k) {
      const std::int64_t seq = first + (last - first) * k / (kPoints - 1);
      const double bytes = r.fit.predict(seq);
      // A curve that has left the room far behind says nothing, and flattens those that matter.
      if (!curve.points.empty() && curve.points.back().bytes > 1.5 * std::max(1.0, r.room.hopeful)) break;
      curve.points.push_back({seq, bytes});
    }
  }
  return out;
}

}  // namespace spscope::session
