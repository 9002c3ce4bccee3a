// SPDX-License-Identifier: Apache-2.0
// Ops that look a little way along the sharded dim, or sum up along it: shift, roll, causal convolution, cumulative sum.
// Instead of the whole value the ranks exchange its edges: the dim [S] is seen as [P, S/P] with P sharded, so that what an op
// does inside a block is local, and only [P, k] edges (or the P totals of a sum) are made whole. All by ops that have their
// gradients already. Where blocks are uneven or an op reaches further than a block, the planner's fallback takes over.
#include <algorithm>

#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::Tag;
using ir::Use;
using ir::ValueId;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A value whose dim `dim` is [P, size] with P sharded.
struct Blocked {
  ValueId value = kNone;
  int dim = 0;
  std::int64_t blocks = 1, size = 1;
  Factors plain;  ///< of the value as it was
  Placement place;
};

/// x by blocks; nothing where `dim` is not one evenly sharded factor.
std::optional<Blocked> blocked(Planner& p, ValueId x, int dim) {
  const Placement place = p.placement(x);
  if (!place.isSharded() || place.dim != dim || p.factors(x)[at(dim)].size() != 1) return std::nullopt;
  for (const std::int64_t size : place.sizes)
    if (size != place.sizes[0] || size == 0) return std::nullopt;
  Blocked b{kNone, dim, static_cast<std::int64_t>(place.sizes.size()), place.sizes[0], p.factors(x), place};
  Factors factors = b.plain;
  factors[at(dim)] = {{b.blocks, Tag::kSequence}};
  factors.insert(factors.begin() + dim + 1, ir::plainFactors({b.size})[0]);
  b.value = p.insert("aten.reshape.default", {{"self", Use{x}}, {"shape", ir::shapeOf(factors)}}, p.value(x).dtype, factors,
                     Placement::sharded(dim, 0, ir::Dims(at(static_cast<int>(b.blocks)), 1)));
  return b;
}

/// An op on a blocked value (or an edge of it) that gives `size` elements per block.
ValueId inBlocks(Planner& p, const Blocked& b, Symbol op, std::vector<ir::Argument> args, std::int64_t size) {
  Factors factors = p.factors(b.value);
  factors[at(b.dim) + 1] = ir::plainFactors({size})[0];
  return p.insert(op, std::move(args), p.value(b.value).dtype, factors, p.placement(b.value));
}
ValueId cut(Planner& p, const Blocked& b, ValueId v, std::int64_t start, std::int64_t end) {
  return inBlocks(p, b, "aten.slice.Tensor", {{"self", Use{v}}, {"dim", std::int64_t{b.dim + 1}}, {"start", start}, {"end", end}}, end - start);
}

/// Each block gets what the block before it (by = 1) or behind it (by = -1) has; the outermost one zeros, or, in a ring, what
/// the other end has.
ValueId fromNeighbour(Planner& p, const Blocked& b, ValueId edge, std::int64_t by, bool ring) {
  const ValueId whole = p.wholeEdges(edge);
  const Factors factors = p.factors(whole);
  ValueId moved;
  if (ring) {
    moved = p.insert("aten.roll.default", {{"self", Use{whole}}, {"shifts", ir::Dims{by}}, {"dims", ir::Dims{b.dim}}}, p.value(whole).dtype,
                     factors, Placement::replicated());
  } else {
    ir::Dims pads(2 * (factors.size() - at(b.dim)), 0);
    pads[pads.size() - 2] = by, pads[pads.size() - 1] = -by;
    moved = p.insert("aten.constant_pad_nd.default", {{"self", Use{whole}}, {"pad", pads}, {"value", 0.0}}, p.value(whole).dtype, factors,
                     Placement::replicated());
  }
  return p.toShard(moved, Planner::shardOf(p.value(b.value)));
}

/// The node gives `v` (blocked) in the shape that x had.
void becomes(Planner& p, NodeId id, const Blocked& b, ValueId v) {
  ir::Node& node = p.graph().node(id);
  node.op = "aten.reshape.default";
  node.args = {{"self", Use{v}}, {"shape", p.value(node.outputs[0]).shape}};
  node.provenance.pass = Symbol("plan-sequence");
  node.provenance.from = {id};
  p.setOutput(id, 0, b.plain, b.place);
}

}  // namespace

bool shiftByEdges(Planner& p, NodeId id, ValueId x, int dim, std::int64_t by, bool ring) {
  if (by == 0 || !p.placement(x).isSharded() || std::abs(by) >= p.placement(x).sizes[0]) return false;
  const auto b = blocked(p, x, dim);
  if (!b) return false;
  p.count("edge_exchanges");
  const std::int64_t k = std::abs(by), m = b->size;
  const ValueId edge = by > 0 ? cut(p, *b, b->value, m - k, m) : cut(p, *b, b->value, 0, k);
  const ValueId near = fromNeighbour(p, *b, edge, by > 0 ? 1 : -1, ring);
  const ValueId rest = by > 0 ? cut(p, *b, b->value, 0, m - k) : cut(p, *b, b->value, k, m);
  const ir::UseList parts = by > 0 ? ir::UseList{{near}, {rest}} : ir::UseList{{rest}, {near}};
  becomes(p, id, *b, inBlocks(p, *b, "aten.cat.default", {{"tensors", parts}, {"dim", std::int64_t{dim + 1}}}, m));
  return true;
}

namespace {

NoRule cumsum(Planner& p, NodeId id) {
  const ValueId x = ir::useArg(p.node(id), "self");
  const int dim = normDim(ir::intArg(p.node(id), "dim", -1), p.rankOf(x));
  const ValueId out = p.node(id).outputs[0];
  if (p.value(x).dtype == p.value(out).dtype && ir::isFloating(p.value(x).dtype))
    if (const auto b = blocked(p, x, dim)) {
      // Sums inside the blocks, and before them what all earlier blocks hold.
      p.count("edge_exchanges");
      const auto sums = [&](ValueId v, std::int64_t along) {
        return std::vector<ir::Argument>{{"self", Use{v}}, {"dim", along}};
      };
      const ValueId inside = inBlocks(p, *b, "aten.cumsum.default", sums(b->value, dim + 1), b->size);
      const ValueId totals = p.wholeEdges(cut(p, *b, inside, b->size - 1, b->size));
      const Factors factors = p.factors(totals);
      const ValueId upTo = p.insert("aten.cumsum.default", sums(totals, dim), p.value(totals).dtype, factors, Placement::replicated());
      ir::Dims pads(2 * (factors.size() - at(dim)), 0);
      pads[pads.size() - 2] = 1, pads[pads.size() - 1] = -1;
      const ValueId before = p.insert("aten.constant_pad_nd.default", {{"self", Use{upTo}}, {"pad", pads}, {"value", 0.0}}, p.value(totals).dtype,
                                      factors, Placement::replicated());
      const ValueId mine = p.toShard(before, Planner::shardOf(p.value(b->value)));
      becomes(p, id, *b, inBlocks(p, *b, "aten.add.Tensor", {{"self", Use{inside}}, {"other", Use{mine}}}, b->size));
      return {};
    }
  return alongDim(p, id, "self", dim);
}

/// roll and flip: dims that are whole are the rank's own business.
NoRule rearrange(Planner& p, NodeId id) {
  const bool roll = ir::baseName(p.node(id).op) == "roll";
  const ValueId given = ir::useArg(p.node(id), "self"), x = p.unpartial(given);
  p.replaceOperand(id, given, x);
  const auto dims = ir::intListArg(p.node(id), "dims"), shifts = ir::intListArg(p.node(id), "shifts");
  const Placement place = p.placement(x);
  if (place.isSharded()) {
    if (!dims || dims->empty()) return "roll over all elements";
    for (const std::int64_t d : *dims) {
      if (normDim(d, p.rankOf(x)) != place.dim) continue;
      if (!roll) return "flip along the sharded dim";
      if (dims->size() != 1 || !shifts || shifts->size() != 1) return "roll along several dims, one of them sharded";
      const std::int64_t n = p.value(x).shape[at(place.dim)];
      std::int64_t by = ((*shifts)[0] % n + n) % n;
      if (by > n / 2) by -= n;
      if (shiftByEdges(p, id, x, place.dim, by, true)) return {};
      return "roll along the sharded dim by more than a block, or in uneven blocks";
    }
  }
  p.setOutput(id, 0, p.factors(x), place);
  return {};
}

/// conv1d over [N, C, L] sharded on L, behind a left pad that makes it causal.
NoRule causalConvolution(Planner& p, NodeId id) {
  const ir::Node node = p.node(id);  // a copy: insertions move nodes
  const ValueId x = ir::useArg(node, "input"), weight = ir::useArg(node, "weight"), bias = ir::useArg(node, "bias");
  if (x == kNone || weight == kNone || p.rankOf(x) != 3 || !p.placement(x).isSharded() || p.placement(x).dim != 2) return convolveRows(p, id);
  if (!p.placement(weight).isReplicated() || (bias != kNone && !p.placement(bias).isReplicated())) return "a convolution whose weight is sharded";
  const ValueId out = node.outputs[0];
  const auto first = [&](Symbol name, std::int64_t otherwise) {
    const auto list = ir::intListArg(node, name);
    return list && !list->empty() ? (*list)[0] : otherwise;
  };
  const std::int64_t reach = (p.value(weight).shape[2] - 1) * first("dilation", 1);
  if (ir::stringArg(node, "padding", "").size() > 0 || first("stride", 1) != 1 || first("padding", 0) != 0)
    return "a convolution along the sharded dim with strides or a padding of its own";
  const NodeId producer = p.value(x).producer;
  const std::string_view made = producer == kNone ? std::string_view() : ir::baseName(p.node(producer).op);
  const auto pads = producer == kNone ? std::optional<ir::Dims>() : ir::intListArg(p.node(producer), "pad");
  if ((made != "pad" && made != "constant_pad_nd") || !pads || *pads != ir::Dims{reach, 0} || ir::doubleArg(p.node(producer), "value", 0.0) != 0.0)
    return "a convolution along the sharded dim that is not causal (zeros on the left, as many as it reaches back)";
  const ValueId source = ir::useArg(p.node(producer), "self");
  if (!p.placement(source).isSharded() || reach > p.placement(source).sizes[0] || reach == 0) return "a convolution that reaches further than a block";
  const auto b = blocked(p, source, 2);  // [N, C, P, m]
  if (!b) return "a convolution along a dim in uneven blocks";
  p.count("edge_exchanges");
  const std::int64_t m = b->size;
  const ValueId near = fromNeighbour(p, *b, cut(p, *b, b->value, m - reach, m), 1, false);
  const ValueId wide = inBlocks(p, *b, "aten.cat.default", {{"tensors", ir::UseList{{near}, {b->value}}}, {"dim", std::int64_t{3}}}, m + reach);
  // Blocks are rows of the batch: [P·N, C, m + reach].
  const ir::DType dtype = p.value(x).dtype, result = p.value(out).dtype;
  const auto moved = [&](ValueId v, ir::Dims order, int to, ir::DType type) {
    Factors factors;
    for (const std::int64_t d : order) factors.push_back(p.factors(v)[static_cast<std::size_t>(d)]);
    Placement place = p.placement(v);
    place.dim = to;
    return p.insert("aten.permute.default", {{"self", Use{v}}, {"dims", order}}, type, factors, place);
  };
  const auto shaped = [&](ValueId v, Factors factors, ir::DType type) {
    return p.insert("aten.reshape.default", {{"self", Use{v}}, {"shape", ir::shapeOf(factors)}}, type, factors,
                    Placement::sharded(0, 0, ir::Dims(static_cast<std::size_t>(b->blocks), 1)));
  };
  const ValueId apart = moved(wide, {2, 0, 1, 3}, 0, dtype);  // [P, N, C, m + reach]
  const Factors f = p.factors(apart);
  Factors rows(3);
  rows[0] = f[0];
  for (const auto& factor : f[1]) rows[0].push_back(factor);
  rows[1] = f[2], rows[2] = f[3];
  std::vector<ir::Argument> args(node.args.begin(), node.args.end());
  const ValueId input = shaped(apart, rows, dtype), w = p.vary(weight), c = bias == kNone ? kNone : p.vary(bias);
  for (auto& a : args) {
    if (a.name == Symbol("input")) a.value = Use{input};
    if (a.name == Symbol("weight")) a.value = Use{w};
    if (a.name == Symbol("bias") && bias != kNone) a.value = Use{c};
  }
  Factors made_rows = rows;
  made_rows[1] = ir::plainFactors({p.value(out).shape[1]})[0];
  made_rows[2] = ir::plainFactors({m})[0];
  const Symbol op = node.op;
  const ValueId local = p.insert(op, std::move(args), result, made_rows, p.placement(input));
  Factors split(4);
  split[0] = f[0], split[1] = f[1], split[2] = made_rows[1], split[3] = made_rows[2];
  Blocked done = *b;
  done.plain[1] = made_rows[1];
  becomes(p, id, done, moved(shaped(local, split, result), {1, 2, 0, 3}, 2, result));
  return {};
}

}  // namespace

void addEdgeRules(RuleTable& t) {
  t["cumsum"] = cumsum;
  t["roll"] = t["flip"] = rearrange;
  t["conv1d"] = causalConvolution;
}

}  // namespace spscope::passes
