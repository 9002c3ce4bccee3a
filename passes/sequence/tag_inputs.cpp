// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/tag_inputs.h"

#include <set>

#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::Input;
using ir::InputKind;
using ir::Tag;

namespace {

const std::set<std::string>& defaultNames() {
  static const std::set<std::string> names = {"input_ids", "labels", "position_ids", "attention_mask"};
  return names;
}

bool isInteger(ir::DType t) { return !ir::isFloating(t) && !ir::isComplex(t); }

void tag(ir::Value& v, int dim) {
  if (dim < 0 || dim >= static_cast<int>(v.shape.size())) return;  // plan-sequence's legality check names it
  v.factors = ir::plainFactors(v.shape);
  auto& list = v.factors[static_cast<std::size_t>(dim)];
  if (!list.empty()) list[0].tag = Tag::kSequence;
  // What comes first is the batch, unless it is the sequence: merged [B*S] and [B*H] dims must not be cut across it.
  // Not what stands just before the sequence: in [B, H, S, D] those are the heads, which attention cuts.
  if (dim >= 1 && !v.factors[0].empty()) v.factors[0][0].tag = Tag::kBatch;
}

}  // namespace

void tagInputs(ir::Graph& graph, const Settings& settings, DiagnosticSink& diagnostics) {
  std::set<std::string> whole;
  bool marked = false;
  for (const auto& [name, dim] : settings.sequence_marks) {
    marked = marked || dim != kWholeMark;
    if (dim == kWholeMark) whole.insert(name);
  }
  if (marked) {
    for (const auto& [name, dim] : settings.sequence_marks)
      for (const Input& input : graph.inputs)
        if (input.name == name && dim != kWholeMark) tag(graph.value(input.value), normDim(dim, static_cast<int>(graph.value(input.value).shape.size())));
    return;
  }
  ir::Dims shape;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::kUser && defaultNames().count(input.name) && graph.value(input.value).shape.size() == 2) {
      if (!whole.contains(input.name)) tag(graph.value(input.value), 1);
      if (shape.empty()) shape = graph.value(input.value).shape;
    }
  if (shape.empty()) return;
  for (const Input& input : graph.inputs) {
    ir::Value& v = graph.value(input.value);
    if (input.kind != InputKind::kUser || defaultNames().count(input.name) || v.shape != shape || !isInteger(v.dtype) || whole.contains(input.name)) continue;
    tag(v, 1);
    diagnostics.warn("sequence-assumed",
                     "input " + input.name + " has the shape [batch, sequence] of the others and is cut like them",
                     "%" + v.name, {}, "Say --sequence NAME:DIM,... to name all inputs that are cut.");
  }
}

}  // namespace spscope::passes
