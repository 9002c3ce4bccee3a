// SPDX-License-Identifier: Apache-2.0
// A static graph for another sequence length: `--seq N` (and `--batch B`) on a file exported with fixed shapes.
//
// The exporter baked the length into the sizes of views, expands, ranges, slices and constants. Which numbers are the
// length is found by data flow, never by value: from the tagged inputs (tag_inputs.h) sizes flow through what must agree
// (operands of an addition, inner dims of a product, q and k of attention, a mask against them), forwards and backwards,
// so that arange(64), ones([64, 64]) or a slice of a position table follow because of what they meet. S, S-1 behind a
// shift and S+1 behind a pad change by the same difference; a part S/k changes with it where it divides (the outer part,
// or the one that the file writes as -1). A parameter, buffer or constant never changes size; a slice of one may, up to
// its end. Example, S = 64 to 96:
//
//   Before:  %arange = aten.arange.default(end=64)            %view = aten.view.default(self=%q, size=[2, 64, -1, 8])
//   After:   %arange = aten.arange.default(end=96)            %view = aten.view.default(self=%q, size=[2, 96, -1, 8])
//
// Refuses (seq-literal; batch-static for the batch) with the node, the reason and the file's length as what is legal:
//   - a stored tensor that would have to change ("buffer bias has 64 entries in dim 2"), a position table that is too short;
//   - a part that does not divide; a slice or index whose literal may be counted from the start or from the end;
//   - an op without a rule on the way.
// Warns (seq-literal-kept) of numbers equal to the old length that nothing explains: they stay as they are.
#pragma once

#include <cstdint>

#include "core/base/diagnostics.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "passes/pass.h"

namespace spscope::passes {

/// Lengths of the graph and those wanted. 0 for a batch that is not to change.
struct LengthChange {
  std::int64_t seq_from = 0, seq_to = 0;
  std::int64_t batch_from = 0, batch_to = 0;
};

/// The imported (kGlobal) graph with the other lengths: nodes, names and ids stay, nodes that nothing reads go; shapes and
/// literals are new. `settings`
/// gives the marks. Sizes of user inputs change with the graph's: read them from its values afterwards.
/// Errors: seq-literal, batch-static, seq-unmarked (nothing says what the sequence is).
Result<ir::Graph> respecialize(const ir::Graph& imported, const Settings& settings, const LengthChange& change,
                               DiagnosticSink& diagnostics);

/// The same for the sequence alone.
Result<ir::Graph> respecializeSequence(const ir::Graph& imported, const Settings& settings, std::int64_t old_seq,
                                       std::int64_t new_seq, DiagnosticSink& diagnostics);

}  // namespace spscope::passes
