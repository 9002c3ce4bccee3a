// SPDX-License-Identifier: Apache-2.0
// Parts and joins of values: slice, select, split, cat, stack, pad, slice_scatter.
#include <algorithm>

#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::FactorList;
using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::Tag;
using ir::ValueId;

namespace {

FactorList plainDim(std::int64_t n, Tag tag = Tag::kNone) { return n == 1 ? FactorList{} : FactorList{{n, tag}}; }

NoRule slice(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const int d = normDim(ir::intArg(p.node(id), "dim", 0), p.rankOf(x));
  const std::size_t du = static_cast<std::size_t>(d);
  const std::int64_t n = p.value(x).shape[du], m = p.value(p.node(id).outputs[0]).shape[du];
  Factors factors = p.factors(x);
  if (m == n && ir::intArg(p.node(id), "step", 1) == 1) {
    p.setOutput(id, 0, factors, p.placement(x));
    return {};
  }
  const std::int64_t step = ir::intArg(p.node(id), "step", 1);
  std::int64_t start = ir::intArg(p.node(id), "start", 0);
  start = std::clamp<std::int64_t>(start < 0 ? start + n : start, 0, n);
  const Tag tag = factors[du].size() == 1 && step == 1 && m > 1 ? factors[du][0].tag : Tag::kNone;
  Placement placement = p.placement(x);
  if (placement.isSharded() && placement.dim == d) {
    if (factors[du].size() > 1 || step != 1) return "a strided or merged slice of the sharded dim";
    if (m <= 1) return "a slice keeps one element of the sharded dim";
    const ir::Dims offsets = ir::offsetsOf(placement.sizes);
    for (std::size_t r = 0; r < placement.sizes.size(); ++r) {
      const std::int64_t lo = std::clamp<std::int64_t>(start, offsets[r], offsets[r + 1]);
      const std::int64_t hi = std::clamp<std::int64_t>(start + m, offsets[r], offsets[r + 1]);
      placement.sizes[r] = hi - lo;
    }
    placement.factor = 0;
    p.count("uneven_slice");
  }
  factors[du] = plainDim(m, tag == Tag::kExpanded ? Tag::kNone : tag);
  p.setOutput(id, 0, factors, placement);
  return {};
}

NoRule select(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const int d = normDim(ir::intArg(p.node(id), "dim", 0), p.rankOf(x));
  Placement placement = p.placement(x);
  if (placement.isSharded() && placement.dim == d) return "select along the sharded dim";
  if (placement.isSharded() && placement.dim > d) --placement.dim;
  Factors factors = p.factors(x);
  factors.erase(factors.begin() + d);
  p.setOutput(id, 0, factors, placement);
  return {};
}

NoRule split(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const bool unbind = ir::baseName(p.node(id).op) == "unbind";
  const int d = normDim(ir::intArg(p.node(id), "dim", 0), p.rankOf(x));
  Placement placement = p.placement(x);
  if (placement.isSharded() && placement.dim == d) return "split along the sharded dim";
  if (unbind && placement.isSharded() && placement.dim > d) --placement.dim;
  for (std::size_t i = 0; i < p.node(id).outputs.size(); ++i) {
    const ValueId out = p.node(id).outputs[i];
    if (out == kNone) continue;
    Factors factors = p.factors(x);
    if (unbind) factors.erase(factors.begin() + d);
    else factors[static_cast<std::size_t>(d)] = plainDim(p.value(out).shape[static_cast<std::size_t>(d)]);
    p.setOutput(id, static_cast<int>(i), factors, placement);
  }
  return {};
}

NoRule cat(Planner& p, NodeId id) {
  std::vector<ValueId> all = p.operands(id), ops;
  const ValueId out = p.node(id).outputs[0];
  const int nd = p.rankOf(out), d = normDim(ir::intArg(p.node(id), "dim", 0), nd);
  const std::size_t du = static_cast<std::size_t>(d);
  for (ValueId v : all) {
    p.replaceOperand(id, v, p.unpartial(v));
  }
  for (ValueId v : p.operands(id))
    if (p.rankOf(v) == nd) ops.push_back(v);  // legacy: an empty 1-D operand is ignored by cat
  const std::int64_t total = p.value(out).shape[du];
  Factors factors = p.factors(ops[0]);
  for (int k = 0; k < nd; ++k) {  // dims other than the joined one: the most tagged operand knows best
    const std::size_t ku = static_cast<std::size_t>(k);
    for (ValueId v : ops)
      if (k != d && ir::hasTag(p.factors(v)[ku], Tag::kSequence)) factors[ku] = p.factors(v)[ku];
  }
  if (allReplicated(p, ops)) {
    bool sequence = false;
    for (ValueId v : ops) sequence = sequence || ir::hasTag(p.factors(v)[du], Tag::kSequence);
    factors[du] = plainDim(total, sequence ? Tag::kSequence : Tag::kNone);
    p.setOutput(id, 0, factors, Placement::replicated());
    return {};
  }
  const auto shard = chooseShard(p, ops, nd, d);
  if (shard->dim == d) {
    // Along the sequence: gather, join, shard again with balanced blocks.
    bool sequence = false;
    for (ValueId v : ops)
      sequence = sequence || (p.factors(v)[du].size() == 1 && p.factors(v)[du][0].tag == Tag::kSequence);
    if (!sequence) return "cat along the sharded dim";
    for (ValueId v : ops) p.replaceOperand(id, v, p.gather(v, "cat along the sequence"));
    factors[du] = plainDim(total, Tag::kSequence);
    p.setOutput(id, 0, factors, Placement::replicated());
    if (total > 1) p.moveOutputAfter(out, *p.sequenceShard(out));
    return {};
  }
  for (ValueId v : ops) p.replaceOperand(id, v, p.toShard(v, *shard));
  factors[static_cast<std::size_t>(shard->dim)] = shard->list;
  factors[du] = plainDim(total);
  p.setOutput(id, 0, factors, Placement::sharded(shard->dim, shard->factor, shard->sizes));
  return {};
}

NoRule stack(Planner& p, NodeId id) {
  for (ValueId v : p.operands(id)) p.replaceOperand(id, v, p.unpartial(v));
  const std::vector<ValueId> ops = p.operands(id);
  const ValueId out = p.node(id).outputs[0];
  const int d = normDim(ir::intArg(p.node(id), "dim", 0), p.rankOf(out));
  const auto shard = chooseShard(p, ops, p.rankOf(ops[0]));
  if (shard)
    for (ValueId v : ops) p.replaceOperand(id, v, p.toShard(v, *shard));
  const ValueId first = p.operands(id)[0];
  Factors factors = p.factors(first);
  Placement placement = p.placement(first);
  factors.insert(factors.begin() + d, plainDim(static_cast<std::int64_t>(ops.size())));
  if (placement.isSharded() && placement.dim >= d) ++placement.dim;
  p.setOutput(id, 0, factors, placement);
  return {};
}

/// A token shift: as many elements padded on one side of `dim` as are cut on the other, and nothing else.
bool isShift(const ir::Dims& pads, int rank, int dim) {
  const std::size_t slot = 2 * static_cast<std::size_t>(rank - 1 - dim);
  for (std::size_t i = 0; i < pads.size(); ++i)
    if (pads[i] != 0 && i != slot && i != slot + 1) return false;
  return slot + 1 < pads.size() && pads[slot] != 0 && pads[slot] == -pads[slot + 1];
}

NoRule pad(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const auto pads = ir::intListArg(p.node(id), "pad");
  if (!pads || ir::stringArg(p.node(id), "mode", "constant") != "constant") return "a pad that is not constant";
  if (p.placement(x).isPartial()) return "a pad of a partial sum";
  if (p.placement(x).isSharded() && isShift(*pads, p.rankOf(x), p.placement(x).dim) && ir::doubleArg(p.node(id), "value", 0.0) == 0.0) {
    const int dim = p.placement(x).dim;
    if (shiftByEdges(p, id, x, dim, (*pads)[2 * static_cast<std::size_t>(p.rankOf(x) - 1 - dim)], false)) return {};
  }
  Factors factors = p.factors(x);
  Placement placement = p.placement(x);
  for (std::size_t i = 0; i < pads->size() / 2; ++i) {
    const std::size_t d = static_cast<std::size_t>(p.rankOf(x)) - 1 - i;
    const std::int64_t left = (*pads)[2 * i], right = (*pads)[2 * i + 1];
    if (left == 0 && right == 0) continue;
    const Tag tag = factors[d].size() == 1 ? factors[d][0].tag : Tag::kNone;
    if (placement.isSharded() && placement.dim == static_cast<int>(d)) {
      if (factors[d].size() > 1) return "a pad of a merged sharded dim";
      // The first rank pads on the left, the last one on the right (negative pads cut there).
      if (placement.sizes.front() + left < 0 || placement.sizes.back() + right < 0) return "a pad cuts more than a shard";
      placement.sizes.front() += left;
      placement.sizes.back() += right;
    }
    factors[d] = plainDim(p.value(x).shape[d] + left + right, tag);
  }
  p.setOutput(id, 0, factors, placement);
  return {};
}

NoRule sliceScatter(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self"), src = ir::useArg(p.node(id), "src");
  p.replaceOperand(id, x, p.unpartial(x));
  p.replaceOperand(id, src, p.unpartial(src));
  const std::vector<ValueId> ops = p.operands(id);
  const int nd = p.rankOf(ops[0]), d = normDim(ir::intArg(p.node(id), "dim", 0), nd);
  const bool is_select = ir::baseName(p.node(id).op) == "select_scatter";
  if (allReplicated(p, ops)) {
    p.setOutput(id, 0, p.factors(ops[0]), Placement::replicated());
    return {};
  }
  if (is_select) return "select_scatter of a sharded value";
  const auto shard = chooseShard(p, ops, nd, d);
  if (shard->dim == d) return "slice_scatter along the sharded dim";
  for (ValueId v : ops) p.replaceOperand(id, v, p.toShard(v, *shard));
  const ValueId now = p.operands(id)[0];
  p.setOutput(id, 0, p.factors(now), p.placement(now));
  return {};
}

}  // namespace

void addSliceRules(RuleTable& t) {
  t["slice"] = slice;
  t["select"] = select;
  for (std::string_view name : {"split", "chunk", "split_with_sizes", "unbind"}) t[name] = split;
  t["cat"] = t["concat"] = cat;
  t["stack"] = stack;
  t["pad"] = t["constant_pad_nd"] = pad;
  t["slice_scatter"] = t["select_scatter"] = sliceScatter;
}

}  // namespace spscope::passes
