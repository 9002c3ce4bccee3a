// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/size_seeds.h"

#include "passes/sequence/rules.h"
#include "passes/sequence/tag_inputs.h"

namespace spscope::passes {

using ir::kNone;
using ir::NodeId;
using ir::Tag;
using ir::ValueId;

void LengthSeeds::inputs(const ir::Graph& graph, const Settings& settings) {
  ir::Graph tagged = graph;
  DiagnosticSink unheard;  // plan-sequence tells the same once more
  tagInputs(tagged, settings, unheard);
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

void LengthSeeds::marks(const ir::Graph& graph, const Settings& settings) {
  for (const auto& [name, dim] : settings.sequence_marks)
    for (NodeId id : graph.order)
      for (ValueId v : graph.node(id).outputs) {
        if (v == kNone || (graph.value(v).name != name && graph.node(id).name != name)) continue;
        const int rank = static_cast<int>(graph.value(v).shape.size()), d = normDim(dim, rank);
        if (d >= 0 && d < rank) sequence(rules_.dims(v)[static_cast<std::size_t>(d)]);
      }
}

void LengthSeeds::sequence(const AtomList& list) {
  for (Atom a : list) {
    system_.follow(a, more_seq_, Length::kSequence);
    sequence_ = true;
    break;  // of [S] only; a merged dim is marked at its outermost part
  }
}

void settle(SizeSystem& system, SizeRules& rules, std::int64_t length, DiagnosticSink& diagnostics) {
  const auto step = [&](bool decide) {
    const bool a = system.propagate(decide);
    if (decide && a) return true;
    return rules.propagate(decide) || a;
  };
  while (!system.conflict())
    if (!step(false) && !step(true)) break;
  if (!system.conflict()) system.finish();
  if (!system.conflict()) rules.check(length, diagnostics);
}

}  // namespace spscope::passes
