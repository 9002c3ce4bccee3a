// SPDX-License-Identifier: Apache-2.0
#include "core/ir/verifier.h"

#include <unordered_set>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/op_traits.h"
#include "core/ir/pending.h"
#include "core/ir/rng_ops.h"
#include "core/ir/sp_ops.h"
#include "core/ir/text.h"
#include "core/ir/verify_collectives.h"

namespace spscope::ir {

Error nodeError(std::string_view code, const Graph&, const Node& node, std::string message) {
  Error error = makeError(code, std::move(message));
  error.node = "%" + node.name;
  if (node.location) error.source = node.location->source;
  return error;
}

namespace {

bool isSp(Symbol op) { return op.str().compare(0, 3, "sp.") == 0; }

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : g_(graph), ranks_(graph.mesh.sizeOf("sp")) {}
  Status run();

 private:
  Status structure();
  Status values();
  Status outputs();
  Status value(const Value& v, const Node* node);
  Status placement(const Value& v, const Node* node);
  Status replication(const Node& n);
  Status phases();
  Status gradients();

  /// At the node, or at the input where there is none.
  Error at(std::string_view code, const Node* node, const Value& v, const std::string& message) const {
    const std::string text = "%" + v.name + ": " + message;
    if (node) return nodeError(code, g_, *node, text);
    Error error = makeError(code, text);
    error.node = "%" + v.name;
    return error;
  }
  bool valid(ValueId id) const { return id >= 0 && static_cast<std::size_t>(id) < g_.valueCount(); }

  const Graph& g_;
  const int ranks_;
  std::vector<bool> defined_;
};

Status Verifier::structure() {
  std::unordered_set<std::string_view> node_names, value_names;
  node_names.reserve(g_.order.size());
  value_names.reserve(g_.order.size() + g_.inputs.size());
  std::vector<bool> seen(g_.nodeCount(), false);
  defined_.assign(g_.valueCount(), false);
  const auto nameOnce = [&](const Value& v) { return !v.name.empty() && value_names.insert(v.name).second; };

  for (const Input& in : g_.inputs) {
    if (!valid(in.value)) return makeError("verify-ids", "input " + in.name + " has no value");
    const Value& v = g_.value(in.value);
    if (v.id != in.value || v.producer != kNone)
      return at("verify-ids", nullptr, v, "an input's value has a producer or another id");
    if (defined_[static_cast<std::size_t>(in.value)]) return at("verify-ids", nullptr, v, "is the value of two inputs");
    defined_[static_cast<std::size_t>(in.value)] = true;
    if (!nameOnce(v)) return at("verify-name", nullptr, v, "the name of an input's value is empty or not unique");
  }
  for (NodeId id : g_.order) {
    if (id < 0 || static_cast<std::size_t>(id) >= g_.nodeCount())
      return makeError("verify-ids", "the order names node " + std::to_string(id) + ", which does not exist");
    const Node& n = g_.node(id);
    if (n.id != id) return nodeError("verify-ids", g_, n, "node " + std::to_string(id) + " has another id");
    if (seen[static_cast<std::size_t>(id)]) return nodeError("verify-ids", g_, n, "stands twice in the order");
    seen[static_cast<std::size_t>(id)] = true;
    if (n.name.empty() || !node_names.insert(n.name).second)
      return nodeError("verify-name", g_, n, "node " + std::to_string(id) + ": its name '" + n.name + "' is empty or not unique");

    ValueId bad = kNone;
    bool invalid = false;
    forEachUse(n, [&](const Use& use) {
      if (!valid(use.value)) {
        invalid = true;
      } else if (bad == kNone && !defined_[static_cast<std::size_t>(use.value)]) {
        bad = use.value;
      }
    });
    if (invalid) return nodeError("verify-ids", g_, n, "uses a value that does not exist");
    if (bad != kNone) return nodeError("verify-use", g_, n, "uses %" + g_.value(bad).name + " before it is defined");

    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] == kNone) continue;
      if (!valid(n.outputs[i])) return nodeError("verify-ids", g_, n, "an output does not exist");
      const Value& v = g_.value(n.outputs[i]);
      if (v.id != n.outputs[i] || v.producer != id || v.output_index != static_cast<int>(i))
        return at("verify-ids", &n, v, "id, producer or output index do not agree with the node");
      if (!nameOnce(v)) return at("verify-name", &n, v, "the value's name is empty or not unique");
      defined_[static_cast<std::size_t>(v.id)] = true;
    }
  }
  return {};
}

Status Verifier::outputs() {
  for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    const std::string name = "output " + std::to_string(i);
    if (!valid(o.value) || !defined_[static_cast<std::size_t>(o.value)])
      return makeError("verify-output", name + " is not defined by a node or input");
    const bool names_input = o.kind == OutputKind::kGradient || o.kind == OutputKind::kBufferUpdate;
    if (names_input && (o.input < 0 || static_cast<std::size_t>(o.input) >= g_.inputs.size()))
      return makeError("verify-output", name + " (%" + g_.value(o.value).name + ") does not say which input it belongs to");
    if (o.kind == OutputKind::kLoss && numel(g_.value(o.value).local) != 1)
      return makeError("verify-output", name + ": the loss %" + g_.value(o.value).name + " is not a single number");
  }
  return {};
}

Status Verifier::placement(const Value& v, const Node* node) {
  const Placement& p = v.placement;
  const auto wrong = [&](const std::string& message) { return at("verify-placement", node, v, message); };
  if (v.factors.size() != v.shape.size()) return wrong("has factors for " + std::to_string(v.factors.size()) +
                                                       " of " + std::to_string(v.shape.size()) + " dimensions");
  for (std::size_t d = 0; d < v.shape.size(); ++d) {
    for (const Factor& f : v.factors[d])
      if (f.size == 1 || f.size < 0) return wrong("dimension " + std::to_string(d) + " has a factor of size " + std::to_string(f.size));
    if (sizeOf(v.factors[d]) != v.shape[d])
      return wrong("the factors of dimension " + std::to_string(d) + " multiply to " + std::to_string(sizeOf(v.factors[d])) +
                   ", the dimension is " + std::to_string(v.shape[d]));
  }
  if (!p.isSharded()) return {};
  if (p.dim < 0 || static_cast<std::size_t>(p.dim) >= v.shape.size()) return wrong("is sharded on a dimension that it lacks");
  const FactorList& list = v.factors[static_cast<std::size_t>(p.dim)];
  if (p.factor < 0 || static_cast<std::size_t>(p.factor) >= list.size()) return wrong("is sharded on a factor that it lacks");
  if (p.sizes.size() != static_cast<std::size_t>(ranks_))
    return wrong("has " + std::to_string(p.sizes.size()) + " block sizes for " + std::to_string(ranks_) + " ranks");
  const std::int64_t whole = list[static_cast<std::size_t>(p.factor)].size;
  std::int64_t sum = 0;
  for (std::int64_t s : p.sizes) {
    if (s < 0 || s > whole) return wrong("a block size of " + std::to_string(s) + " does not fit the factor " + std::to_string(whole));
    sum += s;
  }
  if (sum != whole) return wrong("block sizes sum to " + std::to_string(sum) + ", the factor is " + std::to_string(whole));
  return {};
}

Status Verifier::value(const Value& v, const Node* node) {
  const auto dims = [](const Dims& d) { return "[" + join(d, ", ") + "]"; };
  for (const Dims* shape : {&v.shape, &v.local})
    for (std::int64_t d : *shape)
      if (d < 0) return at("verify-local", node, v, "has a negative dimension");
  if (v.storage != kNone && (!valid(v.storage) || !defined_[static_cast<std::size_t>(v.storage)]))
    return at("verify-use", node, v, "shares the storage of a value that is not defined");
  if (g_.form == Form::kPlanned || g_.form == Form::kLocal) SP_TRY(placement(v, node));
  if (g_.form == Form::kJoint) return {};
  if (g_.form == Form::kLocal) {
    const Dims wanted = v.placement.isSharded() ? localShape(v.factors, v.placement, sequenceRank(g_)) : v.shape;
    if (v.local != wanted)
      return at("verify-local", node, v, "its local shape is " + dims(v.local) + ", its placement gives " + dims(wanted));
  } else if (v.local != v.shape) {
    return at("verify-local", node, v, "its local shape is " + dims(v.local) + " before anything is sharded");
  }
  return {};
}

/// Each rank may take its block of copies of one replicated value: no rank's elements are another's.
bool spreadsCopies(const Node& n, const Value& result) {
  if (baseName(n.op) != "expand" || !result.placement.isSharded()) return false;
  const auto d = static_cast<std::size_t>(result.placement.dim);
  return result.factors[d][static_cast<std::size_t>(result.placement.factor)].tag == Tag::kExpanded;
}

/// Ops other than sp.* never change what "equal on every rank" means: all operands replicated exactly when all results are.
Status Verifier::replication(const Node& n) {
  if (isSp(n.op) || rng::isRng(n.op)) return {};  // rng.*: each rank makes its own part
  bool has_result = false, all_results = true;
  for (ValueId id : n.outputs)
    if (id != kNone) {
      has_result = true;
      all_results = all_results && (g_.value(id).placement.isReplicated() || spreadsCopies(n, g_.value(id)));
    }
  if (!has_result) return {};
  bool all_operands = true;
  const Value* offender = nullptr;
  for (const Argument& argument : n.args) {
    const auto look = [&](const Use& use) {
      if (use.value == kNone || g_.value(use.value).placement.isReplicated()) return;
      all_operands = false;
      if (!offender && !readsOnlyMetadata(n.op, argument.name)) offender = &g_.value(use.value);
    };
    if (const auto* use = std::get_if<Use>(&argument.value)) look(*use);
    if (const auto* list = std::get_if<UseList>(&argument.value))
      for (const Use& use : *list) look(use);
  }
  if (all_results && offender)
    return nodeError("verify-replicated", g_, n, n.op.str() + " gives a replicated result from the operand %" + offender->name +
                                                     ", which is " + (offender->placement.isPartial() ? "partial" : "sharded"));
  if (!all_results && all_operands)
    return nodeError("verify-replicated", g_, n, n.op.str() + " gives a sharded or partial result from replicated operands");
  return {};
}

Status Verifier::phases() {
  const Node* first_backward = nullptr;
  for (NodeId id : g_.order) {
    const Node& n = g_.node(id);
    if (n.phase == Phase::kBackward && !first_backward) first_backward = &n;
    if (n.phase == Phase::kForward && first_backward)
      return nodeError("verify-phase", g_, n, "a forward node stands behind the backward node %" + first_backward->name);
  }
  return {};
}

Status Verifier::gradients() {
  for (const Output& o : g_.outputs) {
    if (o.kind != OutputKind::kGradient) continue;
    const Value& gradient = g_.value(o.value);
    const Value& parameter = g_.value(g_.inputs[static_cast<std::size_t>(o.input)].value);
    // Whole, or (optimizer states sharded) this rank's block of it as one flat list.
    const Dims blocks = shardBlocks(numel(parameter.local), axisSize(g_.mesh, MeshAxis::kAll));
    const Dims mine{blocks[static_cast<std::size_t>(g_.rank)]};
    if (gradient.local != parameter.local && gradient.local != mine)
      return at("verify-gradient", gradient.producer == kNone ? nullptr : &g_.node(gradient.producer), gradient,
                "is the gradient of " + g_.inputs[static_cast<std::size_t>(o.input)].name + " [" + join(parameter.local, ", ") +
                    "] but has shape [" + join(gradient.local, ", ") + "]");
  }
  return {};
}

Status Verifier::values() {
  const bool placed = g_.form == Form::kPlanned || g_.form == Form::kLocal;
  const bool local = g_.form == Form::kLocal || g_.form == Form::kJoint;
  for (const Input& in : g_.inputs) SP_TRY(value(g_.value(in.value), nullptr));
  for (NodeId id : g_.order) {
    const Node& n = g_.node(id);
    if (g_.form != Form::kGlobal && isMutating(n.op))
      return nodeError("verify-mutation", g_, n, n.op.str() + " writes into its operand");
    for (ValueId v : n.outputs)
      if (v != kNone) SP_TRY(value(g_.value(v), &n));
    if (placed) SP_TRY(replication(n));
    if (isSp(n.op)) SP_TRY(verifySpNode(g_, n, local));
  }
  return {};
}

Status Verifier::run() {
  const int all = axisSize(g_.mesh, MeshAxis::kAll);
  if (ranks_ < 1 || g_.rank < 0 || g_.rank >= all)
    return makeError("verify-placement", "rank " + std::to_string(g_.rank) + " is not on a mesh of " + std::to_string(all) + " ranks");
  SP_TRY(structure());
  SP_TRY(outputs());
  SP_TRY(values());
  if (g_.form == Form::kJoint) {
    SP_TRY(phases());
    SP_TRY(gradients());
    SP_TRY(verifyPending(g_));
  }
  return {};
}

}  // namespace

Status verifyGraph(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace spscope::ir
