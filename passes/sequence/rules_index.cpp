// SPDX-License-Identifier: Apache-2.0
// Look-ups: embedding (where a program becomes sequence-sharded), gather, index, index_put.
#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::Tag;
using ir::ValueId;

namespace {

NoRule embedding(Planner& p, NodeId id) {
  const ValueId weight = ir::useArg(p.node(id), "weight"), given = ir::useArg(p.node(id), "indices");
  if (!p.placement(weight).isReplicated()) return "an embedding whose table is sharded";
  ValueId index = given;
  if (ir::boolArg(p.node(id), "scale_grad_by_freq", false)) {
    // Its gradient divides by how often an index occurs, in all of the sequence: looked up whole, cut behind it.
    index = p.gather(given, "an embedding whose gradient is scaled by frequency");
    p.replaceOperand(id, given, index);
    Factors whole = p.factors(index);
    whole.push_back(p.factors(weight)[1]);
    p.setOutput(id, 0, whole, Placement::replicated());
    const ValueId out = p.node(id).outputs[0];
    if (const auto shard = p.sequenceShard(out); shard && ir::isFloating(p.value(out).dtype)) p.moveOutputAfter(out, *shard);
    return {};
  }
  // Whether the table is trainable does not matter: a frozen embedding starts the sharding too.
  if (p.placement(index).isReplicated() && p.sequenceShard(index) && ir::isFloating(p.value(weight).dtype))
    index = p.toSequence(index);
  if (p.placement(index).isPartial()) index = p.allReduce(index);
  p.replaceOperand(id, given, index);
  if (p.placement(index).isSharded()) p.replaceOperand(id, weight, p.vary(weight));
  Factors factors = p.factors(index);
  factors.push_back(p.factors(weight)[1]);
  p.setOutput(id, 0, factors, p.placement(index));
  return {};
}

NoRule gatherAlong(Planner& p, NodeId id) {
  const ValueId given_x = ir::useArg(p.node(id), "self"), given_index = ir::useArg(p.node(id), "index");
  const ValueId x = p.unpartial(given_x), index = p.unpartial(given_index);
  p.replaceOperand(id, given_x, x);
  p.replaceOperand(id, given_index, index);
  const ir::Dims shape = p.value(p.node(id).outputs[0]).shape;
  const int nd = p.rankOf(index), d = normDim(ir::intArg(p.node(id), "dim", 0), nd);
  if (allReplicated(p, {x, index})) {
    p.setOutput(id, 0, broadcastFactors(p, {index}, shape), Placement::replicated());
    return {};
  }
  const auto shard = chooseShard(p, {x, index}, nd, d);
  if (shard->dim == d) return "gather along the sharded dim";
  if (p.value(x).shape[static_cast<std::size_t>(shard->dim)] != p.value(index).shape[static_cast<std::size_t>(shard->dim)])
    return "gather with a shorter index";
  const ValueId x2 = p.toShard(x, *shard), index2 = p.toShard(index, *shard);
  p.replaceOperand(id, x, x2);
  p.replaceOperand(id, index, index2);
  p.setOutput(id, 0, broadcastFactors(p, {index2}, shape, shard),
              Placement::sharded(shard->dim, shard->factor, shard->sizes));
  return {};
}

NoRule index(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self");
  const auto* list = p.node(id).find("indices") ? std::get_if<ir::UseList>(p.node(id).find("indices")) : nullptr;
  if (!list) return "index without a list of tensors";
  std::vector<ValueId> tensors;
  std::vector<int> positions;
  for (std::size_t d = 0; d < list->size(); ++d)
    if ((*list)[d].value != kNone) tensors.push_back((*list)[d].value), positions.push_back(static_cast<int>(d));
  if (tensors.empty()) return "index without tensors";
  for (ValueId v : tensors)
    if (p.value(v).dtype == ir::DType::kBool) {  // data-dependent size
      if (allReplicated(p, p.operands(id))) { p.setReplicated(id); return {}; }
      return "index with a bool mask";
    }
  const bool adjacent = positions.back() - positions.front() + 1 == static_cast<int>(positions.size());
  const int first = positions.front(), last = positions.back();
  // The shape of the broadcast index stands in the result where the first indexed dim was.
  const int out_rank = p.rankOf(p.node(id).outputs[0]);
  const int index_rank = out_rank - (p.rankOf(x) - static_cast<int>(positions.size()));
  const ir::Dims& out_shape = p.value(p.node(id).outputs[0]).shape;
  if (allReplicated(p, p.operands(id))) {
    p.setReplicated(id);
    if (adjacent) {
      ir::Dims index_shape(out_shape.begin() + first, out_shape.begin() + first + index_rank);
      Factors factors(p.factors(x).begin(), p.factors(x).begin() + first);
      for (auto& f : broadcastFactors(p, tensors, index_shape)) factors.push_back(f);
      factors.insert(factors.end(), p.factors(x).begin() + last + 1, p.factors(x).end());
      p.setOutput(id, 0, factors, Placement::replicated());
    }
    return {};
  }
  if (!adjacent) return "index tensors on dims that are not adjacent";
  const ir::Dims index_shape(out_shape.begin() + first, out_shape.begin() + first + index_rank);
  for (ValueId v : p.operands(id)) if (p.placement(v).isPartial()) return "index of a partial sum";
  if (p.placement(x).isSharded()) {
    Placement placement = p.placement(x);
    if (placement.dim >= first && placement.dim <= last) return "an index tensor on the sharded dim";
    if (!allReplicated(p, tensors)) return "a sharded index into a sharded value";
    Factors factors(p.factors(x).begin(), p.factors(x).begin() + first);
    for (auto& f : broadcastFactors(p, tensors, index_shape)) factors.push_back(f);
    factors.insert(factors.end(), p.factors(x).begin() + last + 1, p.factors(x).end());
    if (placement.dim > last) placement.dim += index_rank - static_cast<int>(positions.size());
    p.setOutput(id, 0, factors, placement);
    return {};
  }
  const auto shard = chooseShard(p, tensors, index_rank);
  p.replaceOperand(id, x, p.vary(x));
  std::vector<ValueId> aligned;
  for (ValueId v : tensors) {
    aligned.push_back(p.align(v, index_rank, *shard));
    p.replaceOperand(id, v, aligned.back());
  }
  const ValueId table = ir::useArg(p.node(id), "self");
  Factors factors(p.factors(table).begin(), p.factors(table).begin() + first);
  for (auto& f : broadcastFactors(p, aligned, index_shape, shard)) factors.push_back(f);
  factors.insert(factors.end(), p.factors(table).begin() + last + 1, p.factors(table).end());
  p.setOutput(id, 0, factors, Placement::sharded(first + shard->dim, shard->factor, shard->sizes));
  return {};
}

NoRule indexSelect(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self"), index = ir::useArg(p.node(id), "index");
  const int d = normDim(ir::intArg(p.node(id), "dim", 0), p.rankOf(x));
  if (!p.placement(index).isReplicated()) return "index_select with a sharded index";
  if (p.placement(x).isSharded() && p.placement(x).dim == d) return "index_select along the sharded dim";
  Factors factors = p.factors(x);
  const std::int64_t n = p.value(p.node(id).outputs[0]).shape[static_cast<std::size_t>(d)];
  factors[static_cast<std::size_t>(d)] = n == 1 ? ir::FactorList{} : ir::FactorList{{n, Tag::kNone}};
  p.setOutput(id, 0, factors, p.placement(x));
  return {};
}

NoRule replicatedOnly(Planner& p, NodeId id) {
  if (!allReplicated(p, p.operands(id))) return "not defined on sharded values";
  p.setReplicated(id);
  return {};
}

}  // namespace

void addIndexRules(RuleTable& t) {
  t["embedding"] = embedding;
  t["gather"] = gatherAlong;
  t["index"] = index;
  t["index_select"] = indexSelect;
  for (std::string_view name : {"index_put", "scatter", "scatter_add", "index_add", "nonzero"})
    t[name] = replicatedOnly;
}

}  // namespace spscope::passes
