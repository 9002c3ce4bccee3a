// SPDX-License-Identifier: Apache-2.0
#include "passes/faults/graph_change.h"

#include <algorithm>

namespace spscope::passes {

using ir::NodeId;
using ir::ValueId;

ir::Node& GraphChange::change(NodeId id) {
  ir::Node& n = graph_.node(id);
  n.provenance.pass = pass_;
  n.provenance.from.assign(1, id);
  return n;
}

NodeId GraphChange::before(NodeId id) const {
  const auto at = std::find(graph_.order.begin(), graph_.order.end(), id);
  return at == graph_.order.begin() ? ir::kNone : *(at - 1);
}

ValueId GraphChange::insertAt(NodeId after, NodeId origin, Symbol op, std::vector<ir::Argument> args, ValueId like, const std::string& name) {
  const ir::Value model = graph_.value(like);
  const NodeId id = graph_.addNode(op, name);
  const ValueId out = graph_.addOutput(id, model.dtype, model.shape);
  ir::Node& n = graph_.node(id);
  n.args.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
  n.location = graph_.node(origin).location;
  n.phase = graph_.node(origin).phase;
  n.forward = graph_.node(origin).forward;
  n.provenance.pass = pass_;
  n.provenance.from.assign(1, origin);
  ir::Value& v = graph_.value(out);
  v.local = model.local;
  v.factors = model.factors;
  v.placement = model.placement;
  v.requires_grad = model.requires_grad;
  v.keep = model.keep;
  if (graph_.form == ir::Form::kJoint) v.storage_bytes = v.localBytes();
  const auto at = after == ir::kNone ? graph_.order.begin() : std::find(graph_.order.begin(), graph_.order.end(), after) + 1;
  graph_.order.insert(at, id);
  return out;
}

ValueId GraphChange::insertNew(NodeId after, Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Dims shape, const std::string& name) {
  const NodeId id = graph_.addNode(op, name);
  const ValueId out = graph_.addOutput(id, dtype, shape);
  ir::Node& n = graph_.node(id);
  n.args.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
  n.location = graph_.node(after).location;
  n.phase = graph_.node(after).phase;
  n.provenance.pass = pass_;
  n.provenance.from.assign(1, after);
  graph_.value(out).local = shape;
  graph_.value(out).factors = ir::plainFactors(shape);
  graph_.order.insert(std::find(graph_.order.begin(), graph_.order.end(), after) + 1, id);
  return out;
}

void GraphChange::readersOf(ValueId from, ValueId to, const std::vector<NodeId>& except) {
  for (const NodeId id : graph_.order)
    if (graph_.value(to).producer != id && std::find(except.begin(), except.end(), id) == except.end())
      ir::forEachUse(graph_.node(id), [&](ir::Use& use) {
        if (use.value == from) use.value = to;
      });
  for (ir::Output& out : graph_.outputs)
    if (out.value == from) out.value = to;
}

ValueId GraphChange::behind(ValueId value, Symbol op, std::vector<ir::Argument> args, const std::string& name) {
  const ValueId out = insert(graph_.value(value).producer, op, std::move(args), value, name);
  readersOf(value, out, {});
  return out;
}

}  // namespace spscope::passes
