// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/lower_redistribute.h"

#include "core/ir/mesh_axis.h"
#include "core/ir/sp_ops.h"

namespace spscope::passes {

using ir::FactorList;
using ir::Factors;
using ir::NodeId;
using ir::Placement;
using ir::ValueId;

namespace {

/// Factors with every factor of the given dims in a dimension of its own; where (dim, factor) ended up.
struct Spread {
  Factors factors;
  std::vector<std::vector<int>> position;  ///< [dim][factor] -> new dim

  Spread(const Factors& from, const std::vector<bool>& spread) {
    for (std::size_t d = 0; d < from.size(); ++d) {
      position.emplace_back();
      if (!spread[d] || from[d].size() < 2) {
        for (std::size_t j = 0; j < from[d].size(); ++j) position[d].push_back(static_cast<int>(factors.size()));
        factors.push_back(from[d]);
        continue;
      }
      for (const ir::Factor& f : from[d]) {
        position[d].push_back(static_cast<int>(factors.size()));
        factors.push_back({f});
      }
    }
  }

  Placement place(const Placement& p) const {
    if (!p.isSharded()) return p;
    Placement out = p;
    out.dim = position[static_cast<std::size_t>(p.dim)][static_cast<std::size_t>(p.factor)];
    out.factor = 0;
    return out;
  }
};

}  // namespace

Redistribution kindOf(const ir::Graph& graph, const ir::Node& node) {
  const Placement& from = graph.value(ir::useArg(node, "self")).placement;
  const Placement& to = graph.value(node.outputs[0]).placement;
  if (from.isPartial()) return to.isSharded() ? Redistribution::kReduceScatter : Redistribution::kAllReduce;
  if (from.isReplicated()) return Redistribution::kSlice;
  return to.isSharded() ? Redistribution::kAllToAll : Redistribution::kAllGather;
}

ValueId lowerRedistribute(ir::Graph& graph, Rewriter& rw, NodeId id) {
  const ir::Node node = graph.node(id);  // a copy: emit() may move the nodes
  const ValueId self = ir::useArg(node, "self");
  const ir::Value in = graph.value(self), out = graph.value(node.outputs[0]);
  const Redistribution kind = kindOf(graph, node);
  if (kind == Redistribution::kAllReduce)
    return rw.emit(ir::sp::kAllReduce, {{"self", ir::Use{self}}}, out.dtype, out.factors, out.placement, id, node.name);

  // The layout in which the factor that is cut, and the one that is joined, are whole dimensions.
  std::vector<bool> spread(out.factors.size(), false);
  Factors factors = out.factors;
  if (in.placement.isSharded()) {
    factors[static_cast<std::size_t>(in.placement.dim)] = in.factors[static_cast<std::size_t>(in.placement.dim)];
    spread[static_cast<std::size_t>(in.placement.dim)] = true;
  }
  if (out.placement.isSharded()) {
    factors[static_cast<std::size_t>(out.placement.dim)] = out.factors[static_cast<std::size_t>(out.placement.dim)];
    spread[static_cast<std::size_t>(out.placement.dim)] = true;
  }
  const Spread wide(factors, spread);
  const Placement from = wide.place(in.placement), to = wide.place(out.placement);
  const bool reshapes = wide.factors.size() != factors.size();
  ValueId x = self;
  if (reshapes)
    x = rw.emit("aten.reshape.default",
                {{"self", ir::Use{x}}, {"shape", ir::localShape(wide.factors, from, ir::sequenceRank(graph))}}, in.dtype,
                wide.factors, from, id);
  const auto dim = [](const Placement& p) { return std::int64_t{p.dim}; };
  // Blocks count elements of the whole dimension: a dim that was not spread is its factor list merged.
  const auto blocks = [&](const Placement& p) { return ir::canonical(wide.factors, p).blocks; };
  switch (kind) {
    case Redistribution::kSlice:
      x = rw.emit(ir::sp::kSlice, {{"self", ir::Use{x}}, {"dim", dim(to)}, {"blocks", blocks(to)}}, in.dtype,
                  wide.factors, to, id, node.name);
      break;
    case Redistribution::kAllGather:
      x = rw.emit(ir::sp::kAllGather, {{"self", ir::Use{x}}, {"dim", dim(from)}, {"blocks", blocks(from)}}, in.dtype,
                  wide.factors, to, id, node.name);
      break;
    case Redistribution::kReduceScatter:
      x = rw.emit(ir::sp::kReduceScatter, {{"self", ir::Use{x}}, {"dim", dim(to)}, {"blocks", blocks(to)}}, in.dtype,
                  wide.factors, to, id, node.name);
      break;
    default:
      x = rw.emit(ir::sp::kAllToAll,
                  {{"self", ir::Use{x}},
                   {"gather_dim", dim(from)},
                   {"gather_blocks", blocks(from)},
                   {"scatter_dim", dim(to)},
                   {"scatter_blocks", blocks(to)}},
                  in.dtype, wide.factors, to, id, node.name);
  }
  if (reshapes)
    x = rw.emit("aten.reshape.default",
                {{"self", ir::Use{x}}, {"shape", ir::localShape(out.factors, out.placement, ir::sequenceRank(graph))}}, out.dtype,
                out.factors, out.placement, id);
  return x;
}

}  // namespace spscope::passes
