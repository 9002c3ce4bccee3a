// SPDX-License-Identifier: Apache-2.0
// The moves of the planner: which redistribution takes a value from its placement to the one that is needed.
#include <numeric>

#include "core/base/strings.h"
#include "core/ir/sp_ops.h"
#include "passes/sequence/planner.h"
#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::FactorList;
using ir::Factors;
using ir::kNone;
using ir::Placement;
using ir::Tag;
using ir::ValueId;

namespace {

std::string memoKey(ValueId v, const char* kind) { return std::to_string(v) + kind; }

std::string memoKey(ValueId v, const Shard& shard) {
  std::string key = std::to_string(v) + "S" + std::to_string(shard.dim) + "." + std::to_string(shard.factor);
  for (const auto& f : shard.list) key += "," + std::to_string(f.size);
  return key + ":" + join(shard.sizes, ",");
}

Factors withDim(Factors factors, int dim, const FactorList& list) {
  factors[static_cast<std::size_t>(dim)] = list;
  return factors;
}

/// Elementwise ops of one operand that tables are made with.
bool isOneToOne(std::string_view base) {
  for (std::string_view name : {"cos", "sin", "mul", "add", "sub", "div", "to", "_to_copy", "neg", "exp", "alias", "contiguous", "clone"})
    if (base == name) return true;
  return false;
}

bool sameSizes(const FactorList& a, const FactorList& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size != b[i].size) return false;
  return true;
}

}  // namespace

ValueId Planner::redistribute(ValueId v, Factors factors, Placement placement) {
  return insert(ir::sp::kRedistribute, {{"self", ir::Use{v}}}, value(v).dtype, std::move(factors),
                std::move(placement));
}

ValueId Planner::vary(ValueId v) {
  if (!placement(v).isReplicated() || !value(v).requires_grad) return v;
  if (auto it = memo_.find(memoKey(v, "V")); it != memo_.end()) return it->second;
  count("vary");
  const ValueId out =
      insert(ir::sp::kVary, {{"self", ir::Use{v}}}, value(v).dtype, value(v).factors, Placement::replicated());
  return memo_[memoKey(v, "V")] = out;
}

ValueId Planner::allReduce(ValueId v) {
  if (auto it = memo_.find(memoKey(v, "R")); it != memo_.end()) return it->second;
  count("all_reduce");
  return memo_[memoKey(v, "R")] = redistribute(v, value(v).factors, Placement::replicated());
}

ValueId Planner::gather(ValueId v, const std::string& reason) {
  if (placement(v).isReplicated()) return v;
  if (placement(v).isPartial()) return allReduce(v);
  if (auto it = memo_.find(memoKey(v, "G")); it != memo_.end()) return it->second;
  count("all_gather");
  const ir::Node* at = current_ == kNone ? nullptr : &node(current_);
  context_.diagnostics->remark("gathered", reason, at ? at->name : std::string(),
                               at && at->location ? at->location->source : std::string());
  return memo_[memoKey(v, "G")] = redistribute(v, value(v).factors, Placement::replicated());
}

ValueId Planner::wholeEdges(ValueId v) {
  return redistribute(v, value(v).factors, Placement::replicated());
}

ValueId Planner::toShard(ValueId v, const Shard& shard) {
  const Factors target = withDim(value(v).factors, shard.dim, shard.list);
  const Placement want = Placement::sharded(shard.dim, shard.factor, shard.sizes);
  const Placement& have = placement(v);
  if (have.isSharded() && ir::canonical(value(v).factors, have) == ir::canonical(target, want)) return v;
  const std::string key = memoKey(v, shard);
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  ValueId out = kNone;
  if (have.isReplicated()) {
    if (auto pushed = pushSliceUp(v, shard)) {
      out = *pushed;
    } else {
      count("slice");
      out = redistribute(v, target, want);
    }
  } else if (have.isPartial()) {
    count("reduce_scatter");
    out = redistribute(v, target, want);
  } else {
    out = exchange(v, shard);
  }
  return memo_[key] = out;
}

ValueId Planner::exchange(ValueId v, const Shard& shard) {
  const Shard from = shardOf(value(v));
  const bool other_dim = shard.dim != from.dim;
  if (!other_dim && (shard.factor == from.factor || !sameSizes(shard.list, from.list))) {
    const auto a = ir::canonical(value(v).factors, placement(v));
    const ValueId whole = gather(v, "shards do not line up: (" + join(a.blocks, ", ") + ") against (" +
                                        join(shard.sizes, ", ") + ")");
    return toShard(whole, shard);
  }
  if (auto moved = exchangeBeforeRepeat(v, shard)) return *moved;
  count("all_to_all");
  return redistribute(v, other_dim ? withDim(value(v).factors, shard.dim, shard.list) : value(v).factors,
                      Placement::sharded(shard.dim, shard.factor, shard.sizes));
}

std::optional<ValueId> Planner::exchangeBeforeRepeat(ValueId v, const Shard& shard) {
  // repeat_kv: the heads are (kv, group) with equal values along the group. Exchange one copy per kv head, or as many
  // as the ranks need (the least common multiple), and repeat afterwards.
  const FactorList heads = value(v).factors[static_cast<std::size_t>(shard.dim)];
  if (heads.size() != 2 || heads[1].tag != Tag::kExpanded || shard.list.size() != 1) return std::nullopt;
  const std::int64_t kv = heads[0].size, group = heads[1].size;
  const std::int64_t copies = std::lcm(kv, static_cast<std::int64_t>(ranks_));
  if ((kv * group) % ranks_ != 0 || copies >= kv * group) return std::nullopt;
  count("exchanged_before_repeat");
  const int d = shard.dim;
  const Placement here = placement(v);
  const ir::DType dtype = value(v).dtype;

  // [.., kv*group, ..] -> [.., kv, group, ..] -> keep copies/kv of the group -> [.., copies, ..]
  Factors split = value(v).factors;
  split[static_cast<std::size_t>(d)] = {heads[0]};
  split.insert(split.begin() + d + 1, FactorList{heads[1]});
  auto shifted = [&](Placement p) {
    if (p.dim > d) ++p.dim;
    return p;
  };
  ValueId x = insert("aten.reshape.default", {{"self", ir::Use{v}}, {"shape", ir::shapeOf(split)}}, dtype, split,
                     shifted(here));
  const std::int64_t keep = copies / kv;
  Factors kept = split;
  kept[static_cast<std::size_t>(d) + 1] = keep > 1 ? FactorList{{keep, Tag::kExpanded}} : FactorList{};
  x = insert("aten.slice.Tensor",
             {{"self", ir::Use{x}}, {"dim", std::int64_t{d + 1}}, {"start", std::int64_t{0}}, {"end", keep}}, dtype,
             kept, shifted(here));
  Factors merged = value(v).factors;
  merged[static_cast<std::size_t>(d)] = {{copies, Tag::kNone}};
  x = insert("aten.reshape.default", {{"self", ir::Use{x}}, {"shape", ir::shapeOf(merged)}}, dtype, merged, here);
  x = toShard(x, {d, merged[static_cast<std::size_t>(d)], 0, ir::balancedBlocks(copies, ranks_)});
  x = insertRepeatInterleave(*this, x, d, kv * group / copies);
  // (copies, group) in blocks of copies is the layout that was asked for: heads in blocks.
  return x;
}

std::optional<ValueId> Planner::pushSliceUp(ValueId v, const Shard& shard) {
  // The slice of a replicated value is computed from slices of what it was made of: position tables and lookups then run
  // on 1/P of the positions, are shared by all layers, and the gather in the backward of a trainable one disappears.
  const ir::NodeId producer = value(v).producer;
  if (producer == kNone || shard.list.size() > 1) return std::nullopt;
  const std::string_view base = ir::baseName(node(producer).op);
  std::vector<ir::Argument> args(node(producer).args.begin(), node(producer).args.end());
  const int nd = rankOf(v);
  if (base == "embedding") {
    const ValueId index = ir::useArg(node(producer), "indices");
    if (!placement(index).isReplicated() || shard.dim >= rankOf(index)) return std::nullopt;
    if (ir::boolArg(node(producer), "scale_grad_by_freq", false)) return std::nullopt;  // its gradient counts all indices
    const ValueId cut = toShard(index, shard), weight = vary(ir::useArg(node(producer), "weight"));
    for (auto& a : args) {
      if (a.name == Symbol("weight")) a.value = ir::Use{weight};
      if (a.name == Symbol("indices")) a.value = ir::Use{cut};
    }
  } else if (base == "unsqueeze") {
    const ValueId self = ir::useArg(node(producer), "self");
    const int at = normDim(ir::intArg(node(producer), "dim", 0), nd);
    if (shard.dim == at) return std::nullopt;
    Shard inner = shard;
    if (inner.dim > at) --inner.dim;
    const ValueId cut = toShard(self, inner);
    for (auto& a : args)
      if (a.name == Symbol("self")) a.value = ir::Use{cut};
  } else if (isOneToOne(base)) {
    // Only ops of one tensor operand: an op of two may mix the sequence with something that is not there yet.
    const std::vector<ValueId> ops = operands(producer);
    if (ops.size() != 1 || rankOf(ops[0]) != nd || value(ops[0]).shape != value(v).shape) return std::nullopt;
    const ValueId cut = toShard(ops[0], shard);
    for (auto& a : args)
      if (auto* use = std::get_if<ir::Use>(&a.value); use && use->value == ops[0]) *use = {cut};
  } else {
    return std::nullopt;
  }
  count("slice_pushed_up");
  return insert(node(producer).op, std::move(args), value(v).dtype, withDim(value(v).factors, shard.dim, shard.list),
                Placement::sharded(shard.dim, shard.factor, shard.sizes));
}

std::optional<Shard> Planner::sequenceShard(ValueId v) const {
  if (ranks_ == 1) return std::nullopt;  // one rank: the program stays as it is
  const Factors& factors = graph_.value(v).factors;
  for (std::size_t d = 0; d < factors.size(); ++d)
    for (std::size_t j = 0; j < factors[d].size(); ++j)
      if (factors[d][j].tag == Tag::kSequence)
        return Shard{static_cast<int>(d), factors[d], static_cast<int>(j),
                     ir::balancedBlocks(factors[d][j].size, ranks_)};
  return std::nullopt;
}

ValueId Planner::toSequence(ValueId v) {
  const auto shard = sequenceShard(v);
  return shard ? toShard(v, *shard) : kNone;
}

ValueId Planner::unpartial(ValueId v) {
  if (!placement(v).isPartial()) return v;
  const ValueId cut = toSequence(v);
  return cut != kNone ? cut : allReduce(v);
}

ValueId Planner::align(ValueId v, int nd, const Shard& shard) {
  const int d = shard.dim - (nd - rankOf(v));
  if (d < 0 || value(v).shape[static_cast<std::size_t>(d)] == 1) {
    if (placement(v).isSharded()) return vary(gather(v, "an operand is sharded on a dim that must be whole"));
    if (placement(v).isPartial()) v = allReduce(v);
    return vary(v);
  }
  Shard own = shard;
  own.dim = d;
  return toShard(v, own);
}

}  // namespace spscope::passes
