// SPDX-License-Identifier: Apache-2.0
#include "core/session/accumulation.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/torch/executor.h"
#include "core/torch/shards.h"

namespace spscope::session {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

/// The loss, followed back from its output as long as it only scales.
class Finder {
 public:
  explicit Finder(const ir::Graph& graph) : g_(graph), trained_(graph.valueCount(), false) {
    for (const ir::Input& input : graph.inputs)
      if (input.kind == ir::InputKind::kParameter || input.kind == ir::InputKind::kBuffer) trained_[at(input.value)] = true;
    for (const NodeId id : graph.order) {
      bool any = false;
      ir::forEachUse(graph.node(id), [&](const ir::Use& use) { any = any || trained_[at(use.value)]; });
      for (const ValueId v : graph.node(id).outputs)
        if (v != kNone) trained_[at(v)] = any;
    }
  }

  struct Found {
    BatchWeights::Rule rule = BatchWeights::Rule::kEqual;
    NodeId node = kNone;
    ValueId divisor = kNone;  ///< of a division; kNone: a cross-entropy counts its labels itself
    bool exact = true;
  };

  Found find(ValueId v) const {
    for (;;) {
      const NodeId id = v == kNone ? kNone : g_.value(v).producer;
      if (id == kNone) return {};
      const ir::Node& n = g_.node(id);
      const std::string_view base = ir::baseName(n.op);
      const ValueId self = ir::useArg(n, "self"), other = ir::useArg(n, "other");
      if (base == "cross_entropy_loss" || base == "nll_loss" || base == "nll_loss_nd") {
        const std::int64_t reduction = ir::intArg(n, "reduction", 1);
        if (ir::useArg(n, "weight") != kNone && reduction == 1) return {};
        if (reduction == 0) return {};
        return {reduction == 1 ? BatchWeights::Rule::kCounted : BatchWeights::Rule::kSum, id, kNone, true};
      }
      if (base == "sum" && n.args.size() == 1) return {BatchWeights::Rule::kSum, id, kNone, true};
      if ((base == "mean" && n.args.size() == 1) || (base == "mse_loss" && ir::intArg(n, "reduction", 1) == 1)) return {BatchWeights::Rule::kMean, id, kNone, true};
      if (base == "div" && other != kNone && !trained_[at(other)] && fromInputs(other)) return {BatchWeights::Rule::kCounted, id, other, true};
      if (base == "add") {  // a balance loss, a regulariser: weighted with the rest
        const Found a = find(self), b = other == kNone ? Found{} : find(other);
        const bool first = a.rule == BatchWeights::Rule::kCounted, second = b.rule == BatchWeights::Rule::kCounted;
        if (first == second) return {};
        Found out = first ? a : b;
        out.exact = other == kNone;
        return out;
      }
      if (base == "mul" || base == "div") {  // by a number, or by a tensor that holds one
        if (other != kNone && (trained_[at(other)] || fromInputs(other))) return {};
        v = self;
        continue;
      }
      static constexpr std::string_view kKeep[] = {"view", "reshape", "squeeze", "unsqueeze", "to", "_to_copy", "alias", "clone", "contiguous", "neg", "float", "double"};
      if (std::find(std::begin(kKeep), std::end(kKeep), base) == std::end(kKeep)) return {};
      v = self;
    }
  }

 private:
  static std::size_t at(ValueId v) { return static_cast<std::size_t>(v); }
  bool fromInputs(ValueId v) const {
    std::vector<ValueId> todo{v};
    std::vector<bool> seen(g_.valueCount(), false);
    while (!todo.empty()) {
      const ValueId x = todo.back();
      todo.pop_back();
      if (seen[at(x)]) continue;
      seen[at(x)] = true;
      if (g_.value(x).producer == kNone) {
        for (const ir::Input& input : g_.inputs)
          if (input.value == x && input.kind == ir::InputKind::kUser) return true;
        continue;
      }
      ir::forEachUse(g_.node(g_.value(x).producer), [&](const ir::Use& use) { todo.push_back(use.value); });
    }
    return false;
  }

  const ir::Graph& g_;
  std::vector<bool> trained_;
};

}  // namespace

BatchWeights BatchWeights::of(const ir::Graph& graph) {
  BatchWeights out;
  const auto loss = std::find_if(graph.outputs.begin(), graph.outputs.end(), [](const ir::Output& o) { return o.kind == ir::OutputKind::kLoss; });
  if (loss == graph.outputs.end()) return out;
  const Finder::Found found = Finder(graph).find(loss->value);
  out.rule_ = found.rule;
  out.exact_ = found.exact;
  if (found.node != kNone) out.node_ = graph.node(found.node).name;
  if (found.rule != Rule::kCounted) return out;
  auto count = std::make_shared<ir::Graph>(graph);
  ValueId number = found.divisor;
  if (number == kNone) {
    const ir::Node node = count->node(found.node);
    const ValueId labels = ir::useArg(node, "target");
    if (labels == kNone || ir::isFloating(graph.value(labels).dtype)) return out.rule_ = Rule::kEqual, out;  // class probabilities
    const NodeId valid = count->addNode("aten.ne.Scalar", "valid");
    count->node(valid).set("self", ir::Use{labels});
    count->node(valid).set("other", ir::intArg(node, "ignore_index", -100));
    const ValueId which = count->addOutput(valid, ir::DType::kBool, graph.value(labels).shape);
    const NodeId sum = count->addNode("aten.sum.default", "count");
    count->node(sum).set("self", ir::Use{which});
    number = count->addOutput(sum, ir::DType::kI64, {});
    count->order.push_back(valid);
    count->order.push_back(sum);
  }
  // A forward-only program of the user inputs alone.
  count->outputs = {{number, ir::OutputKind::kUser, kNone}};
  std::vector<bool> needed(count->valueCount(), false);
  needed[static_cast<std::size_t>(number)] = true;
  std::vector<NodeId> order;
  for (auto it = count->order.rbegin(); it != count->order.rend(); ++it) {
    const ir::Node& n = count->node(*it);
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNone && needed[static_cast<std::size_t>(v)]; })) continue;
    ir::forEachUse(n, [&](const ir::Use& use) { needed[static_cast<std::size_t>(use.value)] = true; });
    order.push_back(*it);
  }
  std::reverse(order.begin(), order.end());
  count->order = std::move(order);
  bool constants = false;
  std::vector<ir::Input> inputs;
  for (const ir::Input& input : count->inputs) {
    if (!needed[static_cast<std::size_t>(input.value)]) continue;
    constants = constants || input.kind != ir::InputKind::kUser;
    inputs.push_back(input);
  }
  count->inputs = std::move(inputs);
  if (constants) return out.rule_ = Rule::kEqual, out;  // would need the file's tensors
  out.count_ = std::move(count);
  return out;
}

std::string BatchWeights::text() const {
  switch (rule_) {
    case Rule::kCounted: return "weighted by what the loss divides by (%" + node_ + ")" + (exact_ ? "" : "; what is added to it is weighted alike");
    case Rule::kSum: return "added, as the loss is a sum (%" + node_ + ")";
    case Rule::kMean: return "averaged, as the loss is a mean over as many numbers in every batch (%" + node_ + ")";
    case Rule::kEqual: break;
  }
  return "averaged: the loss divides by no count of the inputs";
}

Result<double> BatchWeights::weight(const exec::TensorBag& inputs) const {
  if (rule_ != Rule::kCounted) return 1.0;
  SP_ASSIGN(auto program, exec::Program::prepare(count_));
  exec::Executor executor(std::move(program));
  SP_TRY(executor.bind({}));
  SP_ASSIGN(const exec::StepResult result, executor.step(inputs));
  return result.outputs.scalar(result.outputs.entry(0).name);
}

Result<std::vector<exec::StepResult>> accumulate(int count, std::int64_t first, const BatchWeights& weights,
                                                 const std::function<Result<BatchResult>(std::int64_t index)>& run) {
  std::vector<exec::WeightedMean> gradients;
  std::vector<exec::StepResult> out;
  std::vector<double> losses;
  double total = 0.0;
  for (int k = 0; k < count; ++k) {
    SP_ASSIGN(BatchResult batch, run(first + k));
    if (count == 1) return std::move(batch.ranks);
    total += batch.weight;
    if (k == 0) out.resize(batch.ranks.size()), losses.assign(out.size(), 0.0), gradients.resize(out.size());
    for (std::size_t r = 0; r < out.size(); ++r) {
      exec::StepResult& mine = batch.ranks[r];
      const std::int64_t peak = std::max(out[r].peak_bytes, mine.peak_bytes + gradients[r].bytes());
      // A batch without a valid label has a loss and gradients that are not numbers, and no part in the mean.
      if (batch.weight != 0.0) {
        losses[r] += batch.weight * mine.loss;
        SP_TRY(gradients[r].add(mine.gradients, batch.weight));
      }
      mine.gradients.clear();
      out[r] = std::move(mine);
      out[r].peak_bytes = peak;
    }
  }
  for (std::size_t r = 0; r < out.size(); ++r) {
    out[r].loss = weights.divides() ? losses[r] / total : losses[r];
    SP_ASSIGN(out[r].gradients, gradients[r].take(weights.divides()));
  }
  return out;
}

}  // namespace spscope::session
