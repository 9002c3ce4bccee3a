// SPDX-License-Identifier: Apache-2.0
// Fused attention and the loss.
//
// Ulysses (DeepSpeed-Ulysses, arXiv 2309.14509) is a placement rule: attention needs q, k, v whole along the sequence
// and sharded on heads, and its result goes back to the shard of its query; so three exchanges in, one out.
#include <numeric>

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

NoRule attention(Planner& p, NodeId id) {
  for (Symbol name : {Symbol("query"), Symbol("key"), Symbol("value"), Symbol("attn_mask")})
    if (const ValueId v = ir::useArg(p.node(id), name); v != kNone) {
      const ValueId whole = p.unpartial(v);
      p.graph().node(id).set(name, ir::Use{whole});
    }
  ValueId q = ir::useArg(p.node(id), "query"), k = ir::useArg(p.node(id), "key"), v = ir::useArg(p.node(id), "value");
  const ValueId mask = ir::useArg(p.node(id), "attn_mask");
  const int nd = p.rankOf(q), head_dim = nd - 3, seq_dim = nd - 2;
  if (p.rankOf(k) != nd || p.rankOf(v) != nd) return "attention whose operands differ in rank";
  auto result = [&] {
    Factors f(p.factors(q).begin(), p.factors(q).end() - 1);
    f.push_back(p.factors(v).back());
    return f;
  };
  if (allReplicated(p, p.operands(id))) {
    p.setOutput(id, 0, result(), Placement::replicated());
    return {};
  }
  // A query that every rank holds whole (a chunk of a longer one): its heads are cut where it lies, only keys and values move.
  const bool whole_query = !p.placement(q).isSharded() && p.placement(k).isSharded() && p.placement(k).dim == seq_dim;
  if (!p.placement(q).isSharded() && !whole_query) return "attention with a replicated query and sharded keys";
  if (!whole_query && p.placement(q).dim > seq_dim) return "attention whose query is sharded on its features";
  std::optional<Shard> back;
  Shard target = Planner::shardOf(p.value(whole_query ? k : q));
  if (whole_query || p.placement(q).dim == seq_dim) {
    if (head_dim < 0) return "attention without a heads dim";
    if (!whole_query) back = target;
    const std::int64_t heads = p.value(q).shape[static_cast<std::size_t>(head_dim)];
    const std::int64_t kv_heads = p.value(k).shape[static_cast<std::size_t>(head_dim)];
    std::int64_t copies = kv_heads;
    if (kv_heads != heads) {
      // Fewer kv heads than the ranks need: the least common multiple always divides the query heads.
      copies = heads % p.ranks() == 0 ? std::lcm(kv_heads, static_cast<std::int64_t>(p.ranks())) : heads;
      if (heads % copies != 0) copies = heads;
      if (copies != kv_heads) {
        p.count("kv_heads_replicated");
        k = insertRepeatInterleave(p, k, head_dim, copies / kv_heads);
        v = insertRepeatInterleave(p, v, head_dim, copies / kv_heads);
      }
    }
    if (heads % p.ranks() != 0) p.count("uneven_heads");
    auto onHeads = [&](std::int64_t n) {
      return Shard{head_dim, n == 1 ? FactorList{} : FactorList{{n, Tag::kNone}}, 0, ir::balancedBlocks(n, p.ranks())};
    };
    if (heads < 2) return "attention with a single head cannot be cut along heads";
    target = onHeads(heads);
    q = p.toShard(q, target);
    k = p.toShard(k, onHeads(copies));
    v = p.toShard(v, onHeads(copies));
    p.graph().node(id).set("enable_gqa", copies != heads);
  } else {
    // The query is sharded on another batch dim (block-local attention): keys follow, no exchange.
    if (p.placement(q).dim == head_dim &&
        p.value(k).shape[static_cast<std::size_t>(head_dim)] != p.value(q).shape[static_cast<std::size_t>(head_dim)])
      return "attention with grouped keys, sharded on heads before it";
    k = p.toShard(k, target);
    v = p.toShard(v, target);
  }
  p.graph().node(id).set("query", ir::Use{q});
  p.graph().node(id).set("key", ir::Use{k});
  p.graph().node(id).set("value", ir::Use{v});
  if (mask != kNone) {
    const ValueId aligned = p.align(mask, nd, target);
    p.graph().node(id).set("attn_mask", ir::Use{aligned});
  }
  // What a mask's rule compares goes the way of the mask.
  for (Symbol name : {Symbol("query_rows"), Symbol("key_columns")}) {
    const ir::Attribute* given = p.node(id).find(name);
    const auto* list = given ? std::get_if<ir::UseList>(given) : nullptr;
    if (!list) continue;
    ir::UseList aligned = *list;
    for (ir::Use& use : aligned) use.value = p.align(use.value, nd, target);
    p.graph().node(id).set(name, std::move(aligned));
  }
  const ValueId out = p.node(id).outputs[0];
  p.setOutput(id, 0, result(), p.placement(q));
  if (back) p.moveOutputAfter(out, *back);
  return {};
}

NoRule crossEntropy(Planner& p, NodeId id) {
  const ValueId given = ir::useArg(p.node(id), "self"), target = ir::useArg(p.node(id), "target");
  ValueId x = p.unpartial(given);
  p.graph().node(id).set("self", ir::Use{x});
  if (allReplicated(p, p.operands(id))) {
    p.setReplicated(id);
    return {};
  }
  const ir::Attribute* weight = p.node(id).find("weight");
  if (weight && !std::holds_alternative<std::monostate>(*weight)) return "cross entropy with class weights";
  if (ir::isFloating(p.value(target).dtype)) return "cross entropy with class probabilities";
  const int class_dim = p.rankOf(x) > 1 ? 1 : 0;
  if (p.placement(x).isReplicated()) return "cross entropy of replicated logits with sharded labels";
  if (p.placement(x).dim == class_dim) {
    const auto sequence = p.sequenceShard(x);
    if (!sequence || sequence->dim == class_dim) return "cross entropy over sharded classes";
    x = p.toShard(x, *sequence);
    p.graph().node(id).set("self", ir::Use{x});
  }
  Shard rows = Planner::shardOf(p.value(x));
  rows.dim -= rows.dim > class_dim ? 1 : 0;
  const ValueId labels = p.toShard(p.unpartial(target), rows);
  p.graph().node(id).set("target", ir::Use{labels});
  // Reduction 0: per row. 1 (mean) and 2 (sum): a partial sum; parallelize-loss divides by the global count.
  if (ir::intArg(p.node(id), "reduction", 1) == 0) p.setOutput(id, 0, p.factors(labels), p.placement(labels));
  else p.setOutput(id, 0, {}, Placement::partial());
  return {};
}

}  // namespace

void addAttentionRules(RuleTable& t) { t["scaled_dot_product_attention"] = attention; }
void addLossRules(RuleTable& t) { t["cross_entropy_loss"] = crossEntropy; }

}  // namespace spscope::passes
