// SPDX-License-Identifier: Apache-2.0
// A picture of a plan: the peak against the length, a curve for each memory policy, and what the device has for it. For pages
// and for the window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/session/plan/plan.h"

namespace spscope::session {

struct PeakCurve {
  struct Point {
    std::int64_t seq = 0;
    double bytes = 0;     ///< at the bad end
  };
  std::size_t row = 0;    ///< of the outcome
  std::string name;       ///< of the policy
  std::vector<Point> points;  ///< by rising length, from the fit
  std::int64_t longest = 0;   ///< that surely fits; 0: none does
  double bytes_there = 0;     ///< compiled; 0 where none fits
};

struct PeakCurves {
  std::vector<PeakCurve> curves;  ///< of the rows that differ from the one that was asked for in their policy only, that one first
  Room room;                      ///< the same for all of them
};

/// Around row `row`, from the shortest length that was compiled to somewhat beyond where the last curve leaves the room. Empty
/// where nothing was searched for (PlanWant other than kMaxSeq), or where the row is not legal.
PeakCurves peakCurves(const PlanOutcome& outcome, std::size_t row);

}  // namespace spscope::session
