// SPDX-License-Identifier: Apache-2.0
// What a recorded run says about a program's nodes: the hot ones, and the rates at which this machine really computes, for
// the model by which recomputation is priced (`compile --costs-from`). A trace and a program meet by node id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/diagnostics.h"
#include "core/ir/graph.h"
#include "core/session/model.h"
#include "passes/pass.h"

namespace spscope::session {

struct HotNode {
  ir::NodeId node = ir::kNone;
  std::string name, op, stage, source, module;
  std::int64_t measured_ns = 0;   ///< of one execution, the mean over ranks and steps
  std::int64_t predicted_ns = 0;  ///< at the rates that the pipeline uses; 0: none
  double share = 0;               ///< of all time in nodes
};

struct MeasuredCosts {
  std::vector<std::string> paths;
  std::string plan_hash;            ///< of the run that was recorded; "": the trace does not say
  std::vector<HotNode> nodes;       ///< the hottest first
  std::int64_t executions = 0;
  /// What was measured, for Settings; 0: the trace holds nothing to tell it from.
  double flops_per_ns = 0;          ///< contractions and attention: their flops over their time
  double bytes_per_ns = 0;          ///< everything else that moves bytes
};

/// Errors: those of importTraces; trace-without-nodes where no event names a node of a graph.
Result<MeasuredCosts> measureCosts(const std::vector<std::string>& paths, const Request& request);

/// Rates for the bytes need the program that ran: fills `bytes_per_ns`, and `predicted_ns` at the settings' rates. Nodes that the
/// program lacks are left as they are. A plan hash that differs is a warning (costs-other-plan) in `diagnostics`.
void joinCosts(MeasuredCosts& costs, const ir::Graph& program, const std::string& plan_hash, const passes::Settings& settings, DiagnosticSink& diagnostics);

}  // namespace spscope::session
