// SPDX-License-Identifier: Apache-2.0
// The rule of an op that a rule file describes (core/ir/op_rule.h): its dimensions have names, and what may be cut is said
// there. An operand that is sharded along a name that must be whole is moved to another name that every sharded operand
// has (attention: from the sequence to the heads), and the results back to where it came from.
#include <algorithm>

#include "core/ir/op_rule.h"
#include "passes/sequence/rules.h"

namespace spscope::passes {

using ir::BoundRule;
using ir::FactorList;
using ir::Factors;
using ir::NodeId;
using ir::Placement;
using ir::Tag;
using ir::ValueId;

namespace {

/// A shard along a named dimension; `shard.dim` is meaningless until it is put on a tensor.
struct NamedShard {
  std::string name;
  Shard shard;
  Shard on(int dim) const {
    Shard out = shard;
    out.dim = dim;
    return out;
  }
};

class Declared {
 public:
  Declared(Planner& p, NodeId id, const ir::OpRule& rule, BoundRule bound) : p_(p), id_(id), rule_(rule), names_(std::move(bound)) {}

  NoRule plan() {
    for (ValueId& v : operands_ = p_.operands(id_)) v = p_.unpartial(v);
    const auto given = strongest();
    std::optional<NamedShard> home;
    std::optional<NamedShard> cut = given;
    if (given && !rule_.isCuttable(given->name)) {
      cut = elsewhere();
      if (!cut) return rule_.shownName() + " needs " + given->name + " whole";
      home = given;
      p_.count("declared_moved");
    }
    // An operand without the dimension that is cut is whole on every rank.
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!cut) break;
      const int d = dimOf(i, cut->name);
      if (d >= 0) operands_[i] = p_.toShard(operands_[i], cut->on(d));
      else operands_[i] = p_.vary(p_.gather(operands_[i], rule_.shownName() + ": this operand has no dimension " + cut->name));
    }
    std::size_t next = 0;
    ir::forEachUse(p_.graph().node(id_), [&](ir::Use& use) { use.value = operands_[next++]; });
    const std::size_t results = p_.node(id_).outputs.size();
    for (std::size_t k = 0; k < results; ++k) setResult(k, cut, home);
    return {};
  }

 private:
  std::int64_t sizeOf(std::size_t operand, int dim) const { return p_.value(operands_[operand]).shape[static_cast<std::size_t>(dim)]; }
  /// Of an operand; -1 where it has none of this name, or one of size 1 that is broadcast.
  int dimOf(std::size_t operand, const std::string& name) const {
    const int d = BoundRule::dimOf(names_.operands[operand], name);
    return d >= 0 && sizeOf(operand, d) > 1 ? d : -1;
  }

  /// The shard of the operands that counts: one that may stay before one that may not, then the sequence, then the largest.
  std::optional<NamedShard> strongest() const {
    std::optional<NamedShard> best;
    std::tuple<bool, bool, std::int64_t> best_score;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const ir::Value& v = p_.value(operands_[i]);
      if (!v.placement.isSharded()) continue;
      const Shard shard = Planner::shardOf(v);
      const std::string& name = names_.operands[i][static_cast<std::size_t>(shard.dim)];
      const std::tuple score{rule_.isCuttable(name), shard.list[static_cast<std::size_t>(shard.factor)].tag == Tag::kSequence, ir::numel(v.shape)};
      if (!best || score > best_score) best = NamedShard{name, shard}, best_score = score;
    }
    return best;
  }

  /// A dimension that may be cut and that every sharded operand has, neither of the batch nor of the sequence; evenly where
  /// that can be, then the last one.
  std::optional<NamedShard> elsewhere() const {
    std::optional<NamedShard> best;
    bool best_even = false;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!p_.placement(operands_[i]).isSharded()) continue;
      for (int d = p_.rankOf(operands_[i]) - 1; d >= 0; --d) {
        const std::string& name = names_.operands[i][static_cast<std::size_t>(d)];
        const FactorList& list = p_.factors(operands_[i])[static_cast<std::size_t>(d)];
        if (!rule_.isCuttable(name) || list.empty() || ir::hasTag(list, Tag::kSequence) || ir::hasTag(list, Tag::kBatch)) continue;
        bool all = true;
        for (std::size_t j = 0; j < operands_.size(); ++j) all = all && (!p_.placement(operands_[j]).isSharded() || dimOf(j, name) >= 0);
        const std::int64_t n = sizeOf(i, d);
        const bool even = n % p_.ranks() == 0;
        if (!all || n < 2 || (best && (best_even || !even))) continue;
        best = NamedShard{name, {d, {{n, Tag::kNone}}, 0, ir::balancedBlocks(n, p_.ranks())}};
        best_even = even;
      }
      break;  // a name that the others lack is out of the question anyway
    }
    return best;
  }

  /// Factors of a named dimension: of the operand that knows most about it.
  FactorList factorsOf(const std::string& name, std::int64_t size) const {
    if (size == 1) return {};
    FactorList best{{size, Tag::kNone}};
    int most = -1;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const int d = name == "_" ? -1 : dimOf(i, name);
      if (d < 0 || sizeOf(i, d) != size) continue;
      const FactorList& list = p_.factors(operands_[i])[static_cast<std::size_t>(d)];
      const int told = static_cast<int>(list.size()) + (ir::hasTag(list, Tag::kSequence) ? 200 : 0) + (ir::hasTag(list, Tag::kBatch) ? 100 : 0);
      if (told > most) best = list, most = told;
    }
    return best;
  }

  void setResult(std::size_t k, const std::optional<NamedShard>& cut, const std::optional<NamedShard>& home) {
    const ValueId out = p_.node(id_).outputs[k];
    if (out == ir::kNone) return;
    const ir::Dims shape = p_.value(out).shape;
    Factors factors;
    int at = -1, back = -1;
    bool sequence = false;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::string& name = names_.results[k][d];
      FactorList list = factorsOf(name, shape[d]);
      if (sequence && ir::hasTag(list, Tag::kSequence)) list = {{shape[d], Tag::kNone}};  // only one dimension follows the sequence
      sequence = sequence || ir::hasTag(list, Tag::kSequence);
      if (cut && name == cut->name) at = static_cast<int>(d), list = cut->shard.list;
      if (home && name == home->name) back = static_cast<int>(d), list = home->shard.list;
      factors.push_back(std::move(list));
    }
    Placement place = Placement::replicated();
    if (cut) place = at >= 0 ? Placement::sharded(at, cut->shard.factor, cut->shard.sizes) : Placement::partial();
    p_.setOutput(id_, static_cast<int>(k), std::move(factors), place);
    if (back >= 0) p_.moveOutputAfter(out, home->on(back));
  }

  Planner& p_;
  NodeId id_;
  const ir::OpRule& rule_;
  BoundRule names_;
  std::vector<ValueId> operands_;
};

}  // namespace

NoRule declared(Planner& p, NodeId id, const ir::OpRule& rule) {
  Result<BoundRule> bound = ir::bind(rule, p.graph(), p.node(id));
  if (!bound) return bound.error().message;  // plan-sequence has refused it before
  return Declared(p, id, rule, std::move(*bound)).plan();
}

}  // namespace spscope::passes
