// SPDX-License-Identifier: Apache-2.0
// The placement rules, one per op, in families. A rule declares the outputs of the node (Planner::setOutput) after
// moving operands where needed, or says why it does not apply; then the planner falls back to a gather.
#pragma once

#include <string_view>
#include <unordered_map>

#include "core/ir/op_rule.h"
#include "passes/sequence/planner.h"

namespace spscope::passes {

using Rule = NoRule (*)(Planner&, ir::NodeId);
using RuleTable = std::unordered_map<std::string_view, Rule>;

/// By base name ("add", "_softmax"). Built once.
const RuleTable& ruleTable();

void addElementwiseRules(RuleTable& table);
void addViewRules(RuleTable& table);
void addSliceRules(RuleTable& table);
void addReductionRules(RuleTable& table);
void addIndexRules(RuleTable& table);
void addContractionRules(RuleTable& table);
void addAttentionRules(RuleTable& table);
void addLossRules(RuleTable& table);
void addBatchRules(RuleTable& table);
void addEdgeRules(RuleTable& table);  ///< after the others: it replaces their rules of scans and convolutions

// --- shared by families ---------------------------------------------------------------------------------------------
int normDim(std::int64_t dim, int rank);
bool allReplicated(const Planner& p, const std::vector<ir::ValueId>& values);
/// Factors of a broadcast result: per dim those of the operand with most sequence tags, then most factors.
ir::Factors broadcastFactors(const Planner& p, const std::vector<ir::ValueId>& operands, const ir::Dims& shape,
                             const std::optional<Shard>& shard = std::nullopt);
/// The shard that a broadcast op takes, on dims of the result: the sequence wins, then the largest operand; dims in
/// `skip` only when nothing else is sharded.
std::optional<Shard> chooseShard(const Planner& p, const std::vector<ir::ValueId>& operands, int result_rank,
                                 int skip = -1);
/// Whether an op's rule is that one: its results are computed element by element.
bool isElementwise(Symbol op);
/// The rule of every elementwise op (also used by masks, where, dropout-free paths).
NoRule elementwise(Planner& p, ir::NodeId id);
/// An sp.* op on another axis of the mesh (shard-batch left it).
NoRule onOtherAxis(Planner& p, ir::NodeId id);
/// A convolution whose batch is sharded, or nothing: images are convolved one by one.
NoRule convolveRows(Planner& p, ir::NodeId id);
/// An op of another library, as the user's rule file describes it.
NoRule declared(Planner& p, ir::NodeId id, const ir::OpRule& rule);
/// An op that acts along one dim only: needs it whole.
NoRule alongDim(Planner& p, ir::NodeId id, Symbol operand, std::int64_t dim);
/// x moved by `by` elements along its sharded dim (in a ring, or zeros follow): the ranks exchange edges, and the node becomes the
/// last step of it. False where blocks are uneven or smaller than that.
bool shiftByEdges(Planner& p, ir::NodeId id, ir::ValueId x, int dim, std::int64_t by, bool ring);
/// Inserts unsqueeze(v, dim).
ir::ValueId insertUnsqueeze(Planner& p, ir::ValueId v, int dim);
/// Inserts a repeat of each element of `dim` n times (expand + reshape), inner factor n tagged as equal.
ir::ValueId insertRepeatInterleave(Planner& p, ir::ValueId v, int dim, std::int64_t n);

}  // namespace spscope::passes
