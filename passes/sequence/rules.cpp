// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/rules.h"

#include <tuple>

namespace spscope::passes {

using ir::FactorList;
using ir::Factors;
using ir::Placement;
using ir::Tag;
using ir::ValueId;

const RuleTable& ruleTable() {
  static const RuleTable table = [] {
    RuleTable t;
    addElementwiseRules(t);
    addViewRules(t);
    addSliceRules(t);
    addReductionRules(t);
    addIndexRules(t);
    addContractionRules(t);
    addAttentionRules(t);
    addLossRules(t);
    addBatchRules(t);
    addEdgeRules(t);
    return t;
  }();
  return table;
}

int normDim(std::int64_t dim, int rank) { return static_cast<int>(dim < 0 ? dim + rank : dim); }

bool allReplicated(const Planner& p, const std::vector<ValueId>& values) {
  for (ValueId v : values)
    if (!p.placement(v).isReplicated()) return false;
  return true;
}

Factors broadcastFactors(const Planner& p, const std::vector<ValueId>& operands, const ir::Dims& shape,
                         const std::optional<Shard>& shard) {
  const int nd = static_cast<int>(shape.size());
  Factors out(shape.size());
  for (int d = 0; d < nd; ++d) {
    const std::int64_t n = shape[static_cast<std::size_t>(d)];
    if (n == 1) continue;
    const FactorList* best = nullptr;
    std::tuple<int, std::size_t> best_score;
    for (ValueId v : operands) {
      const int dv = d - (nd - p.rankOf(v));
      if (dv < 0 || p.value(v).shape[static_cast<std::size_t>(dv)] != n) continue;
      const FactorList& f = p.factors(v)[static_cast<std::size_t>(dv)];
      int tags = 0;
      for (const auto& x : f) tags += x.tag == Tag::kSequence ? 2 : x.tag == Tag::kBatch ? 1 : 0;
      const std::tuple<int, std::size_t> score{tags, f.size()};
      if (!best || score > best_score) best = &f, best_score = score;
    }
    out[static_cast<std::size_t>(d)] = best ? *best : FactorList{{n, Tag::kNone}};
  }
  if (shard) out[static_cast<std::size_t>(shard->dim)] = shard->list;
  return out;
}

std::optional<Shard> chooseShard(const Planner& p, const std::vector<ValueId>& operands, int result_rank, int skip) {
  std::optional<Shard> best;
  std::tuple<bool, bool, std::int64_t> best_score;
  for (ValueId v : operands) {
    if (!p.placement(v).isSharded()) continue;
    Shard s = Planner::shardOf(p.value(v));
    const bool sequence = s.list[static_cast<std::size_t>(s.factor)].tag == Tag::kSequence;
    s.dim += result_rank - p.rankOf(v);
    const std::tuple<bool, bool, std::int64_t> score{s.dim != skip, sequence, ir::numel(p.value(v).shape)};
    if (!best || score > best_score) best = s, best_score = score;
  }
  return best;
}

ValueId insertUnsqueeze(Planner& p, ValueId v, int dim) {
  Factors f = p.factors(v);
  f.insert(f.begin() + dim, FactorList{});
  Placement place = p.placement(v);
  if (place.isSharded() && place.dim >= dim) ++place.dim;
  return p.insert("aten.unsqueeze.default", {{"self", ir::Use{v}}, {"dim", std::int64_t{dim}}}, p.value(v).dtype, f,
                  place);
}

ValueId insertRepeatInterleave(Planner& p, ValueId v, int dim, std::int64_t n) {
  if (n == 1) return v;
  const Factors before = p.factors(v);
  const Placement place = p.placement(v);
  const ir::DType dtype = p.value(v).dtype;
  ValueId x = insertUnsqueeze(p, v, dim + 1);
  Factors wide = p.factors(x);
  wide[static_cast<std::size_t>(dim) + 1] = {{n, Tag::kExpanded}};
  const Placement wide_place = p.placement(x);
  x = p.insert("aten.expand.default", {{"self", ir::Use{x}}, {"size", ir::shapeOf(wide)}}, dtype, wide, wide_place);
  Factors after = before;
  after[static_cast<std::size_t>(dim)].push_back({n, Tag::kExpanded});
  return p.insert("aten.reshape.default", {{"self", ir::Use{x}}, {"shape", ir::shapeOf(after)}}, dtype, after, place);
}

}  // namespace spscope::passes
