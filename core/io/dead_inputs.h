// SPDX-License-Identifier: Apache-2.0
// Inputs of a program that nothing of its results depends on. The usual reason: one tensor object was passed for two arguments
// at export (labels=input_ids), and both uses became uses of one of them.
#pragma once

#include "core/base/diagnostics.h"
#include "core/ir/graph.h"

namespace spscope::io {

/// Warning `dead-input` for each user input that no output and no write into a buffer depends on. O(graph).
void warnDeadInputs(const ir::Graph& graph, DiagnosticSink& diagnostics);

}  // namespace spscope::io
