// SPDX-License-Identifier: Apache-2.0
// Faults that are asked for become faults at one node: the model is compiled as it should be, and a site is chosen in the graph after
// the fault's pass.
#pragma once

#include <string>
#include <vector>

#include "core/session/compile.h"

namespace spscope::session {

/// A place where a fault can be made, in the program of `rank`.
struct FaultSite {
  passes::FaultKind kind = passes::FaultKind::kDropCollective;
  std::string pass, node;
};

/// All of them: kinds in the order of faultKinds(), their passes, nodes in program order. `compiled`: the right program, with its stages.
std::vector<FaultSite> faultSitesOf(const passes::Compiled& compiled, int ranks);

/// Fills in what the fault leaves open (by its seed) and what it will be called. Errors: fault-no-site, usage (rank).
Result<passes::Fault> resolveFault(const passes::Fault& fault, const std::vector<FaultSite>& sites, const passes::Compiled& compiled, int ranks);

/// The same from what was typed, as many as there are. Compiles once where there is any. Errors: also those of compile and parseFault.
Result<std::vector<passes::Fault>> resolveFaults(const Model& model, const passes::Settings& settings, const std::vector<std::string>& texts, const Request& request);

}  // namespace spscope::session
