// SPDX-License-Identifier: Apache-2.0
#include "core/io/dead_inputs.h"

#include <algorithm>
#include <vector>

namespace spscope::io {
namespace {

using ir::kNone;
using ir::ValueId;

std::size_t at(ValueId v) { return static_cast<std::size_t>(v); }

bool isInteger(ir::DType type) { return type == ir::DType::kI64 || type == ir::DType::kI32; }

/// The op changes an operand: its effect is there though nobody reads its result.
bool writes(const ir::Node& n) {
  const std::string_view base = ir::baseName(n.op);
  return base.ends_with('_') && !base.ends_with("__");
}

/// By value: does a result depend on it?
std::vector<bool> neededValues(const ir::Graph& graph) {
  std::vector<bool> needed(graph.valueCount(), false);
  for (const ir::Output& o : graph.outputs)
    if (o.value != kNone) needed[at(o.value)] = true;
  // A write stands after what it writes into was made, and may be read through another value: all of them count.
  for (auto it = graph.order.rbegin(); it != graph.order.rend(); ++it) {
    const ir::Node& n = graph.node(*it);
    if (!writes(n) && std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNone && needed[at(v)]; })) continue;
    ir::forEachUse(n, [&](const ir::Use& use) { needed[at(use.value)] = true; });
  }
  return needed;
}

/// An embedding that reads the ids `from`, where a loss takes the same ids for its labels; kNone: they are not both.
ir::NodeId readsAsIdsAndLabels(const ir::Graph& graph, ValueId from) {
  std::vector<bool> same(graph.valueCount(), false);
  same[at(from)] = true;
  ir::NodeId embedding = kNone;
  bool labels = false;
  for (const ir::NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    const auto reads = [&](const char* name) {
      const ValueId v = ir::useArg(n, name);
      return v != kNone && same[at(v)];
    };
    const std::string_view base = ir::baseName(n.op);
    if (base == "embedding" && reads("indices")) embedding = id;
    else if ((base == "cross_entropy_loss" || base == "nll_loss" || base == "nll_loss_nd" || base == "nll_loss_forward") && reads("target")) labels = true;
    bool any = false;
    ir::forEachUse(n, [&](const ir::Use& use) { any = any || same[at(use.value)]; });
    for (const ValueId v : n.outputs)
      if (v != kNone) same[at(v)] = any && isInteger(graph.value(v).dtype);  // shifted, padded, flattened; no comparison, no embedding
  }
  return labels ? embedding : kNone;
}

}  // namespace

void warnDeadInputs(const ir::Graph& graph, DiagnosticSink& diagnostics) {
  const std::vector<bool> needed = neededValues(graph);
  for (const ir::Input& dead : graph.inputs) {
    if (dead.kind != ir::InputKind::kUser || dead.value == kNone || needed[at(dead.value)]) continue;
    const ir::Value& v = graph.value(dead.value);
    ir::NodeId embedding = kNone;
    std::string other;
    for (const ir::Input& input : graph.inputs) {
      if (input.kind != ir::InputKind::kUser || input.value == dead.value || !needed[at(input.value)] || !isInteger(v.dtype)) continue;
      const ir::Value& o = graph.value(input.value);
      if (o.shape != v.shape || o.dtype != v.dtype) continue;
      embedding = readsAsIdsAndLabels(graph, input.value);
      other = input.name;
      if (embedding != kNone) break;
    }
    if (embedding == kNone) {
      diagnostics.warn("dead-input", "input " + dead.name + " is used by nothing: no result depends on it", {}, {}, "Leave it out of the export, or see why the model does not use it.");
      continue;
    }
    const ir::Node& n = graph.node(embedding);
    diagnostics.warn("dead-input", "input " + dead.name + " is used by nothing: when one tensor object is passed for two arguments at export (labels=input_ids), both uses "
                                   "read only one of them; here tokens (%" + n.name + ") and labels are both read from " + other,
                     "%" + n.name, n.location ? n.location->source : "");
  }
}

}  // namespace spscope::io
