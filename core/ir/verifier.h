// SPDX-License-Identifier: Apache-2.0
// What must hold of a graph in each form. Run between passes; an error names the rule (code verify-*), node and source.
//
//   every form   verify-ids        ids, producers and output indices agree; no node twice in the order
//                verify-name       names of nodes and of values are unique and not empty
//                verify-use        every value used is an input or the output of an earlier node; storages exist
//                verify-output     outputs exist and their kinds fit (a gradient or update names its input)
//   global       verify-local      local shape == shape
//   planned ...  verify-mutation   no op that writes into its operand
//   planned,     verify-placement  factors multiply to the shape, the placement points into them, block sizes sum up
//   local        verify-local      local == shape (planned), == localShape(factors, placement, rank) (local)
//                verify-replicated replicated operands give replicated results and the other way round, sp.* aside
//   local, joint verify-collective sp.* ops have their arguments, and blocks that fit the operand
//   joint        verify-wait       each started collective is waited for once; its buffers are its own until then
//                verify-phase      no forward node after a backward one
//                verify-gradient   a gradient has its parameter's shape
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ir {

Status verifyGraph(const Graph& graph);

/// The collectives in program order, one a line, in a form that is the same for every class of ranks: op, phase, dtype,
/// dims, blocks, and the shape with the exchanged dimensions whole. Error: verify-collective.
Result<std::string> collectiveSequence(const Graph& graph);

}  // namespace spscope::ir
