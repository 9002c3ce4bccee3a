// SPDX-License-Identifier: Apache-2.0
#include "passes/rewriter.h"

#include "core/ir/mesh_axis.h"

namespace spscope::passes {

using ir::NodeId;
using ir::ValueId;

Rewriter::Rewriter(ir::Graph& graph, Symbol pass) : graph_(graph), pass_(pass), program_(std::move(graph.order)) {
  order_.reserve(program_.size() + program_.size() / 4);
}

ValueId Rewriter::current(ValueId v) const {
  for (auto it = replaced_.find(v); it != replaced_.end(); it = replaced_.find(v)) v = it->second;
  return v;
}

void Rewriter::visit(NodeId id) {
  if (replaced_.empty()) return;
  ir::forEachUse(graph_.node(id), [&](ir::Use& use) { use.value = current(use.value); });
}

void Rewriter::keepChanged(NodeId id) {
  ir::Node& n = graph_.node(id);
  n.provenance.pass = pass_;
  n.provenance.from.assign(1, id);
  changed_ = true;
  keep(id);
}

void Rewriter::replace(ValueId from, ValueId to) {
  if (from == to) return;
  replaced_[from] = to;
  changed_ = true;
}

ValueId Rewriter::add(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape, NodeId origin,
                      std::string name) {
  const NodeId id = graph_.addNode(op, std::move(name));
  const ValueId out = graph_.addOutput(id, dtype, std::move(shape));
  ir::Node& n = graph_.node(id);
  n.args.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
  n.provenance.pass = pass_;
  if (origin != ir::kNone) {
    n.location = graph_.node(origin).location;
    n.phase = graph_.node(origin).phase;
    n.forward = graph_.node(origin).forward;
    n.provenance.from.push_back(origin);
  }
  bool needs = false;
  ir::forEachUse(n, [&](const ir::Use& use) {
    needs = needs || (graph_.value(use.value).requires_grad && ir::isFloating(graph_.value(use.value).dtype));
  });
  graph_.value(out).requires_grad = needs && ir::isFloating(dtype);
  order_.push_back(id);
  changed_ = true;
  return out;
}

ValueId Rewriter::emit(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Factors factors,
                       ir::Placement placement, NodeId origin, std::string name) {
  const ValueId out = add(op, std::move(args), dtype, ir::shapeOf(factors), origin, std::move(name));
  ir::Value& v = graph_.value(out);
  v.factors = std::move(factors);
  v.placement = std::move(placement);
  if (graph_.form == ir::Form::kLocal) v.local = ir::localShape(v.factors, v.placement, ir::sequenceRank(graph_));
  return out;
}

ValueId Rewriter::emitPlain(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape, NodeId origin,
                            std::string name) {
  return add(op, std::move(args), dtype, std::move(shape), origin, std::move(name));
}

bool Rewriter::finish() {
  for (ir::Output& output : graph_.outputs) output.value = current(output.value);
  graph_.order = std::move(order_);
  return graph_.removeDeadNodes() > 0 || changed_;
}

}  // namespace spscope::passes
