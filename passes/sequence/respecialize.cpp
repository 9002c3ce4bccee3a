// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/respecialize.h"

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "passes/sequence/size_literals.h"
#include "passes/sequence/size_rules.h"
#include "passes/sequence/size_seeds.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

Error refusal(const ir::Graph& graph, const SizeConflict& conflict, const LengthChange& change) {
  const bool batch = conflict.length == Length::kBatch;
  const std::int64_t from = batch ? change.batch_from : change.seq_from, to = batch ? change.batch_to : change.seq_to;
  std::string what = conflict.reason.empty() ? strf("a size of %lld is fixed", static_cast<long long>(conflict.size)) : conflict.reason;
  if (conflict.wanted != 0) what += strf("; it would have to be %lld", static_cast<long long>(conflict.wanted));
  Error e = makeError(batch ? "batch-static" : "seq-literal",
                      strf("the %s of %lld in the file cannot become %lld: %s", batch ? "batch" : "sequence length",
                           static_cast<long long>(from), static_cast<long long>(to), what.c_str()));
  e.legal = strf("--%s %lld", batch ? "batch" : "seq", static_cast<long long>(from));
  if (conflict.at != kNone) {
    const ir::Node& n = graph.node(conflict.at);
    e.node = n.name;
    if (n.location) e.source = n.location->source;
    e.notes.push_back(ir::nodeText(graph, n));
  }
  return e;
}

}  // namespace

Result<ir::Graph> respecialize(const ir::Graph& imported, const Settings& settings, const LengthChange& change,
                               DiagnosticSink& diagnostics) {
  const bool seq = change.seq_to != change.seq_from, batch = change.batch_to != change.batch_from;
  if (!seq && !batch) return imported;
  ir::Graph graph = imported;
  graph.removeDeadNodes();  // what nothing reads must not forbid a length
  SizeSystem system;
  SizeRules rules(graph, system);
  LengthSeeds seeds(system, rules, change);
  seeds.inputs(graph, settings);
  for (const ir::Input& input : graph.inputs)
    if (input.name == "position_ids" && input.kind == ir::InputKind::kUser) rules.assumePositions(input.value);
  rules.run();
  seeds.marks(graph, settings);
  if (seq && !seeds.foundSequence()) {
    Error e = makeError("seq-unmarked", change.seq_from == 1
                                            ? "the file was exported with a sequence of length 1: nothing in it shows what follows the sequence"
                                            : "no input of the graph is known to carry the sequence, so its length cannot be changed");
    e.legal = strf("--seq %lld", static_cast<long long>(change.seq_from));
    return e;
  }
  if (batch && !seeds.foundBatch()) {
    Error e = makeError("batch-static", "no dim of the inputs with more than one entry is known to be the batch");
    e.legal = strf("--batch %lld", static_cast<long long>(change.batch_from));
    return e;
  }
  settle(system, rules, seq ? change.seq_from : 0, diagnostics);
  if (system.conflict()) return refusal(graph, *system.conflict(), change);

  for (NodeId id : graph.order)
    for (ValueId v : graph.node(id).outputs) {
      if (v == kNone || imported.value(v).shape == rules.newShape(v)) continue;
      for (std::size_t d = 0; d < imported.value(v).shape.size(); ++d)
        if (imported.value(v).shape[d] > 0 && rules.newShape(v)[d] <= 0) {
          const AtomList& list = rules.dims(v)[d];
          return refusal(imported, {id, system.lengthOf(list), imported.value(v).shape[d], rules.newShape(v)[d], "a value would be empty"}, change);
        }
    }
  if (seq) warnKeptLiterals(graph, system, change.seq_from, diagnostics);
  ir::Graph out = graph;  // the rules still read the old shapes
  writeSizes(out, rules);
  return out;
}

Result<ir::Graph> respecializeSequence(const ir::Graph& imported, const Settings& settings, std::int64_t old_seq,
                                       std::int64_t new_seq, DiagnosticSink& diagnostics) {
  return respecialize(imported, settings, {old_seq, new_seq, 0, 0}, diagnostics);
}

}  // namespace spscope::passes
