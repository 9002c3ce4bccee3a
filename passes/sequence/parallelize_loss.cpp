// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/parallelize_loss.h"

#include "core/ir/sp_ops.h"
#include "passes/rewrite_count.h"
#include "passes/sequence/lower_redistribute.h"

namespace spscope::passes {

using ir::NodeId;
using ir::Placement;
using ir::ValueId;

namespace {

/// The whole labels of which this rank's were cut; kNone where they were sharded from the start.
ValueId wholeLabels(const ir::Graph& graph, ValueId labels) {
  // A cut through the middle of a merged dim is reshape(slice(reshape(whole))).
  while (labels != ir::kNone && !graph.value(labels).placement.isReplicated()) {
    const NodeId producer = graph.value(labels).producer;
    if (producer == ir::kNone) return ir::kNone;
    const auto base = ir::baseName(graph.node(producer).op);
    if (graph.node(producer).op != ir::sp::kSlice && base != "reshape" && base != "view") return ir::kNone;
    labels = ir::useArg(graph.node(producer), "self");
  }
  return labels;
}

void rewriteCrossEntropy(ir::Graph& graph, Rewriter& rw, NodeId id) {
  const ir::Node node = graph.node(id);
  const ValueId out = node.outputs[0], target = ir::useArg(node, "target");
  const std::int64_t ignore = ir::intArg(node, "ignore_index", -100);
  const ir::DType dtype = graph.value(out).dtype;
  auto args = std::vector<ir::Argument>(node.args.begin(), node.args.end());
  std::erase_if(args, [](const ir::Argument& a) { return a.name == Symbol("reduction"); });
  args.push_back({"reduction", std::int64_t{2}});
  const ValueId sum = rw.emit(node.op, std::move(args), dtype, {}, Placement::partial(), id, node.name + "_sum");

  // Counted where the labels are whole: the same number on every rank, without traffic.
  ValueId labels = wholeLabels(graph, target);
  const bool local = labels == ir::kNone;
  if (local) labels = target;
  const ValueId valid = rw.emit("aten.ne.Scalar", {{"self", ir::Use{labels}}, {"other", ignore}}, ir::DType::kBool,
                                graph.value(labels).factors, graph.value(labels).placement, id);
  ValueId count = rw.emit("aten.sum.default", {{"self", ir::Use{valid}}}, ir::DType::kI64, {},
                          local ? Placement::partial() : Placement::replicated(), id, node.name + "_valid");
  if (local)
    count = rw.emit(ir::sp::kAllReduce, {{"self", ir::Use{count}}}, ir::DType::kI64, {}, Placement::replicated(), id);
  rw.replace(out, rw.emit("aten.div.Tensor", {{"self", ir::Use{sum}}, {"other", ir::Use{count}}}, dtype, {},
                          Placement::partial(), id, node.name + "_mean"));
}

void rewriteMean(ir::Graph& graph, Rewriter& rw, NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Value out = graph.value(node.outputs[0]);
  const ir::Value& x = graph.value(ir::useArg(node, "self"));
  // The number of elements that one result averages over, on the whole value.
  const std::int64_t n = ir::numel(x.shape) / std::max<std::int64_t>(1, ir::numel(out.shape));
  const bool all = ir::intListArg(node, "dim").value_or(ir::Dims{}).empty();
  auto args = std::vector<ir::Argument>(node.args.begin(), node.args.end());
  if (all) std::erase_if(args, [](const ir::Argument& a) { return a.name == Symbol("dim") || a.name == Symbol("keepdim"); });
  const ValueId sum = rw.emit(all ? "aten.sum.default" : "aten.sum.dim_IntList", std::move(args), out.dtype,
                              out.factors, Placement::partial(), id, node.name + "_sum");
  rw.replace(node.outputs[0], rw.emit("aten.div.Scalar", {{"self", ir::Use{sum}}, {"other", n}}, out.dtype,
                                      out.factors, Placement::partial(), id, node.name + "_mean"));
}

Result<bool> run(ir::Graph& graph, const PassContext& context) {
  Rewriter rw(graph, "parallelize-loss");
  for (NodeId id : rw.program()) {
    rw.visit(id);
    const ir::Node& node = graph.node(id);
    const ValueId out = node.outputs.empty() ? ir::kNone : node.outputs[0];
    const bool partial = out != ir::kNone && graph.value(out).placement.isPartial();
    const auto base = ir::baseName(node.op);
    auto operandSharded = [&] { return graph.value(ir::useArg(node, "self")).placement.isSharded(); };
    if (node.op == ir::sp::kRedistribute && kindOf(graph, node) == Redistribution::kAllReduce && mayRewrite(graph, id)) {
      context.count("all_reduces");
      rw.replace(out, lowerRedistribute(graph, rw, id));
    } else if (partial && base == "cross_entropy_loss" && ir::intArg(node, "reduction", 1) == 1 && mayRewrite(graph, id)) {
      context.count("means");
      rewriteCrossEntropy(graph, rw, id);
    } else if (partial && base == "mean" && operandSharded() && mayRewrite(graph, id)) {
      context.count("means");
      rewriteMean(graph, rw, id);
    } else {
      rw.keep(id);
    }
  }
  return rw.finish();
}

}  // namespace

Pass parallelizeLossPass() {
  return {{"parallelize-loss",
           "Divide by global counts and complete partial sums",
           {{"means", "means over the sharded sequence, now sum / global count"},
            {"all_reduces", "partial sums completed"}},
           ir::Form::kLocal,
           ir::Form::kLocal},
          [](const ir::Graph&, const PassContext&) { return Status{}; },
          run};
}

}  // namespace spscope::passes
