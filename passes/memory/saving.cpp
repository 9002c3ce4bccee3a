// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/saving.h"

#include <algorithm>

#include "passes/memory/layers.h"
#include "passes/memory/op_cost.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Everything that decides the problem, so that equal layers are found equal and nothing else is.
std::vector<std::int64_t> signatureOf(const CutProblem& problem) {
  std::vector<std::int64_t> s;
  s.reserve(problem.ops.size() * 8 + problem.storages.size() * 2);
  for (const CutProblem::Op& op : problem.ops) {
    s.push_back(op.cost);
    s.push_back(op.banned);
    s.push_back(static_cast<std::int64_t>(op.reads.size()));
    s.insert(s.end(), op.reads.begin(), op.reads.end());
    s.push_back(static_cast<std::int64_t>(op.writes.size()));
    s.insert(s.end(), op.writes.begin(), op.writes.end());
  }
  for (const CutProblem::Storage& storage : problem.storages) {
    s.push_back(storage.bytes);
    s.push_back(storage.needed * 2 + storage.never_kept);
  }
  return s;
}

}  // namespace

SavingSolver::SavingSolver(const StepModel& model, const std::vector<bool>& long_values, const Segments& segments, SavingRules rules)
    : model_(model),
      pieces_(at(segments.count)),
      crosses_(model.storages.size(), false),
      wanted_always_(model.storages.size(), false),
      rules_(model.storages.size(), SavingReason::kNone) {
  const ir::Graph& graph = model.graph();
  std::vector<std::int32_t> local(model.storages.size(), -1);      // number in its piece's problem
  std::vector<std::int32_t> segment_of(model.storages.size(), -1);

  for (std::size_t s = 0; s < model.storages.size(); ++s)
    if (model.storages[s].forward) segment_of[s] = segments.of[at(model.storages[s].producer)];
  const Layers layers = findLayers(graph);
  const std::vector<HandedOn> handed_on = findHandedOn(graph, layers);
  const bool by_layer = rules == SavingRules::kLayerInputs;
  // The head is solved with the last layer, which therefore need not keep what it hands to it, unless that is the rule. Nor need
  // layers that learn nothing: but where what is inside of them runs again, no price may decide that it does.
  for (const HandedOn& what : handed_on)
    if (const std::int32_t s = model.storageOf(what.base); what.from > 0)
      crosses_[at(s)] = by_layer || (segment_of[at(s)] > 0 && (what.to > 0 || segment_of[at(s)] != segments.count - 1));
  // A reader in an earlier segment (layers that interleave) is not solved after this one, so what it reads is wanted at
  // any price.
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    if (!model.nodes[i].forward) continue;
    for (const ir::ValueId use : model.usesOf(model.nodes[i])) {
      const std::int32_t s = model.storageOf(use);
      if (segment_of[at(s)] > segments.of[i]) wanted_always_[at(s)] = true;
    }
  }

  const std::vector<bool> checkpointed = insideCheckpoints(model);
  const std::vector<bool> layered = by_layer ? insideLayers(model, layers, handed_on) : std::vector<bool>(model.storages.size(), false);
  std::vector<CutProblem> problems(pieces_.size());
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const StepNode& step = model.nodes[i];
    if (!step.forward || step.view) continue;
    const ir::Node& node = graph.node(step.id);
    const std::int32_t segment = segments.of[i];
    Piece& piece = pieces_[at(segment)];
    CutProblem& problem = problems[at(segment)];
    CutProblem::Op op;
    op.cost = step.cost.ns;
    const SavingReason never = whyNeverAgain(node);
    const bool fused = rules == SavingRules::kFused;
    const auto outs = model.outsOf(step);
    const auto again = [&](ir::ValueId out) {
      const std::int32_t s = model.storageOf(out);
      return layered[at(s)] || (never == SavingReason::kNone && checkpointed[at(s)]);
    };
    // A node inside a checkpoint or a layer runs again as a whole: what else it makes is made with it. One that ends a layer does not:
    // the layer after it would run again with it.
    const bool ends = by_layer && std::any_of(outs.begin(), outs.end(), [&](ir::ValueId out) { return crosses_[at(model.storageOf(out))] && !again(out); });
    const bool forced = !ends && std::any_of(outs.begin(), outs.end(), again);
    // The first rule that holds, of the node and of each of its results.
    const auto ruleOf = [&](ir::ValueId out, std::int32_t s) {
      if (forced && layered[at(s)]) return SavingReason::kInsideLayer;
      if (never != SavingReason::kNone || (checkpointed[at(s)] && !ends)) return never;
      if (ends) return SavingReason::kCrossesLayer;
      if (!fused && ir::isAttention(node.op)) return SavingReason::kAttention;
      if (!fused && isConvolution(node.op)) return SavingReason::kConvolution;
      if (crosses_[at(s)]) return SavingReason::kCrossesLayer;
      return long_values[at(out)] ? SavingReason::kNone : SavingReason::kShort;
    };
    std::int64_t written = 0;
    for (const ir::ValueId out : outs) {
      if (!model.ownsStorage(out)) continue;
      const std::int32_t s = model.storageOf(out);
      const StepStorage& storage = model.storages[at(s)];
      local[at(s)] = static_cast<std::int32_t>(problem.storages.size());
      piece.storages.push_back(s);
      // What leaves the graph stays to the end of the step anyway.
      problem.storages.push_back({storage.output ? 0 : storage.bytes, storage.used_after || wanted_always_[at(s)],
                                  forced && again(out)});
      op.writes.push_back(local[at(s)]);
      rules_[at(s)] = ruleOf(out, s);
      op.banned = op.banned || (rules_[at(s)] != SavingReason::kNone && !forced);
      written += storage.bytes;
    }
    std::vector<std::int32_t> outside;
    for (const ir::ValueId use : model.usesOf(step)) {
      const std::int32_t s = model.storageOf(use);
      if (segment_of[at(s)] < 0) continue;  // a graph input: always there
      std::vector<std::int32_t>& list = segment_of[at(s)] == segment ? op.reads : outside;
      const std::int32_t entry = segment_of[at(s)] == segment ? local[at(s)] : s;
      if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
    }
    if (!op.banned && !forced && written > 0) {
      const double ratio = static_cast<double>(written) / static_cast<double>(std::max<std::int64_t>(1, op.cost));
      ratios_.first = ratios_.first == 0 ? ratio : std::min(ratios_.first, ratio);
      ratios_.second = std::max(ratios_.second, ratio);
    }
    piece.outside.push_back(std::move(outside));
    problem.ops.push_back(std::move(op));
  }

  std::map<std::vector<std::int64_t>, int> known;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto [entry, fresh] = known.try_emplace(signatureOf(problems[p]), static_cast<int>(templates_.size()));
    if (fresh) templates_.push_back(std::move(problems[p]));
    pieces_[p].problem = entry->second;
  }
}

const CutSolution& SavingSolver::solvePiece(const Piece& piece, double price, const std::vector<bool>& wanted,
                                            std::vector<std::vector<Solved>>& memo) const {
  std::vector<Solved>& solved = memo[at(piece.problem)];
  for (const Solved& s : solved)
    if (s.price == price && s.wanted == wanted) return s.solution;
  CutProblem problem = templates_[at(piece.problem)];
  for (std::size_t s = 0; s < wanted.size(); ++s)
    if (wanted[s]) problem.storages[s].needed = true;
  solved.push_back({price, wanted, solveCut(problem, price)});
  return solved.back().solution;
}

Decisions SavingSolver::least() const {
  const bool forced = std::any_of(templates_.begin(), templates_.end(), [](const CutProblem& problem) {
    return std::any_of(problem.storages.begin(), problem.storages.end(), [](const auto& s) { return s.never_kept; });
  });
  constexpr double kNoWorth = 1e18;  // bytes per nanosecond: more than any storage has
  return forced ? solve(kNoWorth) : saveAll(model_);
}

Decisions SavingSolver::solve(double price, double first_price, int first) const {
  Decisions decisions(model_.storages.size(), Decision::kFree);
  std::vector<bool> wanted(model_.storages.size(), false);  // by a node that another segment re-runs
  std::vector<std::vector<Solved>> memo(templates_.size());
  std::vector<bool> local;
  for (std::size_t p = pieces_.size(); p-- > 0;) {
    const Piece& piece = pieces_[p];
    local.assign(piece.storages.size(), false);
    for (std::size_t s = 0; s < piece.storages.size(); ++s) local[s] = wanted[at(piece.storages[s])];
    const CutSolution& solution = solvePiece(piece, static_cast<int>(p) < first ? first_price : price, local, memo);
    for (std::size_t s = 0; s < piece.storages.size(); ++s) {
      if (solution.kept[s]) decisions[at(piece.storages[s])] = Decision::kSave;
      if (solution.remade[s]) decisions[at(piece.storages[s])] = Decision::kRecompute;
    }
    for (std::size_t o = 0; o < solution.rerun.size(); ++o)
      if (solution.rerun[o])
        for (const std::int32_t s : piece.outside[o]) wanted[at(s)] = true;
  }
  return decisions;
}

}  // namespace spscope::passes
