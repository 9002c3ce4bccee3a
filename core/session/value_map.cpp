// SPDX-License-Identifier: Apache-2.0
#include "core/session/value_map.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/ir/damage.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"

namespace spscope::session {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Value;
using ir::ValueId;

bool isSp(const Node& n) { return n.op.str().starts_with("sp."); }

/// Whether the nodes compute the same, sizes and operands aside.
bool sameAttributes(const Node& a, const Node& b) {
  const auto relevant = [](const ir::Argument& argument) {
    return !std::holds_alternative<ir::Use>(argument.value) && !std::holds_alternative<ir::UseList>(argument.value) &&
           !std::holds_alternative<std::vector<std::int64_t>>(argument.value);
  };
  for (const auto* pair : {&a, &b}) {
    const Node& other = pair == &a ? b : a;
    for (const ir::Argument& argument : pair->args) {
      if (!relevant(argument)) continue;
      const ir::Attribute* value = other.find(argument.name);
      if (value == nullptr || !(*value == argument.value)) return false;
    }
  }
  return true;
}

/// Whether its result holds the elements of `self` in the same order.
bool keepsOrder(const Node& n) {
  const std::string_view base = ir::baseName(n.op);
  for (const char* known : {"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "clone", "alias", "contiguous", "flatten"})
    if (base == known) return true;
  return false;
}

/// Pairs (before, after) of values that an sp.* node only moves (or a fault on purpose spoils); the receive buffers of a start stand for its operands.
std::vector<std::pair<ValueId, ValueId>> movesOf(const Node& n) {
  std::vector<std::pair<ValueId, ValueId>> out;
  if (!isSp(n) && n.op != ir::kDamage) return out;
  const ir::Attribute* self = n.find("self");
  if (self == nullptr) return out;
  if (const auto* one = std::get_if<ir::Use>(self)) {
    if (!n.outputs.empty()) out.emplace_back(one->value, n.outputs.front());
  } else if (const auto* list = std::get_if<ir::UseList>(self)) {
    for (std::size_t i = 0; i < list->size() && i < n.outputs.size(); ++i) out.emplace_back((*list)[i].value, n.outputs[i]);
  }
  return out;
}

class Mapper {
 public:
  Mapper(const Graph& sharded, const Graph& reference, bool any_float) : g_(sharded), ref_(reference), any_float_(any_float), map_(sharded.valueCount()) {}

  std::vector<Counterpart> run() {
    mapInputs();
    mapByName();
    mapByOperands();
    mapOutputs();
    for (auto it = g_.order.rbegin(); it != g_.order.rend(); ++it)
      for (const auto& [before, after] : movesOf(g_.node(*it))) take(before, of(after));
    mapByReaders();
    mapRecomputed();
    dropGradientsOfCopies();
    place();
    return std::move(map_);
  }

 private:
  ValueId of(ValueId v) const { return v == ir::kNone ? ir::kNone : map_[static_cast<std::size_t>(v)].reference; }
  void take(ValueId v, ValueId reference) {
    if (v == ir::kNone || reference == ir::kNone || of(v) != ir::kNone) return;
    const ir::DType mine = g_.value(v).dtype, its = ref_.value(reference).dtype;
    if (mine != its && !(any_float_ && ir::isFloating(mine) && ir::isFloating(its))) return;
    map_[static_cast<std::size_t>(v)].reference = reference;
  }

  void mapInputs() {
    for (std::size_t i = 0; i < g_.inputs.size() && i < ref_.inputs.size(); ++i)
      if (g_.inputs[i].name == ref_.inputs[i].name) take(g_.inputs[i].value, ref_.inputs[i].value);
  }

  /// Results of the reference's nodes by value name and by node.
  void mapByName() {
    std::unordered_map<std::string_view, ValueId> values;
    std::unordered_map<std::string_view, const Node*> nodes;
    for (const NodeId id : ref_.order) {
      const Node& n = ref_.node(id);
      nodes.emplace(n.name, &n);
      for (const ValueId v : n.outputs)
        if (v != ir::kNone) values.emplace(ref_.value(v).name, v);
    }
    for (const NodeId id : g_.order) {
      const Node& n = g_.node(id);
      if (n.phase == ir::Phase::kRecompute || isSp(n)) continue;
      const auto node = nodes.find(n.name);
      const Node* twin = node != nodes.end() && node->second->op == n.op && node->second->phase == n.phase ? node->second : nullptr;
      for (std::size_t i = 0; i < n.outputs.size(); ++i) {
        if (n.outputs[i] == ir::kNone) continue;
        const auto value = values.find(g_.value(n.outputs[i]).name);
        if (twin != nullptr && i < twin->outputs.size()) take(n.outputs[i], twin->outputs[i]);
        else if (value != values.end() && ref_.node(ref_.value(value->second).producer).phase == n.phase) take(n.outputs[i], value->second);
      }
    }
  }

  /// Nodes without a twin: the only one that does the same with the same operands.
  void mapByOperands() {
    using Key = std::pair<std::string_view, std::vector<ValueId>>;
    std::map<Key, std::vector<const Node*>> does;
    for (const NodeId id : ref_.order) {
      const Node& n = ref_.node(id);
      Key key{n.op.str(), {}};
      ir::forEachUse(n, [&](const ir::Use& use) { key.second.push_back(use.value); });
      if (!key.second.empty()) does[key].push_back(&n);
    }
    for (const NodeId id : g_.order) {
      const Node& n = g_.node(id);
      for (const auto& [before, after] : movesOf(n)) take(after, of(before));
      if (n.phase == ir::Phase::kRecompute || isSp(n) || n.outputs.empty() || of(n.outputs[0]) != ir::kNone) continue;
      Key key{n.op.str(), {}};
      ir::forEachUse(n, [&](const ir::Use& use) { key.second.push_back(of(use.value)); });
      const auto it = does.find(key);
      if (it == does.end()) continue;
      const Node* twin = nullptr;
      std::size_t found = 0;
      for (const Node* candidate : it->second)
        if (sameAttributes(n, *candidate)) twin = candidate, ++found;
      if (found != 1) continue;
      for (std::size_t i = 0; i < std::min(n.outputs.size(), twin->outputs.size()); ++i)
        if (twin->outputs[i] != ir::kNone) take(n.outputs[i], twin->outputs[i]);
    }
  }

  /// The node of the reference that does what `n` does: of its name; or the only one of its op that reads what it reads first.
  const Node* twinOf(const Node& n) const {
    if (n.outputs.empty()) return nullptr;
    if (const ValueId result = of(n.outputs[0]); result != ir::kNone) {
      const NodeId producer = ref_.value(result).producer;
      if (producer == ir::kNone) return nullptr;
      const Node& twin = ref_.node(producer);
      if (keepsOrder(n) && keepsOrder(twin)) return &twin;
      return twin.name == n.name && (twin.op == n.op || (ir::isAttention(twin.op) && ir::isAttention(n.op))) ? &twin : nullptr;
    }
    const ValueId self = of(ir::useArg(n, "self"));
    if (self == ir::kNone) return nullptr;
    const Node* twin = nullptr;
    for (const NodeId id : ref_users_[static_cast<std::size_t>(self)]) {
      const Node& candidate = ref_.node(id);
      if (candidate.op != n.op || candidate.phase != n.phase || ir::useArg(candidate, "self") != self) continue;
      if (twin != nullptr) return nullptr;
      twin = &candidate;
    }
    return twin;
  }

  /// What a node reads where its twin reads a value of the same whole shape is that value: so what a pass put in between is compared, too.
  void mapByReaders() {
    ref_users_ = ir::usersOf(ref_);
    for (auto it = g_.order.rbegin(); it != g_.order.rend(); ++it) {
      const Node& n = g_.node(*it);
      for (const auto& [before, after] : movesOf(n)) take(before, of(after));
      if (n.phase == ir::Phase::kRecompute || isSp(n)) continue;
      const Node* twin = twinOf(n);
      if (twin == nullptr) continue;
      for (const ir::Argument& argument : n.args) {
        const auto* use = std::get_if<ir::Use>(&argument.value);
        const ValueId wanted = use != nullptr ? ir::useArg(*twin, argument.name) : ir::kNone;
        if (wanted == ir::kNone || use->value == ir::kNone) continue;
        const Value& v = g_.value(use->value);
        const bool same = v.factors.empty() ? keepsOrder(n) && v.shape.size() == ref_.value(wanted).shape.size() : v.shape == ref_.value(wanted).shape && !v.placement.isPartial();
        if (v.producer != ir::kNone && same) take(use->value, wanted);
      }
    }
  }

  void mapOutputs() {
    for (const ir::Output& out : g_.outputs)
      for (const ir::Output& wanted : ref_.outputs)
        if (out.kind == wanted.kind && out.input == wanted.input && out.kind != ir::OutputKind::kUser && wanted.value != ir::kNone) take(out.value, wanted.value);
  }

  void mapRecomputed() {
    for (const NodeId id : g_.order) {
      const Node& n = g_.node(id);
      if (n.phase != ir::Phase::kRecompute || n.forward == ir::kNone) continue;
      const Node& original = g_.node(n.forward);
      for (std::size_t i = 0; i < std::min(n.outputs.size(), original.outputs.size()); ++i)
        if (original.outputs[i] != ir::kNone) take(n.outputs[i], of(original.outputs[i]));
    }
  }

  /// How the parts go together, where it is certain.
  void place() {
    std::vector<bool> whole(g_.valueCount(), false);  // made equal on all ranks by a collective
    for (const NodeId id : g_.order) {
      const Node& n = g_.node(id);
      for (const auto& [before, after] : movesOf(n)) {
        const Symbol kind = ir::isStart(n.op) ? ir::plainOf(n.op) : n.op;
        const auto i = static_cast<std::size_t>(after);
        if (kind == ir::sp::kAllReduce || kind == ir::sp::kAllGather) whole[i] = true;
        if (n.op == ir::sp::kWait || n.op == ir::sp::kUnpack) whole[i] = whole[static_cast<std::size_t>(before)];
      }
    }
    for (std::size_t i = 0; i < map_.size(); ++i) {
      if (map_[i].reference == ir::kNone) continue;
      const Value& v = g_.value(static_cast<ValueId>(i));
      const bool pending = v.producer != ir::kNone && ir::isStart(g_.node(v.producer).op);
      if (pending) {
        map_[i].reference = ir::kNone;  // nobody may look at it before the wait
        continue;
      }
      if (whole[i]) map_[i].how = exec::Assembly{ir::PlacementKind::kReplicated};
      else map_[i].how = assemblyOf(v);
    }
  }

  /// The gradient of a value with equal copies along a dimension is not one value: only its sum over the copies is, and a rank
  /// may give it to other copies.
  void dropGradientsOfCopies() {
    const auto copied = [&](ValueId v) { return ir::hasTag(g_.value(v).factors, ir::Tag::kExpanded); };
    for (const NodeId id : g_.order) {
      const Node& n = g_.node(id);
      if (n.phase != ir::Phase::kBackward || n.forward == ir::kNone) continue;
      const Node& forward = g_.node(n.forward);
      std::vector<ValueId> operands;
      ir::forEachUse(forward, [&](const ir::Use& use) {
        if (copied(use.value)) operands.push_back(use.value);
      });
      bool all = false;  // it hands the copies on
      for (const ValueId v : forward.outputs) all = all || (v != ir::kNone && (copied(v) || (!operands.empty() && g_.value(v).factors.empty())));
      for (const ValueId v : n.outputs) {
        if (v == ir::kNone || of(v) == ir::kNone) continue;
        const bool one = std::any_of(operands.begin(), operands.end(), [&](ValueId u) { return g_.value(u).shape == ref_.value(of(v)).shape; });
        if (all || one) map_[static_cast<std::size_t>(v)].reference = ir::kNone;
      }
    }
  }

  const Graph& g_;
  const Graph& ref_;
  bool any_float_;
  std::vector<Counterpart> map_;
  std::vector<std::vector<NodeId>> ref_users_;  ///< by value of the reference
};

}  // namespace

std::vector<Counterpart> counterpartsOf(const Graph& sharded, const Graph& reference, bool any_float) {
  return Mapper(sharded, reference, any_float).run();
}

std::vector<std::int64_t> shardOuters(const Graph& sharded) {
  std::set<std::int64_t> outers{1};
  for (std::size_t i = 0; i < sharded.valueCount(); ++i) {
    const Value& v = sharded.value(static_cast<ValueId>(i));
    if (!v.placement.isSharded() || v.factors.empty()) continue;
    const ir::ShardSpec spec = ir::canonical(v.factors, v.placement);
    outers.insert(spec.outer);
    std::int64_t before = spec.outer;
    for (int d = spec.dim - 1; d >= 0; --d) outers.insert(before *= v.shape[static_cast<std::size_t>(d)]);
  }
  outers.erase(0);
  return {outers.begin(), outers.end()};
}

std::optional<exec::Assembly> assemblyOf(const Value& v) {
  if (v.factors.empty() && !v.placement.isPartial()) return {};
  exec::Assembly how{v.placement.kind};
  if (v.placement.isSharded()) how.shard = ir::canonical(v.factors, v.placement);
  return how;
}

Result<std::optional<Nearest>> nearestTo(const exec::TensorBag& whole, const std::vector<exec::TensorBag>& parts, const std::optional<exec::Assembly>& how,
                                         const std::vector<std::int64_t>& outers) {
  const ir::Dims shape = whole.entry(0).shape;
  std::vector<ir::Dims> shapes;
  for (const exec::TensorBag& part : parts) shapes.push_back(part.entry(0).shape);
  std::vector<exec::Assembly> ways = how ? std::vector{*how} : exec::assembliesFor(shapes, shape, outers);
  std::optional<Nearest> nearest;
  for (const exec::Assembly& way : ways) {
    if (!exec::fits(way, shapes, shape)) continue;
    SP_ASSIGN(exec::ValueDifference d, exec::compareValue(parts, whole, way));
    // A NaN makes every way wrong: then the rest tells which one it is.
    if (nearest && !(d.error < nearest->difference.error || (d.error == nearest->difference.error && d.finite_error < nearest->difference.finite_error))) continue;
    nearest = Nearest{way, std::move(d)};
  }
  return nearest;
}

std::vector<int> offRanks(const std::vector<double>& errors, double allowed, int ranks) {
  std::vector<int> out;
  if (errors.size() == static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r)
      if (!(errors[static_cast<std::size_t>(r)] <= allowed)) out.push_back(r);
    // A shard's error may be spread so that no rank alone is over the bound.
    if (out.empty()) out.push_back(static_cast<int>(std::max_element(errors.begin(), errors.end()) - errors.begin()));
    return out;
  }
  out.resize(static_cast<std::size_t>(ranks));  // a sum: each of them may be
  std::iota(out.begin(), out.end(), 0);
  return out;
}

bool isPlaced(const Value& v) { return !v.factors.empty() || v.shape.empty() || !v.placement.isReplicated(); }

std::string placementSentence(const Value& v) {
  if (!isPlaced(v)) return "not recorded: plan-sequence places the forward, this came with the backward";
  if (v.placement.isReplicated()) return "replicated: equal on every rank";
  if (v.placement.isPartial()) return "partial sum: the true value is the sum over the ranks";
  std::string what = strf("sharded: dimension %d", v.placement.dim);
  if (static_cast<std::size_t>(v.placement.dim) < v.factors.size()) {
    const ir::FactorList& list = v.factors[static_cast<std::size_t>(v.placement.dim)];
    if (static_cast<std::size_t>(v.placement.factor) < list.size()) {
      const ir::Tag tag = list[static_cast<std::size_t>(v.placement.factor)].tag;
      what += tag == ir::Tag::kSequence ? ", the sequence" : tag == ir::Tag::kBatch ? ", the batch" : ", not the sequence";
      if (list.size() > 1) what += strf(" (factor %d of %zu)", v.placement.factor, list.size());
    }
  }
  return what + ", blocks [" + join(v.placement.sizes, ", ") + "]";
}

std::string placementWords(const exec::Assembly& how) {
  switch (how.kind) {
    case ir::PlacementKind::kReplicated: return "replicated";
    case ir::PlacementKind::kPartial: return "partial sum";
    case ir::PlacementKind::kSharded: break;
  }
  return strf("sharded on dimension %d in blocks of %s", how.shard.dim, join(how.shard.blocks, ", ").c_str());
}

}  // namespace spscope::session
