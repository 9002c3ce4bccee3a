// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/shard_sequence.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/rng_ops.h"
#include "core/ir/sp_ops.h"
#include "passes/rewrite_count.h"
#include "passes/sequence/lower_redistribute.h"
#include "passes/sequence/rules.h"
#include "passes/training/index_random_ops.h"

namespace spscope::passes {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;

namespace {

/// [start, end) on this rank of a slice along the sharded dim of its operand.
std::pair<std::int64_t, std::int64_t> localRange(const ir::Graph& graph, const ir::Node& node, int rank) {
  const ir::Value& x = graph.value(ir::useArg(node, "self"));
  const std::size_t d = static_cast<std::size_t>(x.placement.dim);
  const std::int64_t n = x.shape[d], m = graph.value(node.outputs[0]).shape[d];
  std::int64_t start = ir::intArg(node, "start", 0);
  start = std::clamp<std::int64_t>(start < 0 ? start + n : start, 0, n);
  const Dims offsets = ir::offsetsOf(x.placement.sizes);
  const std::size_t r = static_cast<std::size_t>(rank);
  const std::int64_t lo = std::clamp<std::int64_t>(start, offsets[r], offsets[r + 1]);
  const std::int64_t hi = std::clamp<std::int64_t>(start + m, offsets[r], offsets[r + 1]);
  return {lo - offsets[r], hi - offsets[r]};
}

bool slicesShardedDim(const ir::Graph& graph, const ir::Node& node) {
  if (ir::baseName(node.op) != "slice" || node.op == ir::sp::kSlice) return false;
  const ir::Value& x = graph.value(ir::useArg(node, "self"));
  if (!x.placement.isSharded()) return false;
  const int d = normDim(ir::intArg(node, "dim", 0), static_cast<int>(x.shape.size()));
  return d == x.placement.dim && graph.value(node.outputs[0]).shape != x.shape;
}

/// Where in the pads of `node` the sharded dim's two entries stand; -1 where that dim is not padded (or not sharded).
int shardedPadSlot(const ir::Graph& graph, const ir::Node& node) {
  const auto base = ir::baseName(node.op);
  if (base != "pad" && base != "constant_pad_nd") return -1;
  const ir::Value& x = graph.value(ir::useArg(node, "self"));
  const auto pads = ir::intListArg(node, "pad");
  if (!x.placement.isSharded() || !pads) return -1;
  const std::size_t slot = 2 * (x.shape.size() - 1 - static_cast<std::size_t>(x.placement.dim));
  // A shift pads one side and cuts the other: the size alone would not tell.
  return slot + 1 < pads->size() && ((*pads)[slot] != 0 || (*pads)[slot + 1] != 0) ? static_cast<int>(slot) : -1;
}

/// Random numbers by position: which part of the whole value this rank holds; its operand has done its work.
void placeDraw(ir::Node& node, const ir::Value& out, bool replicas) {
  node.erase("self");
  const DrawnPart part = drawnPart(out, node, replicas);
  node.erase(kReplicaRows);
  node.set("size", out.local);
  node.set("whole", part.whole);
  if (part.cut >= 0) node.set("cut", part.cut), node.set("blocks", out.placement.sizes);
  if (part.batch >= 0) node.set("batch", part.batch);
}

/// Rewrites the arguments that name sizes or positions to those of this rank.
bool localizeArguments(ir::Graph& graph, NodeId id, bool on_batch) {
  ir::Node& node = graph.node(id);
  const auto base = ir::baseName(node.op);
  if (node.outputs.empty() || node.outputs[0] == ir::kNone) return false;
  const ir::Value& out = graph.value(node.outputs[0]);
  if (slicesShardedDim(graph, node)) {
    const auto [lo, hi] = localRange(graph, node, ir::sequenceRank(graph));
    node.set("start", lo);
    node.set("end", hi);
    return true;
  }
  if (const int slot = shardedPadSlot(graph, node); slot >= 0) {
    Dims pads = *ir::intListArg(node, "pad");
    const int rank = ir::sequenceRank(graph);
    if (rank != 0) pads[static_cast<std::size_t>(slot)] = 0;
    if (rank != graph.mesh.sizeOf("sp") - 1) pads[static_cast<std::size_t>(slot) + 1] = 0;
    node.set("pad", pads);
    return true;
  }
  if (ir::rng::isRng(node.op)) {
    // Which rows a replica draws for is known when it runs; until then the operand says where the draw lives.
    if (on_batch) node.set("size", out.local), markReplicaRows(node, out);
    else placeDraw(node, out, graph.mesh.sizeOf("dp") > 1);
    return true;
  }
  if (on_batch && node.find(kRandomNumber) != nullptr && out.placement.isSharded()) {  // an attention that drops out
    markReplicaRows(node, out);
    return true;
  }
  if (out.local == out.shape) return false;
  if (base == "view" || base == "_unsafe_view" || base == "expand") {
    node.set("size", out.local);
  } else if (base == "reshape") {
    node.set("shape", out.local);
  } else if (base == "flatten" || base == "unflatten" || base == "squeeze" || base == "reshape_as" || base == "view_as") {
    // Said by their shape: squeeze would also drop a dim that is 1 on this rank only.
    const ValueId self = ir::useArg(node, "self");
    node.op = "aten.reshape.default";
    node.args = {{"self", ir::Use{self}}, {"shape", out.local}};
  } else if (base == "expand_as") {
    const ValueId self = ir::useArg(node, "self");
    node.op = "aten.expand.default";
    node.args = {{"self", ir::Use{self}}, {"size", out.local}};
  } else if (base == "repeat_interleave") {
    node.erase("output_size");
  } else {
    return false;
  }
  return true;
}

Status checkLegal(const ir::Graph& graph, const PassContext& context) {
  if (context.rank < 0 || context.rank >= ir::axisSize(graph.mesh, ir::MeshAxis::kAll))
    return makeError("internal", strf("rank %d of %d", context.rank, ir::axisSize(graph.mesh, ir::MeshAxis::kAll)), Outcome::kUsage);
  if (graph.mesh.sizeOf("sp") != context.settings.sp)
    return makeError("internal", "the graph was planned for another mesh");
  return {};
}

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  graph.rank = context.rank;
  graph.form = ir::Form::kLocal;
  for (std::size_t i = 0; i < graph.valueCount(); ++i) {
    ir::Value& v = graph.value(static_cast<ValueId>(i));
    if (v.factors.size() == v.shape.size()) v.local = ir::localShape(v.factors, v.placement, ir::sequenceRank(graph));
  }
  Rewriter rw(graph, "shard-sequence");
  for (NodeId id : rw.program()) {
    rw.visit(id);
    if (graph.node(id).op != ir::sp::kRedistribute) {
      localizeArguments(graph, id, context.on_batch) ? rw.keepChanged(id) : rw.keep(id);
      continue;
    }
    const Redistribution kind = kindOf(graph, graph.node(id));
    if (kind == Redistribution::kAllToAll || kind == Redistribution::kAllReduce || !mayRewrite(graph, id)) {
      rw.keep(id);
      continue;
    }
    context.count(kind == Redistribution::kSlice ? "slices" : kind == Redistribution::kAllGather ? "gathers" : "reduce_scatters");
    const ValueId out = graph.node(id).outputs[0];
    rw.replace(out, lowerRedistribute(graph, rw, id));
  }
  rw.finish();
  return true;
}

}  // namespace

std::string rankClass(const ir::Graph& planned, int rank) {
  std::string key;
  for (NodeId id : planned.order) {
    const ir::Node& node = planned.node(id);
    for (ValueId v : node.outputs)
      if (v != ir::kNone && planned.value(v).placement.isSharded())
        key += std::to_string(planned.value(v).placement.sizes[static_cast<std::size_t>(rank)]) + ",";
    if (slicesShardedDim(planned, node)) {
      const auto [lo, hi] = localRange(planned, node, rank);
      key += strf("[%lld:%lld]", static_cast<long long>(lo), static_cast<long long>(hi));
    }
    if (const int slot = shardedPadSlot(planned, node); slot >= 0) {
      const Dims pads = *ir::intListArg(node, "pad");
      if (rank == 0 && pads[static_cast<std::size_t>(slot)] != 0) key += "first";
      if (rank == planned.mesh.sizeOf("sp") - 1 && pads[static_cast<std::size_t>(slot) + 1] != 0) key += "last";
    }
  }
  return key;
}

Pass shardSequencePass() {
  return {{"shard-sequence",
           "Make the program of one rank: local shapes and sizes, slices where replicated values meet sharded ones",
           {{"slices", "replicated values cut to this rank's block"},
            {"gathers", "sharded values made whole (fallbacks)"},
            {"reduce_scatters", "partial sums completed and cut in one step"}},
           ir::Form::kPlanned,
           ir::Form::kLocal},
          checkLegal,
          run};
}

}  // namespace spscope::passes
