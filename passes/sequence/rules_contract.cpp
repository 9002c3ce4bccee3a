// SPDX-License-Identifier: Apache-2.0
// Matrix products. Two sequence dims in one contraction (q times k transposed) move both operands to the heads: the
// Ulysses exchange of eager attention follows from this rule.
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

/// The two operands [.., M, K] and [.., K, N] of a product with `nb` batch dims, after alignment.
struct Product {
  ValueId a, b;
  Placement placement;            ///< of the result [.., M, N]
  std::optional<Shard> shard;     ///< its shard, on dims of the result
  NoRule reason;
};

enum class Role { kWhole, kBatch, kRow, kInner, kColumn };

class Aligner {
 public:
  Aligner(Planner& p, int batch_dims) : p_(p), nd_(batch_dims + 2), nb_(batch_dims) {}

  Product align(ValueId a, ValueId b) {
    a = p_.unpartial(a), b = p_.unpartial(b);
    const Role ra = role(a, true), rb = role(b, false);
    if (ra == Role::kWhole && rb == Role::kWhole) return {a, b, Placement::replicated(), {}, {}};
    if (rb == Role::kWhole) {
      if (ra == Role::kRow) return sharded(a, p_.vary(b), onResult(a));
      if (ra == Role::kBatch) return sharded(a, p_.align(b, nd_, onResult(a)), onResult(a));
      // K is sharded on features (heads), not on the sequence: back to the sequence.
      const auto sequence = p_.sequenceShard(a);
      if (!shardedOnSequence(a) && sequence && sequence->dim != p_.placement(a).dim) return align(p_.toShard(a, *sequence), b);
      return partial(a, p_.toShard(b, as(a, p_.rankOf(b) - 2)));
    }
    if (ra == Role::kWhole) {
      if (rb == Role::kColumn) return sharded(p_.vary(a), b, onResult(b));
      if (rb == Role::kBatch) return sharded(p_.align(a, nd_, onResult(b)), b, onResult(b));
      return partial(p_.toShard(a, as(b, p_.rankOf(a) - 1)), b);
    }
    if (ra == Role::kInner && rb == Role::kInner) return partial(a, p_.toShard(b, as(a, p_.rankOf(b) - 2)));
    if (ra == Role::kBatch && (rb == Role::kBatch || hasDim(b, onResult(a).dim)))
      return sharded(a, p_.align(b, nd_, onResult(a)), onResult(a));
    if (rb == Role::kBatch && hasDim(a, onResult(b).dim))
      return sharded(p_.align(a, nd_, onResult(b)), b, onResult(b));
    if (const auto heads = batchShard(a, b)) {
      p_.count("conflict_moved_to_heads");
      // One after the other: the order of function arguments is the compiler's, that of exchanges is not.
      const ValueId left = p_.align(a, nd_, *heads), right = p_.align(b, nd_, *heads);
      return sharded(left, right, *heads);
    }
    return align(a, p_.gather(b, "both operands of a product are sharded, and no batch dim can be"));
  }

 private:
  Role role(ValueId v, bool left) const {
    if (!p_.placement(v).isSharded()) return Role::kWhole;
    const int from_end = p_.rankOf(v) - p_.placement(v).dim;
    if (from_end > 2) return Role::kBatch;
    if (left) return from_end == 2 ? Role::kRow : Role::kInner;
    return from_end == 2 ? Role::kInner : Role::kColumn;
  }
  Shard onResult(ValueId v) const {
    Shard s = Planner::shardOf(p_.value(v));
    s.dim += nd_ - p_.rankOf(v);
    return s;
  }
  Shard as(ValueId v, int dim) const {
    Shard s = Planner::shardOf(p_.value(v));
    s.dim = dim;
    return s;
  }
  bool shardedOnSequence(ValueId v) const {
    const Shard s = Planner::shardOf(p_.value(v));
    return s.list[static_cast<std::size_t>(s.factor)].tag == Tag::kSequence;
  }
  bool hasDim(ValueId v, int result_dim) const {
    const int d = result_dim - nd_ + p_.rankOf(v);
    return d >= 0 && p_.value(v).shape[static_cast<std::size_t>(d)] > 1;
  }
  Product sharded(ValueId a, ValueId b, Shard s) const {
    return {a, b, Placement::sharded(s.dim, s.factor, s.sizes), s, {}};
  }
  Product partial(ValueId a, ValueId b) const { return {a, b, Placement::partial(), {}, {}}; }

  /// A shard of a batch dim that both operands have: heads before batch, even before uneven. The smallest trailing run
  /// of factors that divides, never across the batch or the sequence, never only repeated ones (k and v would stay
  /// whole on every rank).
  std::optional<Shard> batchShard(ValueId a, ValueId b) const {
    std::vector<Shard> even, uneven;
    for (int i = nb_ - 1; i >= 0; --i) {
      const int da = i - nb_ + p_.rankOf(a) - 2, db = i - nb_ + p_.rankOf(b) - 2;
      if (da < 0 || db < 0) continue;
      const std::int64_t n = p_.value(a).shape[static_cast<std::size_t>(da)];
      if (n == 1 || p_.value(b).shape[static_cast<std::size_t>(db)] != n) continue;
      const FactorList& fa = p_.factors(a)[static_cast<std::size_t>(da)];
      const FactorList& fb = p_.factors(b)[static_cast<std::size_t>(db)];
      const FactorList& list = fa.size() >= fb.size() ? fa : fb;
      std::int64_t run = 1;
      bool only_repeated = true;
      for (std::size_t k = 1; k <= list.size(); ++k) {
        const ir::Factor& f = list[list.size() - k];
        if (f.tag == Tag::kSequence || f.tag == Tag::kBatch) break;
        run *= f.size;
        only_repeated = only_repeated && f.tag == Tag::kExpanded;
        if (only_repeated && k < list.size()) continue;
        FactorList merged(list.begin(), list.end() - static_cast<std::ptrdiff_t>(k));
        merged.push_back({run, Tag::kNone});
        const int j = static_cast<int>(merged.size()) - 1;
        (run % p_.ranks() == 0 ? even : uneven).push_back({i, merged, j, ir::balancedBlocks(run, p_.ranks())});
      }
      for (std::size_t j = 0; j < list.size(); ++j)
        if (list[j].tag == Tag::kBatch && list[j].size % p_.ranks() == 0)
          uneven.push_back({i, list, static_cast<int>(j), ir::balancedBlocks(list[j].size, p_.ranks())});
    }
    if (!even.empty()) return even.front();
    std::stable_sort(uneven.begin(), uneven.end(), [](const Shard& x, const Shard& y) {
      const ir::Factor& fx = x.list[static_cast<std::size_t>(x.factor)];
      const ir::Factor& fy = y.list[static_cast<std::size_t>(y.factor)];
      if ((fx.tag == Tag::kBatch) != (fy.tag == Tag::kBatch)) return fy.tag == Tag::kBatch;
      return fx.size > fy.size;
    });
    return uneven.empty() ? std::nullopt : std::optional<Shard>(uneven.front());
  }

  Planner& p_;
  int nd_, nb_;
};

/// Factors of the result: batch dims broadcast, M from the left, N from the right; only one may follow the sequence.
Factors resultFactors(const Planner& p, const Product& m, const ir::Dims& shape) {
  const int nd = static_cast<int>(shape.size());
  auto last = [&](ValueId v, int from_end) { return p.factors(v)[static_cast<std::size_t>(p.rankOf(v) - from_end)]; };
  Factors out(shape.size());
  for (int d = 0; d < nd - 2; ++d) {
    FactorList best;
    if (shape[static_cast<std::size_t>(d)] != 1) {
      best = {{shape[static_cast<std::size_t>(d)], Tag::kNone}};
      bool found = false;
      for (ValueId v : {m.a, m.b}) {
        const int dv = d - nd + p.rankOf(v);
        if (dv < 0 || p.value(v).shape[static_cast<std::size_t>(dv)] != shape[static_cast<std::size_t>(d)]) continue;
        const FactorList& f = p.factors(v)[static_cast<std::size_t>(dv)];
        if (!found || f.size() > best.size() || ir::hasTag(f, Tag::kBatch)) best = f, found = true;
      }
    }
    out[static_cast<std::size_t>(d)] = best;
  }
  out[static_cast<std::size_t>(nd) - 2] = last(m.a, 2);
  FactorList columns = last(m.b, 1);
  if (ir::hasTag(last(m.a, 2), Tag::kSequence)) {
    const std::int64_t n = ir::sizeOf(columns);
    columns = n == 1 ? FactorList{} : FactorList{{n, Tag::kNone}};
  }
  out[static_cast<std::size_t>(nd) - 1] = columns;
  if (m.shard) out[static_cast<std::size_t>(m.shard->dim)] = m.shard->list;
  return out;
}

NoRule product(Planner& p, NodeId id, Symbol left, Symbol right, Symbol addend) {
  const ValueId a = ir::useArg(p.node(id), left), b = ir::useArg(p.node(id), right);
  if (p.rankOf(a) < 2 || p.rankOf(b) < 2) {
    if (!allReplicated(p, p.operands(id))) return "a product with a vector";
    p.setReplicated(id);
    return {};
  }
  const ir::Dims shape = p.value(p.node(id).outputs[0]).shape;
  const int nd = std::max(p.rankOf(a), p.rankOf(b));
  const Product m = Aligner(p, nd - 2).align(a, b);
  if (m.reason) return m.reason;
  const ValueId c = addend.empty() ? kNone : ir::useArg(p.node(id), addend);
  if (c != kNone && m.placement.isPartial()) {
    // Only the plain product is a partial sum: the addend would count once per rank. Slice K back instead.
    return "an addend to a partial product";
  }
  // a and b may be one value (x times x): set the operands by name.
  auto set = [&](Symbol name, ValueId v) { p.graph().node(id).set(name, ir::Use{v}); };
  set(left, m.a);
  set(right, m.b);
  if (c != kNone && !m.placement.isReplicated()) set(addend, p.align(c, static_cast<int>(shape.size()), *m.shard));
  if (c != kNone && m.placement.isReplicated() && !p.placement(c).isReplicated()) return "a sharded addend to a replicated product";
  p.setOutput(id, 0, resultFactors(p, m, shape), m.placement);
  return {};
}

NoRule matmul(Planner& p, NodeId id) { return product(p, id, "self", "other", {}); }
NoRule mm(Planner& p, NodeId id) { return product(p, id, "self", "mat2", {}); }
NoRule addmm(Planner& p, NodeId id) { return product(p, id, "mat1", "mat2", "self"); }
NoRule baddbmm(Planner& p, NodeId id) { return product(p, id, "batch1", "batch2", "self"); }

NoRule linear(Planner& p, NodeId id) {
  const ValueId given = ir::useArg(p.node(id), "input"), weight = ir::useArg(p.node(id), "weight");
  if (!p.placement(weight).isReplicated()) return "a linear layer with a sharded weight";
  ValueId x = p.unpartial(given);
  if (p.placement(x).isSharded() && p.placement(x).dim == p.rankOf(x) - 1) {
    // Features (heads) are sharded: back to the sequence. Never leave a partial sum here: its bias would count P times.
    const auto sequence = p.sequenceShard(x);
    if (!sequence || sequence->dim == p.rankOf(x) - 1) return "a linear layer over a sharded feature dim";
    x = p.toShard(x, *sequence);
  }
  p.graph().node(id).set("input", ir::Use{x});
  if (p.placement(x).isSharded())
    for (Symbol name : {Symbol("weight"), Symbol("bias")})
      if (const ValueId w = ir::useArg(p.node(id), name); w != kNone) {
        const ValueId varied = p.vary(w);
        p.graph().node(id).set(name, ir::Use{varied});
      }
  Factors factors(p.factors(x).begin(), p.factors(x).end() - 1);
  factors.push_back(p.factors(weight)[0]);
  p.setOutput(id, 0, factors, p.placement(x));
  return {};
}

}  // namespace

void addContractionRules(RuleTable& t) {
  t["matmul"] = matmul;
  t["mm"] = t["bmm"] = mm;
  t["addmm"] = addmm;
  t["baddbmm"] = baddbmm;
  t["linear"] = linear;
}

}  // namespace spscope::passes
