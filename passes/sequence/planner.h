// SPDX-License-Identifier: Apache-2.0
// Placement by data flow: the engine behind plan-sequence. It walks the program once, asks the rule of each op for the
// placement of its results or for what it needs of its operands, and puts one sp.redistribute where a need is not met.
//
// Nothing here compares a number with the sequence length: what follows the sequence is known from the factors that
// the tagged inputs brought in. One walk is greedy: an op decides knowing its operands only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "passes/pass.h"

namespace spscope::passes {

/// The target of a move: dimension `dim` gets the factor list `list`, of which `factor` is split in `sizes`.
struct Shard {
  int dim = 0;
  ir::FactorList list;
  int factor = 0;
  ir::Dims sizes;
};

/// Why a rule does not apply to the operands it met; nothing: it did. The planner then gathers, and counts it.
using NoRule = std::optional<std::string>;

class Planner {
 public:
  Planner(ir::Graph& graph, const PassContext& context);

  /// Plans the whole graph: values get factors and placement, sp.redistribute nodes stand where placement changes.
  Status run();

  // --- for rules ------------------------------------------------------------------------------------------------
  int ranks() const { return ranks_; }
  ir::Graph& graph() { return graph_; }
  const ir::Value& value(ir::ValueId id) const { return graph_.value(id); }
  const ir::Node& node(ir::NodeId id) const { return graph_.node(id); }
  const ir::Placement& placement(ir::ValueId id) const { return graph_.value(id).placement; }
  const ir::Factors& factors(ir::ValueId id) const { return graph_.value(id).factors; }
  int rankOf(ir::ValueId id) const { return static_cast<int>(graph_.value(id).shape.size()); }  ///< number of dims
  void count(const char* name, std::int64_t n = 1) { context_.count(name, n); }

  /// Tensor operands of the node, each slot once, in order.
  std::vector<ir::ValueId> operands(ir::NodeId id) const;
  /// Replaces operand `from` by `to` in all slots of the node.
  void replaceOperand(ir::NodeId id, ir::ValueId from, ir::ValueId to);
  /// Declares output `index`: its factors and placement. The shape must agree with the factors.
  void setOutput(ir::NodeId id, int index, ir::Factors factors, ir::Placement placement);
  /// All outputs replicated with plain factors.
  void setReplicated(ir::NodeId id);
  /// Inserts a new op before the current node and returns its single output.
  ir::ValueId insert(Symbol op, std::vector<ir::Argument> args, ir::DType dtype, ir::Factors factors,
                     ir::Placement placement);

  // --- moves (each memoised by value and target) ------------------------------------------------------------------
  /// R operand of rank-dependent work: its gradient will be summed over the ranks. No-op unless it needs a gradient.
  ir::ValueId vary(ir::ValueId v);
  ir::ValueId allReduce(ir::ValueId v);
  /// Any placement -> R. A gather of a sharded value is a fallback: it is counted with its reason.
  ir::ValueId gather(ir::ValueId v, const std::string& reason);
  /// S -> R of what an exchange of edges needs (a few elements per rank): no fallback, and not counted as one.
  ir::ValueId wholeEdges(ir::ValueId v);
  ir::ValueId toShard(ir::ValueId v, const Shard& shard);
  /// The shard on the value's sequence factor; kNone where it has none.
  std::optional<Shard> sequenceShard(ir::ValueId v) const;
  /// Moves to the sequence factor; kNone where there is none.
  ir::ValueId toSequence(ir::ValueId v);
  /// P -> S on the sequence factor if there is one, else -> R. Others unchanged.
  ir::ValueId unpartial(ir::ValueId v);
  /// Operand of an op whose result (of `nd` dims, right-aligned) is sharded as `shard` says.
  ir::ValueId align(ir::ValueId v, int nd, const Shard& shard);
  /// After the current node: its output is moved to `shard`, and later users read the moved value.
  void moveOutputAfter(ir::ValueId output, Shard shard) { after_.push_back({output, std::move(shard)}); }
  static Shard shardOf(const ir::Value& v);

 private:
  void seedInputs();
  void countAttention(const std::vector<ir::NodeId>& program);
  void planNode(ir::NodeId id);
  /// Gathers what is sharded, runs replicated, and shards the result again where it kept the operand's shape.
  void fallback(ir::NodeId id, const std::string& reason);
  void propagateGradients(ir::NodeId id);
  void applyMarks(ir::NodeId id);
  void planOutputs();
  ir::ValueId redistribute(ir::ValueId v, ir::Factors factors, ir::Placement placement);
  ir::ValueId exchange(ir::ValueId v, const Shard& shard);
  std::optional<ir::ValueId> exchangeBeforeRepeat(ir::ValueId v, const Shard& shard);
  std::optional<ir::ValueId> pushSliceUp(ir::ValueId v, const Shard& shard);

  ir::Graph& graph_;
  const PassContext& context_;
  int ranks_;
  ir::NodeId current_ = ir::kNone;
  std::vector<ir::NodeId> order_;                     ///< the new program order
  std::unordered_map<std::string, ir::ValueId> memo_; ///< (value, target) -> moved value
  std::unordered_map<ir::ValueId, ir::ValueId> bound_; ///< what later nodes read instead of a value
  std::vector<std::pair<ir::ValueId, Shard>> after_;
  std::unordered_map<ir::NodeId, std::pair<ir::ValueId, ir::ValueId>> attention_; ///< node (fused or scores) -> query, key
  std::set<ir::ValueId> whole_queries_of_;                                             ///< keys that only whole queries met so far
};

}  // namespace spscope::passes
