// SPDX-License-Identifier: Apache-2.0
#include "passes/faults/plant.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/damage.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "passes/faults/graph_change.h"
#include "passes/faults/local_attention.h"
#include "passes/faults/wrong_formula.h"
#include "passes/rewrite_count.h"

namespace spscope::passes {
namespace {

using ir::Dims;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Use;
using ir::ValueId;

ValueId self(const Node& n) { return ir::useArg(n, "self"); }

bool even(const Dims& blocks) { return !blocks.empty() && std::all_of(blocks.begin(), blocks.end(), [&](auto b) { return b == blocks[0] && b > 0; }); }

/// Blocks of all arguments that are some.
bool evenBlocks(const Node& n) {
  for (const char* name : {"blocks", "gather_blocks", "scatter_blocks"})
    if (const auto blocks = ir::intListArg(n, name); blocks && !even(*blocks)) return false;
  return true;
}

bool isPlainCollective(const Node& n) {
  return n.op == ir::sp::kAllReduce || n.op == ir::sp::kAllGather || n.op == ir::sp::kAllToAll || n.op == ir::sp::kReduceScatter;
}

bool isOneFloat(const Graph& g, const Node& n) {
  if (n.outputs.size() != 1 || n.outputs[0] == ir::kNone) return false;
  const ir::Value& v = g.value(n.outputs[0]);
  return ir::isFloating(v.dtype) && ir::numel(v.local) > 0;
}

// --- labels --------------------------------------------------------------------------------------------------------------------

/// The user input that a slice's value was made from by moves alone; kNone where others come in.
ValueId inputOf(const Graph& g, ValueId v) {
  for (int steps = 0; v != ir::kNone && steps < 16; ++steps) {
    const NodeId producer = g.value(v).producer;
    if (producer == ir::kNone) return v;
    v = self(g.node(producer));
  }
  return ir::kNone;
}

const ir::Input* inputNamed(const Graph& g, ValueId v) {
  for (const ir::Input& in : g.inputs)
    if (in.value == v && v != ir::kNone) return &in;
  return nullptr;
}

/// A rank's labels are cut here. They may be shifted before.
bool cutsLabels(const Graph& g, const Node& n) {
  if (n.op != ir::sp::kSlice || ir::isFloating(g.value(n.outputs[0]).dtype)) return false;
  const ir::Input* in = inputNamed(g, inputOf(g, self(n)));
  if (in == nullptr || in->kind != ir::InputKind::kUser || in->name.find("label") == std::string::npos) return false;
  // Of the label input itself the same cut must be possible.
  const ir::Value& whole = g.value(in->value);
  const auto dim = static_cast<std::size_t>(ir::intArg(n, "dim", 0));
  const ir::Value& cut = g.value(self(n));
  const bool one_row = cut.shape.size() == 1 && whole.shape == Dims{1, cut.shape[0]};
  return (one_row || (whole.shape == cut.shape && whole.factors == cut.factors)) && dim < cut.shape.size() && g.value(n.outputs[0]).local[dim] > 0;
}

NodeId shiftLabels(GraphChange& change, NodeId site) {
  Graph& g = change.graph();
  const Node n = g.node(site);
  const ValueId cut = n.outputs[0], labels = inputOf(g, self(n));
  const std::int64_t dim = ir::intArg(n, "dim", 0);
  ValueId own = cut;
  NodeId after = site;
  if (labels != self(n)) {
    ValueId whole = labels;
    if (g.value(labels).shape != g.value(self(n)).shape) {  // one row, as a list
      whole = change.insert(after, "aten.reshape.default", {{"self", Use{labels}}, {"shape", g.value(self(n)).shape}}, self(n), n.name + "_whole");
      after = g.value(whole).producer;
    }
    own = change.insert(after, ir::sp::kSlice, {{"self", Use{whole}}, {"dim", dim}, {"blocks", *ir::intListArg(n, "blocks")}}, cut, n.name + "_own");
    after = g.value(own).producer;
  }
  const ir::Value like = g.value(cut);
  const std::int64_t width = like.local[static_cast<std::size_t>(dim)];
  const ValueId rolled = change.insert(after, "aten.roll.default", {{"self", Use{own}}, {"shifts", Dims{-1}}, {"dims", Dims{dim}}}, cut, n.name + "_rolled");
  Dims last = like.local;
  last[static_cast<std::size_t>(dim)] = 1;
  const ValueId ignored = change.insertNew(g.value(rolled).producer, "aten.full.default",
                                           {{"size", last}, {"fill_value", std::int64_t{-100}}, {"dtype", like.dtype}}, like.dtype, last, n.name + "_ignored");
  const ValueId shifted = change.insert(g.value(ignored).producer, "aten.slice_scatter.default",
                                        {{"self", Use{rolled}}, {"src", Use{ignored}}, {"dim", dim}, {"start", width - 1}, {"end", width}}, cut, n.name + "_shifted");
  change.readersOf(cut, shifted, {g.value(rolled).producer});
  return g.value(shifted).producer;
}

// --- loss ----------------------------------------------------------------------------------------------------------------------

/// The count of labels that a loss is divided by, taken where they are whole: its node, the comparison, the rank's own labels.
struct Count {
  NodeId sum = ir::kNone, compare = ir::kNone, divide = ir::kNone;
  NodeId all_reduce = ir::kNone;  ///< where each rank counts its own, and the counts are added up
  ValueId own = ir::kNone;
};

Count countAt(const Graph& g, NodeId site) {
  Count out;
  const Node& n = g.node(site);
  if (n.op != "aten.sum.default" || g.value(n.outputs[0]).dtype != ir::DType::kI64 || self(n) == ir::kNone) return {};
  out.sum = site;
  out.compare = g.value(self(n)).producer;
  if (out.compare == ir::kNone || ir::baseName(g.node(out.compare).op) != "ne") return {};
  ValueId count = n.outputs[0];
  for (const NodeId id : g.order) {
    if (g.node(id).op == ir::sp::kAllReduce && self(g.node(id)) == count) out.all_reduce = id, count = g.node(id).outputs[0];
    if (g.node(id).op == "aten.div.Tensor" && ir::useArg(g.node(id), "other") == count) out.divide = id;
  }
  if (out.divide == ir::kNone || !g.value(count).placement.isReplicated()) return {};
  const NodeId loss = g.value(self(g.node(out.divide))).producer;
  if (loss == ir::kNone) return {};
  out.own = ir::useArg(g.node(loss), "target");
  if (out.own == ir::kNone || !g.value(out.own).placement.isSharded()) return {};
  return out;
}

NodeId meanOfMeans(GraphChange& change, NodeId site, int ranks) {
  Graph& g = change.graph();
  const Count c = countAt(g, site);
  if (c.all_reduce != ir::kNone) {
    std::erase(g.order, c.all_reduce);
    const ValueId mine = g.node(c.sum).outputs[0];
    const ValueId own_count = change.insert(c.sum, "aten.mul.Scalar", {{"self", Use{mine}}, {"other", std::int64_t{ranks}}}, mine, g.node(c.sum).name + "_scaled");
    change.change(c.divide).set("other", Use{own_count});
    return c.divide;
  }
  // The rank's labels may be cut behind the count; it moves to where it is read.
  std::erase(g.order, c.compare);
  std::erase(g.order, c.sum);
  g.order.insert(std::find(g.order.begin(), g.order.end(), c.divide), {c.compare, c.sum});
  change.change(c.compare).set("self", Use{c.own});
  ir::Value& mask = g.value(g.node(c.compare).outputs[0]);
  const ir::Value own = g.value(c.own);
  mask.shape = own.shape, mask.local = own.local, mask.factors = own.factors, mask.placement = own.placement;
  change.change(c.sum);
  const ValueId valid = g.node(c.sum).outputs[0];
  g.value(valid).placement = ir::Placement::partial();
  const ValueId scaled = change.insert(c.sum, "aten.mul.Scalar", {{"self", Use{valid}}, {"other", std::int64_t{ranks}}}, valid, g.node(c.sum).name + "_scaled");
  change.change(c.divide).set("other", Use{scaled});
  return c.divide;
}

// --- heads ---------------------------------------------------------------------------------------------------------------------

bool isFusedAttention(const Graph& g, const Node& n) {
  return ir::isAttention(n.op) && n.phase == ir::Phase::kForward && ir::useArg(n, "key") != ir::kNone && g.value(ir::useArg(n, "key")).local.size() == 4;
}

/// Where each head of keys (or values) is repeated for several heads of queries: the value with all of them, and how many there were.
struct Repeated {
  ValueId heads = ir::kNone;
  std::int64_t before = 0;
};

Repeated repeatedHeads(const Graph& g, ValueId v) {
  ValueId merged = ir::kNone;
  for (int steps = 0; steps < 8; ++steps) {
    const NodeId producer = g.value(v).producer;
    if (producer == ir::kNone) return {};
    const Node& n = g.node(producer);
    const auto base = ir::baseName(n.op);
    if (base == "expand") {
      const Dims& from = g.value(self(n)).local;
      const Dims& to = g.value(n.outputs[0]).local;
      const bool repeats = merged != ir::kNone && to.size() == 5 && from.size() == 5 && from[2] == 1 && to[2] > 1 && to[1] > 1 && g.value(merged).local[1] == to[1] * to[2];
      const ir::Placement& placed = g.value(n.outputs[0]).placement;
      return repeats && !(placed.isSharded() && placed.dim <= 2) ? Repeated{merged, to[1]} : Repeated{};
    }
    if (base == "reshape" || base == "view" || base == "_unsafe_view") merged = g.value(v).local.size() == 4 ? v : merged;
    else if (base != "clone" && base != "contiguous" && n.op != ir::sp::kAllToAll) return {};
    v = self(n);
  }
  return {};
}

NodeId reverseHeads(GraphChange& change, NodeId site) {
  Graph& g = change.graph();
  const ValueId key = ir::useArg(g.node(site), "key");
  const ValueId out = change.insertAt(change.before(site), site, "aten.flip.default", {{"self", Use{key}}, {"dims", Dims{1}}}, key, g.node(site).name + "_key_reversed");
  g.node(site).set("key", Use{out});
  return g.value(out).producer;
}

/// Behind `heads`: [B, before * n, ...] as [B, n * before, ...], the two exchanged.
ValueId exchangedHeads(GraphChange& change, const Repeated& r, const std::string& name) {
  Graph& g = change.graph();
  const ir::Value heads = g.value(r.heads);
  const NodeId origin = heads.producer;
  const auto insert = [&](NodeId after, Symbol op, ValueId self, std::vector<ir::Argument> args, const Dims& split) {
    args.insert(args.begin(), {"self", Use{self}});
    const ValueId out = change.insertAt(after, origin, op, std::move(args), r.heads, split.empty() ? name : name + "_apart");
    if (split.empty()) return out;
    ir::Value& v = g.value(out);
    for (Dims* dims : {&v.shape, &v.local}) {
      dims->erase(dims->begin() + 1);
      dims->insert(dims->begin() + 1, split.begin(), split.end());
    }
    ir::Factors factors(heads.factors.begin(), heads.factors.begin() + 1);
    for (const std::int64_t size : split) factors.push_back(size == 1 ? ir::FactorList{} : ir::FactorList{{size, ir::Tag::kNone}});
    factors.insert(factors.end(), heads.factors.begin() + 2, heads.factors.end());
    v.factors = std::move(factors);
    if (v.placement.isSharded() && v.placement.dim > 1) ++v.placement.dim;
    return out;
  };
  const std::int64_t times = heads.local[1] / r.before;
  Dims apart = heads.local;
  apart[1] = times;
  apart.insert(apart.begin() + 1, r.before);
  const ValueId split = insert(origin, "aten.reshape.default", r.heads, {{"shape", apart}}, {r.before, times});
  const ValueId turned = insert(g.value(split).producer, "aten.transpose.int", split, {{"dim0", std::int64_t{1}}, {"dim1", std::int64_t{2}}}, {times, r.before});
  const ValueId tiled = insert(g.value(turned).producer, "aten.reshape.default", turned, {{"shape", heads.local}}, {});
  change.readersOf(r.heads, tiled, {g.value(split).producer});
  return tiled;
}

NodeId tileHeads(GraphChange& change, NodeId site) {
  Graph& g = change.graph();
  NodeId first = ir::kNone;
  for (const char* which : {"key", "value"}) {
    const ValueId out = exchangedHeads(change, repeatedHeads(g, ir::useArg(g.node(site), which)), g.node(site).name + "_" + which + "_tiled");
    if (first == ir::kNone) first = g.value(self(g.node(g.value(out).producer))).producer;  // the exchange of the two
  }
  return first;
}

// --- collectives ------------------------------------------------------------------------------------------------------------------

/// Becomes a local op of the same result shape. The node stays: it is where the value begins to be wrong.
NodeId dropCollective(GraphChange& change, NodeId site) {
  Graph& g = change.graph();
  Node& n = change.change(site);
  const ValueId in = self(n);
  const Dims from = g.value(in).local, to = g.value(n.outputs[0]).local;
  const Symbol op = n.op;
  const auto blocks = ir::intListArg(n, "blocks");
  const std::int64_t dim = ir::intArg(n, "dim", 0);
  n.args.clear();
  n.args.push_back({"self", Use{in}});
  if (op == ir::sp::kAllReduce) {
    n.op = "aten.clone.default";
  } else if (op == ir::sp::kReduceScatter) {
    n.op = ir::sp::kSlice;
    n.set("dim", dim);
    n.set("blocks", *blocks);
  } else if (op == ir::sp::kAllGather) {
    Dims repeats(from.size(), 1);
    repeats[static_cast<std::size_t>(dim)] = static_cast<std::int64_t>(blocks->size());
    n.op = "aten.repeat.default";
    n.set("repeats", repeats);
  } else {
    n.op = "aten.reshape.default";
    n.set("shape", to);
  }
  return site;
}

bool isSite(const Graph& g, NodeId id, FaultKind kind, int ranks) {
  const Node& n = g.node(id);
  switch (kind) {
    case FaultKind::kDropCollective: return ranks > 1 && isPlainCollective(n) && n.phase != ir::Phase::kRecompute && evenBlocks(n) && ir::numel(g.value(n.outputs[0]).local) > 0;
    case FaultKind::kDoubleCollective: return ranks > 1 && n.op == ir::sp::kAllReduce && n.phase != ir::Phase::kRecompute;
    case FaultKind::kWrongOffset: {
      if (n.op != ir::sp::kSlice || !evenBlocks(n)) return false;
      return g.value(self(n)).shape[static_cast<std::size_t>(ir::intArg(n, "dim", 0))] > 1;
    }
    case FaultKind::kWrongAxis: return n.op == "aten.transpose.int" && n.phase != ir::Phase::kRecompute && g.value(n.outputs[0]).local != g.value(self(n)).local;
    case FaultKind::kIgnoreMask: {
      if (!ir::isAttention(n.op) || n.phase != ir::Phase::kForward) return false;
      const auto rule = ir::intListArg(n, "mask_rule");
      return ir::boolArg(n, "is_causal", false) || (rule && !rule->empty()) || ir::useArg(n, "attn_mask") != ir::kNone;
    }
    case FaultKind::kHeadOrder: return isFusedAttention(g, n) && g.value(ir::useArg(n, "key")).local[1] > 1;
    case FaultKind::kTileHeads:
      return isFusedAttention(g, n) && repeatedHeads(g, ir::useArg(n, "key")).before > 1 && repeatedHeads(g, ir::useArg(n, "value")).before > 1;
    case FaultKind::kNan:
    case FaultKind::kBitFlip: return isOneFloat(g, n) && n.phase != ir::Phase::kRecompute && !ir::isStart(n.op);
    case FaultKind::kWrongDerivative: return n.phase == ir::Phase::kBackward && hasWrongFormula(g, n);
    case FaultKind::kShiftLabels: return cutsLabels(g, n);
    case FaultKind::kMeanOfMeans: return countAt(g, id).sum != ir::kNone;
    case FaultKind::kLocalAttention: return canBeLocal(g, id);
  }
  return false;
}

}  // namespace

std::vector<NodeId> faultSites(const Graph& graph, FaultKind kind, int ranks) {
  std::vector<NodeId> out;
  for (const NodeId id : graph.order)
    if (isSite(graph, id, kind, ranks)) out.push_back(id);
  return out;
}

Result<NodeId> plantFault(Graph& graph, const Fault& fault, NodeId site, int ranks) {
  if (!isSite(graph, site, fault.kind, ranks)) return makeError("internal", "no site of " + std::string(infoOf(fault.kind).name) + ": %" + graph.node(site).name);
  GraphChange change(graph, Symbol(fault.pass));
  const Node n = graph.node(site);
  const ValueId out = n.outputs[0];
  switch (fault.kind) {
    case FaultKind::kDropCollective: return dropCollective(change, site);
    case FaultKind::kDoubleCollective: {
      std::vector<ir::Argument> args(n.args.begin(), n.args.end());  // the axis too
      for (ir::Argument& a : args)
        if (a.name == Symbol("self")) a.value = Use{out};
      return graph.value(change.behind(out, n.op, std::move(args), n.name + "_again")).producer;
    }
    case FaultKind::kWrongOffset: {
      const ValueId whole = self(n);
      const std::int64_t dim = ir::intArg(n, "dim", 0), size = graph.value(whole).shape[static_cast<std::size_t>(dim)];
      const auto shift = 1 + static_cast<std::int64_t>(fault.seed % static_cast<std::uint64_t>(size - 1));
      const ValueId rolled = change.insertAt(change.before(site), site, "aten.roll.default", {{"self", Use{whole}}, {"shifts", Dims{shift}}, {"dims", Dims{dim}}}, whole, n.name + "_moved");
      graph.node(site).set("self", Use{rolled});
      return graph.value(rolled).producer;
    }
    case FaultKind::kWrongAxis: {
      // In a forward a copy and a view: a reshape would be captured as other nodes.
      const bool forward = graph.form == ir::Form::kLocal;
      ValueId in = self(n);
      if (forward) in = change.insertAt(change.before(site), site, "aten.clone.default", {{"self", Use{in}}, {"memory_format", ir::MemoryFormat::kContiguous}}, in, n.name + "_copied");
      Node& node = change.change(site);
      node.op = forward ? "aten.view.default" : "aten.reshape.default";
      node.args.clear();
      node.args.push_back({"self", Use{in}});
      node.args.push_back({forward ? "size" : "shape", graph.value(out).local});
      return site;
    }
    case FaultKind::kIgnoreMask: {
      Node& node = change.change(site);
      if (node.find("is_causal") != nullptr) node.set("is_causal", false);
      if (node.find("mask_rule") != nullptr) node.set("mask_rule", Dims{});
      node.erase("attn_mask");
      return site;
    }
    case FaultKind::kHeadOrder: return reverseHeads(change, site);
    case FaultKind::kTileHeads: return tileHeads(change, site);
    case FaultKind::kNan:
    case FaultKind::kBitFlip: {
      const auto element = static_cast<std::int64_t>(fault.seed >> 8 & 0x7fffffff);
      // The exponent's and the sign's bits: what a flip of the last digits does is less than rounding does.
      const std::int64_t width = 8 * ir::sizeOf(graph.value(out).dtype);
      const std::int64_t bit = fault.kind == FaultKind::kNan ? -1 : width - 1 - static_cast<std::int64_t>(fault.seed % 8);
      return graph.value(change.behind(out, ir::kDamage, {{"self", Use{out}}, {"element", element}, {"bit", bit}}, n.name + (bit < 0 ? "_nan" : "_flipped"))).producer;
    }
    case FaultKind::kWrongDerivative: return putWrongFormula(change, site);
    case FaultKind::kShiftLabels: return shiftLabels(change, site);
    case FaultKind::kMeanOfMeans: return meanOfMeans(change, site, ranks);
    case FaultKind::kLocalAttention: return makeLocal(change, site);
  }
  return site;
}

Result<bool> plantFaults(Graph& graph, const std::string& pass, const PassContext& context) {
  bool planted = false;
  for (const Fault& fault : context.settings.faults) {
    if (fault.pass != pass || (fault.rank >= 0 && fault.rank != context.rank) || context.on_batch) continue;
    const int ranks = ir::axisSize(graph.mesh, ir::MeshAxis::kSequence);
    std::vector<NodeId> sites = faultSites(graph, fault.kind, ranks);
    // A wrong rule is wrong everywhere, unless one node is named.
    if (!fault.node.empty()) std::erase_if(sites, [&](NodeId id) { return graph.node(id).name != fault.node; });
    else if (fault.kind != FaultKind::kLocalAttention && sites.size() > 1) sites.resize(1);
    if (sites.empty() && someRewriteWasLeftOut()) continue;  // what would have made the site
    if (sites.empty())
      return makeError("fault-no-site", strf("after %s there is no node %%%s at which the fault %s could be made", pass.c_str(), fault.node.c_str(), std::string(infoOf(fault.kind).name).c_str()));
    for (const NodeId site : sites) {
      if (!mayRewrite(graph, site)) continue;
      SP_TRY(plantFault(graph, fault, site, ranks));
      planted = true;
    }
  }
  return planted;
}

std::string faultClass(const Settings& settings, int rank) {
  std::string out;
  for (std::size_t i = 0; i < settings.faults.size(); ++i)
    if (settings.faults[i].rank == rank) out += strf("|fault %zu", i);
  return out;
}

}  // namespace spscope::passes
