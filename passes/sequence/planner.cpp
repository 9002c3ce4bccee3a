// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/planner.h"

#include <algorithm>
#include <set>

#include "core/base/strings.h"
#include "core/ir/attention.h"
#include "core/ir/rng_ops.h"
#include "core/ir/sp_ops.h"
#include "passes/sequence/rules.h"
#include "passes/sequence/tag_inputs.h"

namespace spscope::passes {

using ir::Factors;
using ir::kNone;
using ir::NodeId;
using ir::Placement;
using ir::Tag;
using ir::ValueId;

namespace {

const Symbol kPass{"plan-sequence"};

/// Ops through which "equal along this factor" stays true.
bool keepsExpanded(std::string_view base) {
  static const std::set<std::string_view> names = {"view", "reshape", "expand", "unsqueeze", "squeeze", "transpose",
                                                   "permute", "contiguous", "alias", "clone", "to", "_to_copy",
                                                   "_unsafe_view", "detach"};
  return names.count(base) > 0;
}

/// expand_as, view_as, reshape_as take a shape from another value, which may be cut where this one is not: the shape is
/// said in numbers instead.
void nameShape(ir::Graph& graph, NodeId id) {
  ir::Node& node = graph.node(id);
  const std::string_view base = ir::baseName(node.op);
  const bool expands = base == "expand_as";
  if (!expands && base != "view_as" && base != "reshape_as") return;
  const ValueId self = ir::useArg(node, "self");
  if (self == kNone || node.outputs.empty() || node.outputs[0] == kNone) return;
  node.op = expands ? "aten.expand.default" : "aten.reshape.default";
  node.args = {{"self", ir::Use{self}}, {expands ? "size" : "shape", graph.value(node.outputs[0]).shape}};
  node.provenance.pass = kPass;
  node.provenance.from = {id};
}

const ir::Factor& shardedFactor(const ir::Value& v) {
  return v.factors[static_cast<std::size_t>(v.placement.dim)][static_cast<std::size_t>(v.placement.factor)];
}

/// Dimensions that an op's operands have at least. Rules count on them; a damaged file may say otherwise.
struct LeastRank {
  std::string_view op, argument;
  std::size_t rank;
};
constexpr LeastRank kLeastRanks[] = {
    {"linear", "input", 1}, {"linear", "weight", 1}, {"matmul", "self", 1}, {"matmul", "other", 1}, {"mm", "self", 2},
    {"mm", "mat2", 2}, {"addmm", "mat1", 2}, {"addmm", "mat2", 2}, {"bmm", "self", 3}, {"bmm", "mat2", 3},
    {"baddbmm", "batch1", 3}, {"baddbmm", "batch2", 3}, {"embedding", "weight", 2}, {"layer_norm", "input", 1},
    {"rms_norm", "input", 1}, {"cross_entropy_loss", "self", 1}, {"scaled_dot_product_attention", "query", 2},
    {"scaled_dot_product_attention", "key", 2}, {"scaled_dot_product_attention", "value", 2},
};
bool hasTooFewDims(const ir::Graph& graph, const ir::Node& node, std::string_view base) {
  for (const LeastRank& least : kLeastRanks)
    if (least.op == base)
      if (const ValueId v = ir::useArg(node, Symbol(least.argument)); v != kNone && graph.value(v).shape.size() < least.rank) return true;
  return false;
}

}  // namespace

Planner::Planner(ir::Graph& graph, const PassContext& context)
    : graph_(graph), context_(context), ranks_(context.settings.sp) {}

Shard Planner::shardOf(const ir::Value& v) {
  return {v.placement.dim, v.factors[static_cast<std::size_t>(v.placement.dim)], v.placement.factor,
          v.placement.sizes};
}

Status Planner::run() {
  const std::vector<NodeId> program = std::move(graph_.order);
  order_.reserve(program.size() * 2);
  seedInputs();
  countAttention(program);
  for (NodeId id : program) {
    if (context_.cancel.cancelled()) break;
    planNode(id);
  }
  if (context_.cancel.cancelled()) return context_.cancel.check();
  planOutputs();
  graph_.order = std::move(order_);
  graph_.form = ir::Form::kPlanned;
  graph_.removeDeadNodes();
  return {};
}

void Planner::seedInputs() {
  for (const ir::Input& input : graph_.inputs) {
    ir::Value& v = graph_.value(input.value);
    if (v.factors.size() != v.shape.size()) v.factors = ir::plainFactors(v.shape);  // tags were set by the pass
    v.placement = Placement::replicated();
  }
  // A marked float input enters activations directly: it is cut at once. Integer inputs are cut where they meet
  // activations, so that label shifts, offsets and masks are computed on the whole sequence.
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId v = graph_.inputs[i].value;
    if (graph_.inputs[i].kind != ir::InputKind::kUser || !ir::isFloating(value(v).dtype)) continue;
    if (sequenceShard(v)) bound_[v] = toSequence(v);
  }
}

void Planner::countAttention(const std::vector<NodeId>& program) {
  // On the graph as imported, so that an exchange that a rule forgets is missed by the count that is made later.
  graph_.order = program;
  for (const ir::AttentionSite& site : ir::findAttention(graph_)) attention_[site.node] = {site.query, site.key};
  graph_.order.clear();
}

void Planner::planNode(NodeId id) {
  current_ = id;
  after_.clear();
  if (auto it = attention_.find(id); it != attention_.end()) {
    // An exchange is due where both queries and keys lie sharded along the sequence: the query is [.., S, D], the key
    // of eager attention is already transposed.
    auto sharded = [&](ValueId v, int lowest) {
      const auto bound = bound_.find(v);
      const ir::Value& x = value(bound == bound_.end() ? v : bound->second);
      const int from_end = static_cast<int>(x.shape.size()) - x.placement.dim;
      return x.placement.isSharded() && from_end >= lowest && from_end <= 2;
    };
    const auto [query, key] = it->second;
    if (sharded(query, 2) && sharded(key, 1)) count("expected_all_to_all", 4);
    // Keys and values of queries that all ranks hold (chunks of one, say) go to the heads, once for all of these.
    else if (ir::baseName(node(id).op) == "scaled_dot_product_attention" && !sharded(query, 1) && sharded(key, 2) && whole_queries_of_.insert(key).second) count("expected_all_to_all", 2);
  }
  ir::forEachUse(graph_.node(id), [&](ir::Use& use) {
    if (auto it = bound_.find(use.value); it != bound_.end()) use.value = it->second;
  });
  nameShape(graph_, id);
  const std::string_view base = ir::baseName(node(id).op);
  const auto rule = ruleTable().find(base);
  NoRule reason;
  if (node(id).op.str().starts_with("sp.")) {  // before the table: sp.slice is no aten.slice
    reason = onOtherAxis(*this, id);
  } else if (const ir::OpRule* stated = context_.settings.rules ? context_.settings.rules->find(node(id).op) : nullptr) {
    reason = declared(*this, id, *stated);
  } else if (rule == ruleTable().end()) {
    const auto ops = operands(id);
    if (allReplicated(*this, ops)) setReplicated(id);
    else reason = "no placement rule for " + node(id).op.str();
  } else if (hasTooFewDims(graph_, node(id), base)) {
    reason = node(id).op.str() + " of an operand with too few dimensions";
  } else {
    reason = rule->second(*this, id);
  }
  if (reason) fallback(id, *reason);
  if (!keepsExpanded(base)) {
    for (ValueId out : node(id).outputs)
      if (out != kNone)
        for (auto& list : graph_.value(out).factors)
          for (auto& f : list)
            if (f.tag == Tag::kExpanded) f.tag = Tag::kNone;
  }
  propagateGradients(id);
  order_.push_back(id);
  applyMarks(id);
  for (auto& [output, shard] : std::vector<std::pair<ValueId, Shard>>(after_))
    if (const ValueId moved = toShard(output, shard); moved != output) bound_[output] = moved;
  for (const auto& [name, dim] : context_.settings.sequence_marks)
    for (ValueId out : node(id).outputs)
      if (out != kNone && dim == kWholeMark && (value(out).name == name || node(id).name == name)) bound_[out] = gather(out, "marked to be whole");
}

void Planner::fallback(NodeId id, const std::string& reason) {
  std::optional<Shard> back;
  Factors factors;
  ir::Dims shape;
  for (ValueId v : operands(id)) {
    if (placement(v).isReplicated()) continue;
    if (placement(v).isSharded() && shardedFactor(value(v)).tag == Tag::kSequence && !back) {
      back = shardOf(value(v));
      factors = value(v).factors;
      shape = value(v).shape;
    }
    replaceOperand(id, v, gather(v, reason));
  }
  setReplicated(id);
  // Shard again at once where the op kept the shape: else everything behind it would silently run replicated.
  for (ValueId out : node(id).outputs) {
    if (!back || out == kNone || value(out).shape != shape || !ir::isFloating(value(out).dtype)) continue;
    graph_.value(out).factors = factors;
    count("resharded_after_fallback");
    moveOutputAfter(out, *back);
  }
}

void Planner::propagateGradients(NodeId id) {
  const std::string_view base = ir::baseName(node(id).op);
  bool needs = false;
  ir::forEachUse(node(id), [&](const ir::Use& use) {
    needs = needs || (value(use.value).requires_grad && ir::isFloating(value(use.value).dtype));
  });
  needs = needs && base != "detach" && !ir::rng::isRng(node(id).op) && base.find("_like") == std::string_view::npos && base.rfind("new_", 0) != 0;
  for (ValueId out : node(id).outputs)
    if (out != kNone) graph_.value(out).requires_grad = needs && (ir::isFloating(value(out).dtype) || ir::isComplex(value(out).dtype));
}

void Planner::applyMarks(NodeId id) {
  for (const auto& [name, dim] : context_.settings.sequence_marks)
    for (ValueId out : node(id).outputs) {
      if (out == kNone || dim == kWholeMark || (value(out).name != name && node(id).name != name)) continue;
      const int d = normDim(dim, rankOf(out));
      if (d < 0 || d >= rankOf(out) || value(out).shape[static_cast<std::size_t>(d)] == 1) continue;
      if (!placement(out).isReplicated()) continue;
      graph_.value(out).factors[static_cast<std::size_t>(d)] = {{value(out).shape[static_cast<std::size_t>(d)], Tag::kSequence}};
      if (const auto shard = sequenceShard(out)) moveOutputAfter(out, *shard);
    }
}

void Planner::planOutputs() {
  current_ = kNone;
  for (ir::Output& output : graph_.outputs) {
    if (output.value == kNone) continue;
    if (auto it = bound_.find(output.value); it != bound_.end()) output.value = it->second;
    // A scalar result is completed on every rank; what stays sharded says so in its placement.
    if (placement(output.value).isPartial() || output.kind == ir::OutputKind::kLoss ||
        output.kind == ir::OutputKind::kBufferUpdate)
      output.value = gather(output.value, "an output of the program must be whole on every rank");
  }
}

// --- access ---------------------------------------------------------------------------------------------------------

std::vector<ValueId> Planner::operands(NodeId id) const {
  std::vector<ValueId> out;
  ir::forEachUse(graph_.node(id), [&](const ir::Use& use) { out.push_back(use.value); });
  return out;
}

void Planner::replaceOperand(NodeId id, ValueId from, ValueId to) {
  if (from == to) return;
  ir::forEachUse(graph_.node(id), [&](ir::Use& use) {
    if (use.value == from) use.value = to;
  });
}

void Planner::setOutput(NodeId id, int index, Factors factors, Placement placement) {
  const ValueId out = node(id).outputs[static_cast<std::size_t>(index)];
  if (out == kNone) return;
  ir::Value& v = graph_.value(out);
  v.factors = std::move(factors);
  v.placement = std::move(placement);
}

void Planner::setReplicated(NodeId id) {
  for (std::size_t i = 0; i < node(id).outputs.size(); ++i)
    if (node(id).outputs[i] != kNone)
      setOutput(id, static_cast<int>(i), ir::plainFactors(value(node(id).outputs[i]).shape), Placement::replicated());
}

ValueId Planner::insert(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, Factors factors,
                        Placement placement) {
  const NodeId id = graph_.addNode(op, std::string(ir::baseName(op)));
  const ValueId out = graph_.addOutput(id, dtype, ir::shapeOf(factors));
  ir::Node& n = graph_.node(id);
  n.args.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
  n.provenance.pass = kPass;
  if (current_ != kNone) {
    n.location = node(current_).location;
    n.provenance.from.push_back(current_);
  }
  setOutput(id, 0, std::move(factors), std::move(placement));
  propagateGradients(id);
  order_.push_back(id);
  return out;
}

}  // namespace spscope::passes
