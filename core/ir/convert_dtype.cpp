// SPDX-License-Identifier: Apache-2.0
#include "core/ir/convert_dtype.h"

#include <algorithm>
#include <unordered_map>

namespace spscope::ir {

Status convertFloats(Graph& graph, DType to, const ConvertOptions& options) {
  if (to != DType::kF64 && to != DType::kF32 && to != DType::kBF16 && to != DType::kF16)
    return makeError("dtype-unsupported", "a program cannot be converted to " + std::string(longName(to)));
  const Symbol autocast{"autocast"};
  bool low = options.low_precision;
  for (const NodeId id : graph.order) low = low || graph.node(id).provenance.pass == autocast;

  const auto converts = [&](DType t) {
    if (t == DType::kF32) return true;
    if (t == DType::kF64) return false;  // float64 is asked for by name in a model: it stays
    return low && (t == DType::kF16 || t == DType::kBF16);
  };
  const auto converted = [&](DType t) -> DType {
    if (converts(t)) return to;
    if (t == DType::kC64 && to == DType::kF64) return DType::kC128;
    return t;
  };
  for (std::size_t i = 0; i < graph.valueCount(); ++i) {
    Value& v = graph.value(static_cast<ValueId>(i));
    if (isComplex(v.dtype) && to != DType::kF64 && to != DType::kF32)
      return makeError("dtype-unsupported", "value %" + v.name + " is complex and has no twin in " + std::string(longName(to)));
    v.dtype = converted(v.dtype);
  }

  // Autocast's own casts now lead from one type to the same: their operands take their place.
  std::unordered_map<ValueId, ValueId> replaced;
  std::vector<NodeId> kept;
  kept.reserve(graph.order.size());
  for (const NodeId id : graph.order) {
    Node& n = graph.node(id);
    for (Argument& a : n.args)
      if (auto* dtype = std::get_if<DType>(&a.value)) *dtype = converted(*dtype);
    forEachUse(n, [&](Use& use) {
      if (const auto it = replaced.find(use.value); it != replaced.end()) use.value = it->second;
    });
    if (n.provenance.pass == autocast && n.outputs.size() == 1) {
      const ValueId from = useArg(n, "self");
      if (from != kNone && graph.value(from).dtype == graph.value(n.outputs[0]).dtype) {
        replaced.emplace(n.outputs[0], from);
        continue;
      }
    }
    kept.push_back(id);
  }
  graph.order = std::move(kept);
  for (Output& o : graph.outputs)
    if (const auto it = replaced.find(o.value); it != replaced.end()) o.value = it->second;
  return {};
}

Status convertFloat32To64(Graph& graph) { return convertFloats(graph, DType::kF64); }

}  // namespace spscope::ir
