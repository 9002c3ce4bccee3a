// SPDX-License-Identifier: Apache-2.0
// Where a model ends that counts positions in a table: an embedding that is read at the positions of the sequence has no rows
// behind its last one. Files with fixed shapes are checked when they get another length (position-table-short); this is for
// those whose length is a symbol, which open at any.
#pragma once

#include <optional>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace spscope::session {

/// Code position-table-short, with the node; empty where every table is long enough, or nothing says at what it is read.
/// `graph`: as imported.
std::optional<Error> shortPositionTable(const ir::Graph& graph);

}  // namespace spscope::session
