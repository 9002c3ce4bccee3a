// SPDX-License-Identifier: Apache-2.0
// A wrong placement rule: attention may be cut on the sequence as if each token were computed by itself. Then nothing is exchanged
// around it, and every rank attends to its own block only.
#pragma once

#include "passes/faults/graph_change.h"

namespace spscope::passes {

/// An attention of a planned graph whose operands and result are exchanged from and to the sequence.
bool canBeLocal(const ir::Graph& graph, ir::NodeId attention);
/// Takes the redistributions away and places all between them on the sequence. Returns the attention.
ir::NodeId makeLocal(GraphChange& change, ir::NodeId attention);

}  // namespace spscope::passes
