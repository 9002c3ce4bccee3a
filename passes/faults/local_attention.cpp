// SPDX-License-Identifier: Apache-2.0
#include "passes/faults/local_attention.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/ir/sp_ops.h"

namespace spscope::passes {
namespace {

using ir::Graph;
using ir::NodeId;
using ir::ValueId;

/// The factor that follows the sequence, in blocks of `sizes`; empty where it has none of that size.
std::optional<ir::Placement> onSequence(const ir::Value& v, const ir::Dims& sizes) {
  std::int64_t whole = 0;
  for (const std::int64_t s : sizes) whole += s;
  for (std::size_t d = 0; d < v.factors.size(); ++d)
    for (std::size_t f = 0; f < v.factors[d].size(); ++f)
      if (v.factors[d][f].tag == ir::Tag::kSequence && v.factors[d][f].size == whole) return ir::Placement::sharded(static_cast<int>(d), static_cast<int>(f), sizes);
  return {};
}

bool onSequenceNow(const ir::Value& v) {
  const auto placed = v.placement.isSharded() ? onSequence(v, v.placement.sizes) : std::nullopt;
  return placed && *placed == v.placement;
}

/// The nodes between the exchanges, and those.
struct Region {
  std::set<NodeId> inside, exchanges;
  ir::Dims sizes;
  bool good = true;
};

bool moves(const ir::Node& n) {
  const auto base = ir::baseName(n.op);
  for (const char* known : {"transpose", "permute", "reshape", "view", "_unsafe_view", "contiguous", "clone", "expand", "unsqueeze", "repeat_interleave"})
    if (base == known) return true;
  return false;
}

void upwards(const Graph& g, ValueId v, Region& r) {
  const NodeId producer = g.value(v).producer;
  if (producer == ir::kNone) return void(r.good = false);
  const ir::Node& n = g.node(producer);
  if (n.op == ir::sp::kRedistribute) {
    const ir::Value& from = g.value(ir::useArg(n, "self"));
    if (!onSequenceNow(from)) return void(r.good = false);
    r.sizes = from.placement.sizes;
    r.exchanges.insert(producer);
  } else if (moves(n)) {
    r.inside.insert(producer);
    upwards(g, ir::useArg(n, "self"), r);
  } else {
    r.good = false;
  }
}

void downwards(const Graph& g, const std::vector<std::vector<NodeId>>& users, ValueId v, Region& r) {
  for (const NodeId id : users[static_cast<std::size_t>(v)]) {
    const ir::Node& n = g.node(id);
    if (n.op == ir::sp::kRedistribute) {
      if (!onSequenceNow(g.value(n.outputs[0]))) return void(r.good = false);
      r.exchanges.insert(id);
    } else if (moves(n)) {
      r.inside.insert(id);
      downwards(g, users, n.outputs[0], r);
    } else {
      r.good = false;
    }
  }
}

Region regionOf(const Graph& g, NodeId attention) {
  Region r;
  const ir::Node& n = g.node(attention);
  r.good = g.form == ir::Form::kPlanned && ir::isAttention(n.op) && ir::useArg(n, "attn_mask") == ir::kNone;
  for (const char* which : {"query", "key", "value"})
    if (r.good && ir::useArg(n, which) == ir::kNone) r.good = false;
    else if (r.good) upwards(g, ir::useArg(n, which), r);
  if (!r.good) return r;
  const auto users = ir::usersOf(g);
  downwards(g, users, n.outputs[0], r);
  r.inside.insert(attention);
  // Nothing from outside may read what is placed anew, and every value must have the sequence.
  for (const NodeId id : r.inside) {
    const ValueId out = g.node(id).outputs[0];
    if (!onSequence(g.value(out), r.sizes)) r.good = false;
    for (const NodeId reader : users[static_cast<std::size_t>(out)]) r.good = r.good && (r.inside.contains(reader) || r.exchanges.contains(reader));
  }
  for (const NodeId id : r.exchanges)
    if (onSequenceNow(g.value(ir::useArg(g.node(id), "self"))))  // one on the way in
      for (const NodeId reader : users[static_cast<std::size_t>(g.node(id).outputs[0])]) r.good = r.good && r.inside.contains(reader);
  for (const ir::Output& out : g.outputs) r.good = r.good && (g.value(out.value).producer == ir::kNone || !r.inside.contains(g.value(out.value).producer));
  return r;
}

}  // namespace

bool canBeLocal(const Graph& graph, NodeId attention) {
  if (!ir::isAttention(graph.node(attention).op)) return false;
  const Region r = regionOf(graph, attention);
  return r.good && !r.exchanges.empty();
}

NodeId makeLocal(GraphChange& change, NodeId attention) {
  Graph& g = change.graph();
  const Region r = regionOf(g, attention);
  for (const NodeId id : r.inside) {
    ir::Value& v = g.value(g.node(id).outputs[0]);
    v.placement = *onSequence(v, r.sizes);
  }
  for (const NodeId id : r.exchanges) {
    const ValueId from = ir::useArg(g.node(id), "self"), to = g.node(id).outputs[0];
    g.replaceAllUses(to, from);
    std::erase(g.order, id);
  }
  change.change(attention);
  return attention;
}

}  // namespace spscope::passes
