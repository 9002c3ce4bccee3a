// SPDX-License-Identifier: Apache-2.0
// Writes the sizes that a solved SizeSystem found into a graph: shapes of values and literal arguments of nodes.
#pragma once

#include "core/base/diagnostics.h"
#include "passes/sequence/size_rules.h"

namespace spscope::passes {

/// `graph` is the one that the rules were stated for (same ids). Changed nodes get the provenance "respecialize".
void writeSizes(ir::Graph& graph, const SizeRules& rules);

/// Warns (seq-literal-kept) of literals equal to `length` that stayed: sizes that nothing explained, and numbers used as
/// values (x / 64), which may or may not be the length.
void warnKeptLiterals(const ir::Graph& graph, const SizeSystem& system, std::int64_t length, DiagnosticSink& diagnostics);

}  // namespace spscope::passes
