// SPDX-License-Identifier: Apache-2.0
// Where a sharded step leaves the right way: both programs run node by node, every value that has a counterpart in the
// unsharded program is put together from the ranks by its placement and compared, and the first one that differs is named.
//
// All ranks run in this process, in lockstep. Values of the unsharded run are kept for a stretch of it that fits in a budget of
// memory; where they do not fit at once, both sides run again for the next stretch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/session/model.h"
#include "core/torch/compare.h"
#include "core/torch/executor.h"

namespace spscope::session {

struct FirstDifference {
  std::string node, value;      ///< of the sharded program; of the unsharded one where that has no such gradient
  std::string op, source, module;
  std::string pass;             ///< that made or last changed the node; "import": as in the file
  ir::NodeId node_id = ir::kNone;  ///< in the sharded program
  ir::Phase phase = ir::Phase::kForward;
  std::string reference_node;   ///< the node of the unsharded program whose value it should be
  std::string parameter;        ///< where the value is right as a part but not as the gradient of this parameter; "loss"
  std::vector<int> ranks;       ///< that are off; all of them for a partial sum. Never empty
  std::string placement;        ///< in words
  std::string remark;           ///< what else is known; may be empty
  /// Nodes between it and the values that were compared and are right: they have no counterpart, the mistake may be in them. In program order.
  std::vector<std::string> not_compared;
  double rel = 0.0;             ///< |difference| / |value|, the latter as verify counts it
  double max_abs = 0.0, max_rel = 0.0;  ///< of one element
  ir::Dims shape, index;        ///< of the whole value; of the element with max_abs
  double got = 0.0, wanted = 0.0;  ///< there
};

struct ValueComparison {
  std::optional<FirstDifference> first;
  std::int64_t compared = 0;      ///< values put together and compared
  std::int64_t alone = 0;         ///< values of a rank's program without a counterpart (those that sp.* begin not counted)
  std::int64_t runs = 0;          ///< of the sharded program
  bool equal = false;             ///< loss and gradients agree within the tolerance on every rank; unsettled: all values do
  bool gradients = false;         ///< both sides have some
  double loss = 0.0, reference_loss = 0.0, loss_rel = 0.0, grad_rel_max = 0.0;  ///< of the worst rank
};

struct Sides {
  std::shared_ptr<const ir::Graph> reference;              ///< the unsharded program; joint, or forward alone
  std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< of each rank; joint or local
  exec::TensorBag state, inputs;
  exec::Tolerance tolerance;
  exec::StepOptions step;       ///< its observer is not used
  bool values = true;           ///< false: loss and gradients only
  /// The sums over the ranks are not in the programs yet: partial values, what is computed from them and the results are left out.
  bool unsettled = false;
  std::int64_t budget_bytes = 0;  ///< for values of the unsharded run; 0: a GiB
};

/// Errors: those of Program::prepare, VirtualRanks and the executor.
Result<ValueComparison> compareValues(const Sides& sides, const Request& request);

}  // namespace spscope::session
