// SPDX-License-Identifier: Apache-2.0
#include "passes/training/shard_optimizer.h"

#include <map>

#include "core/ir/layout.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/sp_ops.h"
#include "passes/rewriter.h"

namespace spscope::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class Sharder {
 public:
  Sharder(ir::Graph& graph, const PassContext& context)
      : g_(graph), context_(context), ranks_(ir::axisSize(graph.mesh, ir::MeshAxis::kAll)), rw_(graph, "shard-optimizer") {}

  bool run() {
    std::map<ValueId, int> uses;
    for (const NodeId id : rw_.program()) ir::forEachUse(g_.node(id), [&](const ir::Use& use) { ++uses[use.value]; });
    std::map<ValueId, int> outputs;
    for (const ir::Output& o : g_.outputs) ++outputs[o.value];
    // Sums whose only purpose is to be a gradient.
    std::map<NodeId, bool> sums;
    for (const ir::Output& o : g_.outputs) {
      if (o.kind != ir::OutputKind::kGradient || o.value == ir::kNone) continue;
      const NodeId producer = g_.value(o.value).producer;
      if (producer == ir::kNone || uses[o.value] > 0 || outputs[o.value] > 1) continue;
      const ir::Node& n = g_.node(producer);
      if (n.op == ir::sp::kAllReduce && ir::axisSize(g_.mesh, ir::axisOf(n)) == ranks_) sums[producer] = true;
    }
    std::map<ValueId, ValueId> block_of;
    for (const NodeId id : rw_.program()) {
      if (!sums.contains(id)) {
        rw_.keep(id);
        continue;
      }
      const ValueId whole = g_.node(id).outputs[0];
      block_of[whole] = scattered(id);
      context_.count("scattered");
    }
    for (ir::Output& o : g_.outputs) {
      if (o.kind != ir::OutputKind::kGradient || o.value == ir::kNone || block_of.contains(o.value)) continue;
      block_of[o.value] = cut(o.value);
      context_.count("cut");
    }
    for (ir::Output& o : g_.outputs)
      if (o.kind == ir::OutputKind::kGradient && o.value != ir::kNone) o.value = block_of[o.value];
    return rw_.finish();
  }

 private:
  ValueId ownerOf(ValueId v) const { return g_.value(v).storage == ir::kNone ? v : g_.value(v).storage; }
  void own(ValueId v) { g_.value(v).storage_bytes = g_.value(v).localBytes(); }

  /// The value's elements in a row.
  ValueId flat(ValueId v, NodeId origin) {
    const ir::DType dtype = g_.value(v).dtype;
    const ir::Dims shape = g_.value(v).local;
    if (!ir::surelyContiguous(g_, v)) {
      v = rw_.emitPlain("aten.clone.default", {{"self", ir::Use{v}}, {"memory_format", ir::MemoryFormat::kContiguous}}, dtype, shape, origin);
      own(v);
    }
    const ValueId owner = ownerOf(v);
    const ValueId out = rw_.emitPlain("aten.view.default", {{"self", ir::Use{v}}, {"size", ir::Dims{ir::numel(shape)}}}, dtype, {ir::numel(shape)}, origin);
    g_.value(out).storage = owner;
    return out;
  }
  ValueId block(Symbol op, ValueId v, NodeId origin, const std::string& name) {
    const ir::Dims blocks = ir::shardBlocks(ir::numel(g_.value(v).local), ranks_);
    const ir::DType dtype = g_.value(v).dtype;
    const ValueId row = flat(v, origin);
    const ValueId out = rw_.emitPlain(op, {{"self", ir::Use{row}}, {"dim", std::int64_t{0}}, {"blocks", blocks}, {"axis", std::string("all")}}, dtype,
                                      {blocks[static_cast<std::size_t>(g_.rank)]}, origin, name);
    own(out);
    return out;
  }
  ValueId scattered(NodeId sum) {
    const std::string name = g_.node(sum).name;
    return block(ir::sp::kReduceScatter, ir::useArg(g_.node(sum), "self"), sum, name);
  }
  ValueId cut(ValueId v) { return block(ir::sp::kSlice, v, g_.value(v).producer, g_.value(v).name + "_block"); }

  ir::Graph& g_;
  const PassContext& context_;
  const int ranks_;
  Rewriter rw_;
};

}  // namespace

std::string shardClass(const ir::Graph& graph, int rank, int ranks) {
  std::string out;
  for (const ir::Input& input : graph.inputs)
    if (input.trainable)
      out += std::to_string(ir::shardBlocks(ir::numel(graph.value(input.value).shape), ranks)[static_cast<std::size_t>(rank)]) + ",";
  return out;
}

Pass shardOptimizerPass() {
  return {{"shard-optimizer",
           "Give each rank its block of every gradient, for optimizer states that are sharded (--zero 1)",
           {{"scattered", "gradients whose sum is now a reduce-scatter"},
            {"cut", "gradients that were complete without one"}},
           ir::Form::kJoint,
           ir::Form::kJoint},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          [](ir::Graph& graph, const PassContext& context) -> Result<bool> {
            if (context.settings.zero == 0 || context.settings.ranks() == 1) return false;
            return Sharder(graph, context).run();
          }};
}

}  // namespace spscope::passes
