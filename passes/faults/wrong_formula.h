// SPDX-License-Identifier: Apache-2.0
// Derivatives by another formula, as people get them wrong: a sign, a factor, a forgotten term.
#pragma once

#include "passes/faults/graph_change.h"

namespace spscope::passes {

bool hasWrongFormula(const ir::Graph& graph, const ir::Node& node);
/// The node computes something else of the same shape from then on. Returns it.
ir::NodeId putWrongFormula(GraphChange& change, ir::NodeId node);

}  // namespace spscope::passes
