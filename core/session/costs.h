// SPDX-License-Identifier: Apache-2.0
// What a recorded run says about a program's nodes: the hot ones, and the rates at which this machine really computes, for
// the model by which recomputation is priced (`compile --costs-from`). A trace and a program meet by the nodes' names (by id where
// the trace has no names), and by their ops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/diagnostics.h"
#include "core/ir/graph.h"
#include "core/session/model.h"
#include "passes/pass.h"
#include "passes/pipelines.h"

namespace spscope::session {

struct HotNode {
  ir::NodeId node = ir::kNone;
  std::string name, op, stage, source, module;
  std::int64_t measured_ns = 0;   ///< of one execution, the mean over ranks and steps
  std::int64_t predicted_ns = 0;  ///< at the rates that the pipeline uses; 0: none
  double share = 0;               ///< of all time in nodes
  std::int64_t runs = 0;          ///< executions, over ranks and steps
  std::int64_t flops = 0;         ///< of one, as the trace has it; 0: it does not say, or there are none
};

struct MeasuredCosts {
  std::vector<std::string> paths;
  std::string plan_hash;            ///< of the run that was recorded; "": the trace does not say
  std::string graph_hash;           ///< ir::planHash of its planned graph: equal where model, lengths and ranks are; "": not said
  std::vector<HotNode> nodes;       ///< the hottest first
  std::int64_t executions = 0;
  double joined_share = 0;          ///< of the time in nodes: those that this program has, too
  /// What was measured, for Settings; 0: nothing to tell it from, the nominal rate holds.
  double flops_per_ns = 0;          ///< contractions and attention: their flops over their time
  double bytes_per_ns = 0;          ///< everything else that moves bytes
};

/// Errors: those of importTraces; trace-without-nodes where no event names a node of a graph.
Result<MeasuredCosts> measureCosts(const std::vector<std::string>& paths, const Request& request);

/// Fills the rates, and `predicted_ns` at the settings' rates, from the program that is compiled now; nodes that it lacks are left
/// as they are. A trace of another length, precision or number of ranks (its graph hash differs) is a warning
/// (costs-other-plan) in `diagnostics`, and gives no rate but that of the flops that stand in the trace itself.
/// Error costs-other-model: less than half of the time in the trace's nodes belongs to nodes of this program.
Status joinCosts(MeasuredCosts& costs, const ir::Graph& program, const passes::Compiled& compiled, const passes::Settings& settings, DiagnosticSink& diagnostics);

}  // namespace spscope::session
