// SPDX-License-Identifier: Apache-2.0
// Content hashes of a graph, without printing it. Value ids do not count, what defines a value does; provenance,
// locations do not count either. Equal in every process and on every machine of one byte order.
#pragma once

#include <string>

#include "core/base/hash.h"
#include "core/ir/graph.h"

namespace spscope::ir {

/// What a program computes and how: ops, arguments, types, placements, phases, storages, inputs, outputs, mesh, rank.
/// Names and ids of nodes do not count, names of inputs do.
std::string planHash(const Graph& graph);

/// All of that, and the nodes' ids and the names: what the manager compares to see whether a pass told the truth.
std::string contentHash(const Graph& graph);

}  // namespace spscope::ir
