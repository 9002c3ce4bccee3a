// SPDX-License-Identifier: Apache-2.0
// Where a step's numbers stop being numbers: the first node whose result is NaN or infinite though nothing that it read is, what it read
// there, and why that gives no number. The infinities that masks are made of are none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/session/debug/answers.h"
#include "core/session/first_difference.h"

namespace spscope::session::debug {

struct TroubleOperand {
  std::string argument, value;  ///< "other", "sum_3"
  ir::DType dtype = ir::DType::kUnknown;
  ir::Dims shape;
  std::optional<double> there;  ///< the element that the wrong one was computed from, where that is one
  double min = 0.0, max = 0.0;  ///< of the finite elements
  std::int64_t nan = 0, inf = 0;
};

struct Trouble {
  bool input = false;           ///< a weight or an input holds it: nothing computed it
  NodeName node;                ///< an input: name only
  std::string pass;             ///< that made or last changed the node
  std::string value;
  ir::DType dtype = ir::DType::kUnknown;
  std::vector<int> ranks;       ///< that have it at this node; never empty
  bool is_nan = false;          ///< else infinite
  std::int64_t nan = 0, inf = 0, count = 0;  ///< elements of the first of the ranks
  ir::Dims index;               ///< of the first such element there
  double got = 0.0;             ///< it
  std::optional<double> exact;  ///< what the op makes of the same operands in float64, there; empty: not known
  std::string why;              ///< "0 / 0"; in one sentence
  std::vector<TroubleOperand> operands;  ///< on the first of the ranks
};

struct TroubleReport {
  std::optional<Trouble> first;
  std::int64_t values = 0;      ///< looked at, over all ranks
  std::int64_t masks = 0;       ///< of them with infinities that came from a mask
};

/// Runs the ranks' step, apart from any other, as far as the first trouble. Errors: those of prepareRanks and the executor.
Result<TroubleReport> firstTrouble(const Sides& sides, const Request& request);

}  // namespace spscope::session::debug
