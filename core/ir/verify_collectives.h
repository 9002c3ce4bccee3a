// SPDX-License-Identifier: Apache-2.0
// The verifier's rules for sp.* nodes. Private to core/ir.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::ir {

/// An error of the verifier at a node, with its source.
Error nodeError(std::string_view code, const Graph& graph, const Node& node, std::string message);

/// Arguments, blocks and shapes; `local`: also that operand and result have the local shapes that the blocks ask for,
/// and (form local) the placements of core/ir/sp_ops.h.
Status verifySpNode(const Graph& graph, const Node& node, bool local);

/// The local shape that a plain collective's blocks give. Error: verify-collective.
Result<Dims> collectiveResult(const Graph& graph, const Node& plain);
/// sp.X_start, sp.wait and sp.unpack by themselves: arguments, buffers, shapes.
Status verifyPendingNode(const Graph& graph, const Node& node);

}  // namespace spscope::ir
