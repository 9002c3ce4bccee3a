// SPDX-License-Identifier: Apache-2.0
// Which nodes of the final program a stage of the pipeline made or changed, whatever changed them later.
#pragma once

#include <set>
#include <string>

#include "passes/pipelines.h"

namespace spscope::session::debug {

/// By id, in the class of ranks whose stages are on record. `pattern`: names of stages, * and ? as elsewhere.
std::set<ir::NodeId> nodesOfStages(const passes::Compiled& compiled, const std::string& pattern);

}  // namespace spscope::session::debug
