// SPDX-License-Identifier: Apache-2.0
// Views: exact on factor lists. A factor may be split and merged; the sharded one is followed.
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

struct Piece {
  ir::Factor factor;
  bool sharded = false;
};

/// Factor lists and placement after a reshape to `shape`; why not, where the sharded factor cannot be followed.
NoRule regroup(const Factors& factors, const Placement& placement, const ir::Dims& shape, Factors* out_factors,
               Placement* out_placement) {
  std::vector<Piece> pieces;
  for (std::size_t d = 0; d < factors.size(); ++d)
    for (std::size_t j = 0; j < factors[d].size(); ++j)
      pieces.push_back({factors[d][j], placement.isSharded() && static_cast<int>(d) == placement.dim &&
                                           static_cast<int>(j) == placement.factor});
  out_factors->assign(shape.size(), {});
  *out_placement = placement;
  bool found = !placement.isSharded();
  std::size_t next = 0, k = 0;
  while (k < shape.size()) {
    if (shape[k] == 1) {
      ++k;
      continue;
    }
    // The smallest group of pieces and dims with equal products.
    if (next >= pieces.size()) return "reshape of an empty value";
    std::vector<std::size_t> dims{k};
    std::int64_t dims_product = shape[k], pieces_product = pieces[next].factor.size;
    std::vector<Piece> group{pieces[next]};
    ++next, ++k;
    while (dims_product != pieces_product) {
      if (dims_product < pieces_product) {
        if (k >= shape.size()) return "reshape does not match its factors";
        if (shape[k] != 1) dims.push_back(k), dims_product *= shape[k];
        ++k;
      } else {
        if (next >= pieces.size()) return "reshape does not match its factors";
        group.push_back(pieces[next]);
        pieces_product *= pieces[next++].factor.size;
      }
    }
    // Consume the group left to right; a piece that is larger than what a dim still needs is split.
    std::vector<std::pair<std::size_t, FactorList>> lists;
    std::size_t at = 0;
    Placement here = *out_placement;
    bool here_found = false, fits = true;
    for (std::size_t dim : dims) {
      std::int64_t need = shape[dim];
      FactorList list;
      while (need > 1 && fits) {
        Piece& piece = group[at];
        if (need % piece.factor.size == 0) {
          if (piece.sharded) here.dim = static_cast<int>(dim), here.factor = static_cast<int>(list.size()), here_found = true;
          list.push_back(piece.factor);
          need /= piece.factor.size;
          ++at;
        } else if (piece.factor.size % need == 0) {
          const std::int64_t inner = piece.factor.size / need;
          if (piece.sharded) {  // the shard goes to the outer part, if every block divides
            for (auto& s : here.sizes) {
              if (s % inner) fits = false;
              s /= inner;
            }
            here.dim = static_cast<int>(dim), here.factor = static_cast<int>(list.size()), here_found = true;
          }
          list.push_back({need, piece.factor.tag});
          piece = {{inner, Tag::kNone}, false};
          need = 1;
        } else {
          fits = false;
        }
      }
      lists.push_back({dim, list});
      if (!fits) break;
    }
    const bool group_sharded = [&] {
      for (std::size_t i = next - group.size(); i < next; ++i)
        if (pieces[i].sharded) return true;
      return false;
    }();
    if (!fits) {
      if (group_sharded) return "a reshape splits the sharded factor unevenly";
      for (std::size_t dim : dims) (*out_factors)[dim] = {{shape[dim], Tag::kNone}};
    } else {
      for (auto& [dim, list] : lists) (*out_factors)[dim] = list;
      if (here_found) *out_placement = here, found = true;
    }
  }
  if (!found) return "a reshape loses the sharded factor";
  return {};
}

/// Every op whose output is the operand with the same elements in the same order.
NoRule reshape(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const ir::Dims shape = p.value(p.node(id).outputs[0]).shape;
  Factors factors;
  Placement placement;
  if (ir::numel(shape) == 0) return "an empty value";
  if (NoRule reason = regroup(p.factors(x), p.placement(x), shape, &factors, &placement)) return reason;
  p.setOutput(id, 0, factors, placement);
  return {};
}

void permuted(Planner& p, NodeId id, ValueId x, const std::vector<int>& order) {
  Factors factors;
  Placement placement = p.placement(x);
  for (std::size_t i = 0; i < order.size(); ++i) {
    factors.push_back(p.factors(x)[static_cast<std::size_t>(order[i])]);
    if (p.placement(x).isSharded() && order[i] == p.placement(x).dim) placement.dim = static_cast<int>(i);
  }
  p.setOutput(id, 0, factors, placement);
}

std::vector<int> identity(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
  return order;
}

NoRule transpose(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  std::vector<int> order = identity(p.rankOf(x));
  if (order.empty()) return reshape(p, id);
  const auto base = ir::baseName(p.node(id).op);
  const std::int64_t a = base == "t" ? 0 : ir::intArg(p.node(id), base == "swapaxes" ? "axis0" : "dim0", 0);
  const std::int64_t b = base == "t" ? (p.rankOf(x) == 2 ? 1 : 0) : ir::intArg(p.node(id), base == "swapaxes" ? "axis1" : "dim1", 1);
  std::swap(order[static_cast<std::size_t>(normDim(a, p.rankOf(x)))],
            order[static_cast<std::size_t>(normDim(b, p.rankOf(x)))]);
  permuted(p, id, x, order);
  return {};
}

NoRule reversed(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  std::vector<int> order = identity(p.rankOf(x));
  permuted(p, id, x, std::vector<int>(order.rbegin(), order.rend()));
  return {};
}

NoRule permute(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const auto dims = ir::intListArg(p.node(id), "dims");
  if (!dims) return "permute without dims";
  std::vector<int> order;
  for (auto d : *dims) order.push_back(normDim(d, p.rankOf(x)));
  permuted(p, id, x, order);
  return {};
}

NoRule expand(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const ir::Dims shape = p.value(p.node(id).outputs[0]).shape;
  const int k = static_cast<int>(shape.size()) - p.rankOf(x);
  Factors factors(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const int dx = static_cast<int>(d) - k;
    const std::int64_t have = dx < 0 ? 1 : p.value(x).shape[static_cast<std::size_t>(dx)];
    if (have == shape[d]) {
      if (dx >= 0) factors[d] = p.factors(x)[static_cast<std::size_t>(dx)];
    } else {
      factors[d] = {{shape[d], Tag::kExpanded}};
    }
  }
  Placement placement = p.placement(x);
  if (placement.isSharded()) placement.dim += k;
  p.setOutput(id, 0, factors, placement);
  return {};
}

NoRule repeat(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  const auto repeats = ir::intListArg(p.node(id), "repeats");
  if (!repeats) return "repeat without counts";
  const int k = static_cast<int>(repeats->size()) - p.rankOf(x);
  Factors factors(repeats->size());
  Placement placement = p.placement(x);
  for (std::size_t d = 0; d < repeats->size(); ++d) {
    const int dx = static_cast<int>(d) - k;
    if (dx >= 0) factors[d] = p.factors(x)[static_cast<std::size_t>(dx)];
    if ((*repeats)[d] == 1) continue;
    if (placement.isSharded() && placement.dim == dx) return "repeat along the sharded dim";
    factors[d].insert(factors[d].begin(), {(*repeats)[d], Tag::kNone});
  }
  if (placement.isSharded()) placement.dim += k;
  p.setOutput(id, 0, factors, placement);
  return {};
}

NoRule repeatInterleave(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self");
  const ir::Attribute* dim = p.node(id).find("dim");
  if (x == kNone || !dim || !std::holds_alternative<std::int64_t>(*dim)) return "repeat_interleave over all elements";
  const std::int64_t n = ir::intArg(p.node(id), "repeats", 0);
  if (n < 1) return "repeat_interleave with counts in a tensor";
  Factors factors = p.factors(x);
  if (n > 1) factors[static_cast<std::size_t>(normDim(std::get<std::int64_t>(*dim), p.rankOf(x)))].push_back({n, Tag::kExpanded});
  p.setOutput(id, 0, factors, p.placement(x));
  return {};
}

NoRule viewAsComplex(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  if (p.placement(x).isSharded() && p.placement(x).dim == p.rankOf(x) - 1) return "complex view of the sharded dim";
  Factors factors = p.factors(x);
  factors.pop_back();
  p.setOutput(id, 0, factors, p.placement(x));
  return {};
}

NoRule viewAsReal(Planner& p, NodeId id) {
  const ValueId x = p.operands(id)[0];
  Factors factors = p.factors(x);
  factors.push_back({{2, Tag::kNone}});
  p.setOutput(id, 0, factors, p.placement(x));
  return {};
}

}  // namespace

void addViewRules(RuleTable& t) {
  for (std::string_view name : {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as"})
    t[name] = reshape;
  t["transpose"] = t["swapaxes"] = t["t"] = transpose;
  t["numpy_T"] = reversed;
  t["permute"] = permute;
  t["expand"] = t["expand_as"] = expand;
  t["repeat"] = repeat;
  t["repeat_interleave"] = repeatInterleave;
  t["view_as_complex"] = viewAsComplex;
  t["view_as_real"] = viewAsReal;
}

}  // namespace spscope::passes
