// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/respecialize.h"

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "passes/sequence/rules.h"
#include "passes/sequence/size_literals.h"
#include "passes/sequence/size_rules.h"
#include "passes/sequence/tag_inputs.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::Tag;
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

/// Gives the lengths to the tagged dims. False where no dim is the sequence.
class Seeder {
 public:
  Seeder(SizeSystem& system, SizeRules& rules, const LengthChange& change)
      : system_(system), rules_(rules), more_seq_(change.seq_to - change.seq_from),
        more_batch_(change.batch_to - change.batch_from) {}

  void inputs(const ir::Graph& tagged) {
    for (const ir::Input& input : tagged.inputs) {
      const ir::Value& v = tagged.value(input.value);
      for (std::size_t d = 0; d < v.factors.size(); ++d)
        for (const ir::Factor& f : v.factors[d]) {
          if (f.tag == Tag::kSequence) sequence(rules_.dims(input.value)[d]);
          if (f.tag == Tag::kBatch)
            for (Atom a : rules_.dims(input.value)[d]) system_.follow(a, more_batch_, Length::kBatch), batch_ = true;
        }
    }
  }
  void marks(const ir::Graph& graph, const Settings& settings) {
    for (const auto& [name, dim] : settings.sequence_marks)
      for (NodeId id : graph.order)
        for (ValueId v : graph.node(id).outputs) {
          if (v == kNone || (graph.value(v).name != name && graph.node(id).name != name)) continue;
          const int rank = static_cast<int>(graph.value(v).shape.size()), d = normDim(dim, rank);
          if (d >= 0 && d < rank) sequence(rules_.dims(v)[static_cast<std::size_t>(d)]);
        }
  }
  bool foundSequence() const { return sequence_; }
  bool foundBatch() const { return batch_; }

 private:
  void sequence(const AtomList& list) {
    for (Atom a : list) {
      system_.follow(a, more_seq_, Length::kSequence);
      sequence_ = true;
      break;  // of [S] only; a merged dim is marked at its outermost part
    }
  }
  SizeSystem& system_;
  SizeRules& rules_;
  std::int64_t more_seq_, more_batch_;
  bool sequence_ = false, batch_ = false;
};

void solve(SizeSystem& system, SizeRules& rules, std::int64_t length, DiagnosticSink& diagnostics) {
  const auto settle = [&](bool decide) {
    const bool a = system.propagate(decide);
    if (decide && a) return true;
    return rules.propagate(decide) || a;
  };
  while (!system.conflict())
    if (!settle(false) && !settle(true)) break;
  if (!system.conflict()) system.finish();
  if (!system.conflict()) rules.check(length, diagnostics);
}

}  // namespace

Result<ir::Graph> respecialize(const ir::Graph& imported, const Settings& settings, const LengthChange& change,
                               DiagnosticSink& diagnostics) {
  const bool seq = change.seq_to != change.seq_from, batch = change.batch_to != change.batch_from;
  if (!seq && !batch) return imported;
  ir::Graph graph = imported;
  graph.removeDeadNodes();  // what nothing reads must not forbid a length
  ir::Graph tagged = graph;
  DiagnosticSink unheard;  // plan-sequence tells the same once more
  tagInputs(tagged, settings, unheard);

  SizeSystem system;
  SizeRules rules(graph, system);
  Seeder seeder(system, rules, change);
  seeder.inputs(tagged);
  for (const ir::Input& input : graph.inputs)
    if (input.name == "position_ids" && input.kind == ir::InputKind::kUser) rules.assumePositions(input.value);
  rules.run();
  seeder.marks(graph, settings);
  if (seq && !seeder.foundSequence()) {
    Error e = makeError("seq-unmarked", change.seq_from == 1
                                            ? "the file was exported with a sequence of length 1: nothing in it shows what follows the sequence"
                                            : "no input of the graph is known to carry the sequence, so its length cannot be changed");
    e.legal = strf("--seq %lld", static_cast<long long>(change.seq_from));
    return e;
  }
  if (batch && !seeder.foundBatch()) {
    Error e = makeError("batch-static", "no dim of the inputs with more than one entry is known to be the batch");
    e.legal = strf("--batch %lld", static_cast<long long>(change.batch_from));
    return e;
  }
  solve(system, rules, seq ? change.seq_from : 0, diagnostics);
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
