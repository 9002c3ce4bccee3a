// SPDX-License-Identifier: Apache-2.0
// Where the sequence enters a program: the user inputs that follow it. One rule for all who ask (plan-sequence, the
// re-specialisation of static graphs).
#pragma once

#include <limits>

#include "core/base/diagnostics.h"
#include "core/ir/graph.h"
#include "passes/pass.h"

namespace spscope::passes {

/// As the dimension of a mark of Settings::sequence_marks: the value is whole on every rank. What asks "what if" writes such marks; they do
/// not say what the sequence is.
inline constexpr int kWholeMark = std::numeric_limits<int>::min();

/// Gives the sequence inputs factors with tags: the marked ones of `settings.sequence_marks`, else dim 1 of 2-D
/// input_ids, labels, position_ids and attention_mask, and of further integer inputs of the same shape (warning
/// sequence-assumed). The first dim is tagged as batch where it is not the sequence. Marks that name no input are left to others.
void tagInputs(ir::Graph& graph, const Settings& settings, DiagnosticSink& diagnostics);

}  // namespace spscope::passes
