// SPDX-License-Identifier: Apache-2.0
// How far the ranks' numbers are from exact ones, node by node: the same step in float64 beside theirs. Which ops lose the digits, which
// rank is out of line with the others, and what a 16-bit type could not hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/session/debug/answers.h"
#include "core/session/debug/reference.h"

namespace spscope::session::debug {

struct CurvePoint {
  NodeName node;
  std::string value, placement;
  ir::DType dtype = ir::DType::kUnknown;
  double error = 0.0;    ///< |ranks' - exact| / |exact|
  double before = 0.0;   ///< the largest error of what it was computed from
  double growth = 1.0;   ///< error / before; before counts as at least one rounding
  double cancels = 1.0;  ///< |exact| / that of its largest operand: far below 1 where large terms make up a small result
  std::vector<double> rank_error;  ///< of each rank's part; empty for a sum over the ranks
  std::int64_t elements = 0, saturated = 0, flushed = 0, subnormal = 0;  ///< 16-bit values: see exec::RangeLoss; else 0
};

struct RankOutOfLine {
  int rank = 0;
  std::string node, value;  ///< where it was first
  double error = 0.0, others = 0.0;  ///< there: of its part, and the median of the other ranks'
};

struct ErrorCurve {
  ir::DType working = ir::DType::kUnknown;  ///< what the ranks compute in: the lowest type of the program
  double roundoff = 0.0;                    ///< of it: one rounding
  std::vector<CurvePoint> points;           ///< in the order of the program; nodes of the recomputation are left out
  std::vector<std::size_t> losers;          ///< of points, that lose most digits first
  std::vector<std::size_t> out_of_range;    ///< of points, that lose the largest share of their elements to their type's range first
  std::vector<RankOutOfLine> out_of_line;
  std::int64_t alone = 0;                   ///< values that the step in float64 lacks
};

/// Runs the ranks' step and the one in float64, apart from any other. Errors: debug-no-origin, those of makeReference and the executor.
Result<ErrorCurve> errorCurve(const Sides& sides, const Origin* origin, const Request& request);

}  // namespace spscope::session::debug
