// SPDX-License-Identifier: Apache-2.0
// Ops along a dim: reductions, softmax and scans, norms, sorting.
#include <algorithm>

#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::FactorList;
using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::ValueId;

NoRule alongDim(Planner& p, NodeId id, Symbol operand, std::int64_t dim) {
  ValueId x = ir::useArg(p.node(id), operand);
  const int d = normDim(dim, p.rankOf(x));
  ValueId moved = p.unpartial(x);
  if (p.placement(moved).isSharded() && p.placement(moved).dim == d) {
    const auto sequence = p.sequenceShard(moved);
    if (!sequence || sequence->dim == d) return "acts along the sharded dim " + std::to_string(d);
    moved = p.toShard(moved, *sequence);
  }
  p.replaceOperand(id, x, moved);
  for (std::size_t i = 0; i < p.node(id).outputs.size(); ++i) {
    const ValueId out = p.node(id).outputs[i];
    if (out == kNone) continue;
    Factors factors = p.factors(moved);
    Placement placement = p.placement(moved);
    if (p.rankOf(out) == p.rankOf(moved)) {
      const std::int64_t n = p.value(out).shape[static_cast<std::size_t>(d)];
      if (n != p.value(moved).shape[static_cast<std::size_t>(d)])
        factors[static_cast<std::size_t>(d)] = n == 1 ? FactorList{} : FactorList{{n, ir::Tag::kNone}};
    } else {
      factors.erase(factors.begin() + d);
      if (placement.isSharded() && placement.dim > d) --placement.dim;
    }
    p.setOutput(id, static_cast<int>(i), factors, placement);
  }
  return {};
}

namespace {

NoRule softmax(Planner& p, NodeId id) { return alongDim(p, id, "self", ir::intArg(p.node(id), "dim", -1)); }

NoRule scan(Planner& p, NodeId id) { return alongDim(p, id, "self", ir::intArg(p.node(id), "dim", -1)); }

NoRule alongOneOf(Planner& p, NodeId id) {
  // max.dim, argmax, sort, topk ...: over all elements when no dim is given.
  const auto dims = ir::intListArg(p.node(id), "dim");
  const std::string_view base = ir::baseName(p.node(id).op);
  if (!dims && base != "topk" && base != "sort" && base != "argsort") {
    if (allReplicated(p, p.operands(id))) {
      p.setReplicated(id);
      return {};
    }
    return "acts over all elements";
  }
  if (dims && dims->size() > 1) return "acts along several dims";
  return alongDim(p, id, "self", dims ? (*dims)[0] : -1);
}

NoRule reduce(Planner& p, NodeId id) {
  ValueId x = ir::useArg(p.node(id), "self");
  const bool mean = ir::baseName(p.node(id).op) == "mean";
  const auto given = ir::intListArg(p.node(id), "dim");
  const int nd = p.rankOf(x);
  std::vector<bool> reduced(static_cast<std::size_t>(nd), !given || given->empty());
  if (given)
    for (auto d : *given) reduced[static_cast<std::size_t>(normDim(d, nd))] = true;
  const bool keep = ir::boolArg(p.node(id), "keepdim", false);
  if (mean && p.placement(x).isPartial()) {
    const ValueId whole = p.unpartial(x);
    p.replaceOperand(id, x, whole);
    x = whole;
  }
  Factors factors;
  Placement placement = p.placement(x);
  for (int d = 0; d < nd; ++d) {
    if (!reduced[static_cast<std::size_t>(d)]) factors.push_back(p.factors(x)[static_cast<std::size_t>(d)]);
    else if (keep) factors.push_back({});
  }
  if (placement.isSharded()) {
    if (reduced[static_cast<std::size_t>(placement.dim)]) {
      if (!ir::isFloating(p.value(x).dtype) && p.value(x).dtype == ir::DType::kUnknown) return "a sum of an unknown type";
      placement = Placement::partial();  // mean becomes sum / global count in parallelize-loss
    } else if (!keep) {
      placement.dim -= static_cast<int>(std::count(reduced.begin(), reduced.begin() + placement.dim, true));
    }
  }
  p.setOutput(id, 0, factors, placement);
  return {};
}

NoRule layerNorm(Planner& p, NodeId id) {
  const ValueId given = ir::useArg(p.node(id), "input");
  ValueId x = p.unpartial(given);
  const auto shape = ir::intListArg(p.node(id), "normalized_shape");
  const int first = p.rankOf(x) - static_cast<int>(shape ? shape->size() : 1);
  if (p.placement(x).isSharded() && p.placement(x).dim >= first) {
    const auto sequence = p.sequenceShard(x);
    if (!sequence || sequence->dim >= first) return "a norm over the sharded dim";
    x = p.toShard(x, *sequence);
  }
  p.replaceOperand(id, given, x);
  if (!p.placement(x).isReplicated())
    for (Symbol name : {Symbol("weight"), Symbol("bias")})
      if (const ValueId w = ir::useArg(p.node(id), name); w != kNone) p.replaceOperand(id, w, p.vary(p.gather(w, "a norm's weight must be whole")));
  Factors statistics = p.factors(x);
  for (int d = first; d < p.rankOf(x); ++d) statistics[static_cast<std::size_t>(d)] = {};
  for (std::size_t i = 0; i < p.node(id).outputs.size(); ++i)
    p.setOutput(id, static_cast<int>(i), i == 0 ? p.factors(x) : statistics, p.placement(x));
  return {};
}

NoRule triangle(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self");
  if (p.placement(x).isPartial()) return "triu of a partial sum";
  if (p.placement(x).isSharded() && p.placement(x).dim >= p.rankOf(x) - 2) return "triu along the sharded dim";
  p.setOutput(id, 0, p.factors(x), p.placement(x));
  return {};
}

NoRule difference(Planner& p, NodeId id) {
  if (!allReplicated(p, p.operands(id))) return "diff of a sharded value";
  const ValueId x = ir::useArg(p.node(id), "self"), out = p.node(id).outputs[0];
  p.setReplicated(id);
  if (p.value(out).shape == p.value(x).shape) p.setOutput(id, 0, p.factors(x), Placement::replicated());
  return {};
}

NoRule oneHot(Planner& p, NodeId id) {
  const ValueId given = ir::useArg(p.node(id), "self"), x = p.unpartial(given);
  const std::int64_t classes = ir::intArg(p.node(id), "num_classes", -1);
  if (classes < 1) return "one_hot with a data-dependent class count";
  p.replaceOperand(id, given, x);
  Factors factors = p.factors(x);
  factors.push_back(classes == 1 ? FactorList{} : FactorList{{classes, ir::Tag::kNone}});
  p.setOutput(id, 0, factors, p.placement(x));
  return {};
}

NoRule histogram(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self");
  if (p.operands(id).size() > 1 && !allReplicated(p, p.operands(id))) return "a weighted histogram of a sharded value";
  const bool sharded = p.placement(x).isSharded();  // counts add up
  p.setReplicated(id);
  if (sharded) p.setOutput(id, 0, p.factors(p.node(id).outputs[0]), Placement::partial());
  return {};
}

}  // namespace

void addReductionRules(RuleTable& t) {
  for (std::string_view name : {"softmax", "_softmax", "log_softmax", "_log_softmax"}) t[name] = softmax;
  for (std::string_view name : {"cumprod", "logcumsumexp"}) t[name] = scan;
  for (std::string_view name : {"max", "min", "amax", "amin", "argmax", "argmin", "sort", "argsort", "topk", "logsumexp"})
    t[name] = alongOneOf;
  t["sum"] = t["mean"] = reduce;
  t["layer_norm"] = t["native_layer_norm"] = t["rms_norm"] = layerNorm;
  t["triu"] = t["tril"] = triangle;
  t["diff"] = difference;
  t["one_hot"] = oneHot;
  t["histc"] = t["bincount"] = histogram;
}

}  // namespace spscope::passes
