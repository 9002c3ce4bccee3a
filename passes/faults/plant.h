// SPDX-License-Identifier: Apache-2.0
// Puts faults into graphs: where a kind of fault can be made in the graph after a pass, and the change itself. The manager calls
// plantFaults() after each pass, so that whoever compiles with Settings::faults gets them: verify, debug, bisect.
#pragma once

#include <string>
#include <vector>

#include "passes/pass.h"

namespace spscope::passes {

/// Nodes of the graph after `pass` at which the fault can be made, in program order. Not all make a difference.
std::vector<ir::NodeId> faultSites(const ir::Graph& graph, FaultKind kind, int ranks);

/// Makes one fault at a site. Returns the node that does wrong from now on. Errors: internal, where the node is no site.
Result<ir::NodeId> plantFault(ir::Graph& graph, const Fault& fault, ir::NodeId site, int ranks);

/// Those of context.settings.faults that belong to the pass and to context.rank. True where the graph was changed.
/// Errors: fault-no-site.
Result<bool> plantFaults(ir::Graph& graph, const std::string& pass, const PassContext& context);

/// What a rank's program depends on besides its class of shapes: faults of that rank alone. "" for most.
std::string faultClass(const Settings& settings, int rank);

}  // namespace spscope::passes
