// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/torch_partition.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <unordered_set>

#include "core/ir/sp_ops.h"
#include "passes/memory/flow_network.h"

namespace spscope::passes {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

using Names = std::unordered_set<std::string_view>;

const Names kViews = {"squeeze", "unsqueeze", "alias", "view", "slice", "t", "expand", "as_strided", "permute", "select", "split",
                      "transpose", "reshape", "split_with_sizes", "detach", "_reshape_alias", "unflatten", "flatten"};

/// get_default_op_list() with the ops that ATen tags as pointwise, by base name.
const Names kRecomputable = {
    "add", "sub", "div", "atan2", "mul", "max", "min", "pow", "remainder", "fmod", "__and__", "__or__", "__xor__", "__lshift__",
    "__rshift__", "eq", "ne", "ge", "gt", "le", "lt", "abs", "bitwise_not", "ceil", "floor", "frac", "neg", "relu", "round", "silu",
    "trunc", "log", "log10", "log1p", "log2", "lgamma", "exp", "expm1", "erf", "erfc", "cos", "acos", "cosh", "sin", "asin", "sinh",
    "tan", "atan", "tanh", "atanh", "sqrt", "rsqrt", "reciprocal", "sigmoid", "softplus", "threshold", "threshold_backward", "clamp",
    "where", "lerp", "addcmul", "gelu", "gelu_backward", "sum", "mean", "_grad_sum_to_size", "sum_to_size", "amax", "to", "type_as",
    "rsub", "_to_copy", "clone", "full_like", "var", "std", "_unsafe_view", "broadcast_tensors", "scalar_tensor", "ones", "new_zeros",
    "lift_fresh_copy", "arange", "triu", "var_mean", "isinf", "any", "full", "zeros", "empty", "empty_like", "argmax", "maximum",
    "index", "gather", "zeros_like",
    // tagged pointwise and not named above
    "acosh", "addcdiv", "angle", "asinh", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "celu", "clamp_max", "clamp_min", "clip", "conj_physical", "copysign", "deg2rad", "digamma", "elu", "erfinv", "exp2", "fmax",
    "fmin", "frexp", "gcd", "hardshrink", "hardsigmoid", "hardtanh", "heaviside", "hypot", "i0", "igamma", "igammac", "isfinite",
    "isnan", "isneginf", "isposinf", "lcm", "ldexp", "leaky_relu", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logit", "logit_backward", "masked_fill", "minimum", "mish", "mvlgamma", "nan_to_num",
    "native_dropout_backward", "nextafter", "polygamma", "positive", "rad2deg", "relu6", "selu", "sgn", "sigmoid_backward", "sign",
    "signbit", "silu_backward", "sinc", "softshrink", "special_entr", "special_erfcx", "special_i0e", "special_i1", "special_i1e",
    "special_log_ndtr", "special_ndtri", "special_xlog1py", "special_zeta", "square", "tanh_backward", "true_divide", "xlogy",
    // made of such ops by Inductor's decompositions
    "_log_softmax", "_log_softmax_backward_data", "_softmax", "native_layer_norm", "native_layer_norm_backward",
    "nll_loss_forward", "nll_loss_backward"};

/// Inductor repeats by expand and clone where cat is given one tensor several times, as rotary tables are built.
bool repeatsOneTensor(const ir::Node& node) {
  const auto* tensors = node.args.empty() ? nullptr : std::get_if<ir::UseList>(&node.args[0].value);
  return tensors != nullptr && !tensors->empty() &&
         std::all_of(tensors->begin(), tensors->end(), [&](const ir::Use& use) { return use.value == tensors->front().value; });
}

constexpr int kFar = 1000000000;      ///< distance of what the backward never reads
constexpr int kChain = 100;
constexpr int kMostDistance = 100;
constexpr double kPerStep = 1.1;
constexpr std::int64_t kReduces = 4;

/// A node of PyTorch's graph: ours, where several results are nodes of their own (its getitem).
struct Item {
  std::int32_t place = -1;               ///< in Graph::order; -1: a graph input
  ir::ValueId value = ir::kNone;         ///< its tensor; kNone: a tuple
  bool view = false, listed = false, fuses = false, cat = false, getitem = false;
  bool in_forward = false;               ///< the loss and other outputs of the forward need it
  bool in_backward = false;              ///< needs the incoming gradient
  int order = -1;                        ///< among the nodes of the forward
  int distance = kFar;                   ///< nodes to the nearest of the backward
  std::int64_t bytes = 0;
  std::vector<std::int32_t> operands, users;
  SavingReason ban = SavingReason::kNone;
};

class Partition {
 public:
  explicit Partition(const StepModel& model) : model_(model), checkpointed_(insideCheckpoints(model)) {
    build();
    classify();
    banNodes();
    banUsedFarApart();
    banLongChains();
  }
  TorchPartition solve();

 private:
  const ir::Graph& graph() const { return model_.graph(); }
  Item& item(std::int32_t i) { return items_[at(i)]; }
  void build();
  void classify();
  void banNodes();
  void banUsedFarApart();
  void banLongChains();
  bool fusible(const Item& a, const Item& b) const { return b.cat || (a.fuses && b.fuses); }
  bool mustRunAgain(const Item& i) const {
    return i.in_forward && i.place >= 0 && i.value != ir::kNone && checkpointed_[at(model_.storageOf(i.value))] &&
           whyNeverAgain(graph().node(model_.nodes[at(i.place)].id)) == SavingReason::kNone;
  }
  void ban(Item& i, SavingReason reason) {
    if (!i.view && i.ban == SavingReason::kNone && !mustRunAgain(i)) i.ban = reason;
  }
  bool materializedInBackward(std::int32_t start) const;
  int firstUnfusible(const std::vector<std::int32_t>& starts, int most) const;

  const StepModel& model_;
  std::vector<bool> checkpointed_;
  std::vector<Item> items_;
  std::vector<std::int32_t> item_of_;  ///< by value
};

void Partition::build() {
  item_of_.assign(graph().valueCount(), -1);
  for (const ir::Input& input : graph().inputs) {
    if (input.value == ir::kNone || item_of_[at(input.value)] >= 0) continue;
    item_of_[at(input.value)] = static_cast<std::int32_t>(items_.size());
    Item i;
    i.value = input.value;
    i.in_forward = true;
    items_.push_back(std::move(i));
  }
  const auto link = [&](std::int32_t from, std::int32_t to) {
    if (std::find(item(to).operands.begin(), item(to).operands.end(), from) != item(to).operands.end()) return;
    item(to).operands.push_back(from);
    item(from).users.push_back(to);
  };
  for (std::size_t p = 0; p < model_.nodes.size(); ++p) {
    const ir::Node& node = graph().node(model_.nodes[p].id);
    const std::string_view base = ir::baseName(node.op);
    Item i;
    i.place = static_cast<std::int32_t>(p);
    i.view = node.op == ir::sp::kVary || (node.op != ir::sp::kSlice && kViews.count(base) != 0);
    i.cat = base == "cat" && !repeatsOneTensor(node);
    i.listed = i.view || node.op == ir::sp::kSlice || kRecomputable.count(base) != 0 || (base == "cat" && !i.cat);
    i.fuses = i.listed || ir::isRandom(node.op);
    const bool tuple = node.outputs.size() > 1;
    if (!tuple && !node.outputs.empty()) i.value = node.outputs[0];
    const auto number = static_cast<std::int32_t>(items_.size());
    items_.push_back(i);
    ir::forEachUse(node, [&](const ir::Use& use) {
      if (item_of_[at(use.value)] >= 0) link(item_of_[at(use.value)], number);
    });
    for (const ir::ValueId out : node.outputs) {
      if (out == ir::kNone) continue;
      if (!tuple) {
        item_of_[at(out)] = number;
        continue;
      }
      Item part;
      part.place = i.place;
      part.value = out;
      part.listed = part.fuses = part.getitem = true;
      item_of_[at(out)] = static_cast<std::int32_t>(items_.size());
      items_.push_back(std::move(part));
      link(number, item_of_[at(out)]);
    }
  }
  for (Item& i : items_) {
    if (i.value != ir::kNone) i.bytes = graph().value(i.value).localBytes();
    if (i.getitem) item(i.operands[0]).bytes += i.bytes;
  }
}

void Partition::classify() {
  // Forward: what an output that is no gradient depends on. Backward: what depends on the gradient of the loss, which is
  // the first thing that the backward makes.
  std::vector<std::int32_t> open;
  for (const ir::Output& output : graph().outputs)
    if (output.value != ir::kNone && output.kind != ir::OutputKind::kGradient && item_of_[at(output.value)] >= 0)
      open.push_back(item_of_[at(output.value)]);
  while (!open.empty()) {
    Item& i = item(open.back());
    open.pop_back();
    if (i.in_forward && i.place >= 0) continue;
    i.in_forward = true;
    open.insert(open.end(), i.operands.begin(), i.operands.end());
  }
  const auto seed = std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.place >= 0 && !model_.nodes[at(i.place)].forward; });
  if (seed != items_.end()) seed->in_backward = true;
  int order = 0;
  for (Item& i : items_) {
    for (const std::int32_t o : i.operands) i.in_backward = i.in_backward || items_[at(o)].in_backward;
    if (i.in_forward) i.order = order++;
  }
  for (auto i = items_.rbegin(); i != items_.rend(); ++i) {
    if (!i->in_forward) {
      i->distance = 0;
      continue;
    }
    for (const std::int32_t u : i->users) i->distance = std::min(i->distance, items_[at(u)].distance + 1);
  }
}

bool Partition::materializedInBackward(std::int32_t start) const {
  std::vector<std::int32_t> open{start};
  std::vector<bool> seen(items_.size(), false);
  while (!open.empty()) {
    const Item& i = items_[at(open.back())];
    open.pop_back();
    for (const std::int32_t u : i.users) {
      const Item& user = items_[at(u)];
      if (!user.in_forward && !fusible(i, user)) return true;
      if ((user.view || user.getitem) && !seen[at(u)]) seen[at(u)] = true, open.push_back(u);
    }
  }
  return false;
}

void Partition::banNodes() {
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(items_.size()); ++n) {
    Item& i = item(n);
    if (i.place < 0 || !i.in_forward || i.getitem) continue;
    const ir::Node& node = graph().node(model_.nodes[at(i.place)].id);
    if (const SavingReason never = whyNeverAgain(node); never != SavingReason::kNone && !i.view) {
      ban(i, never);
    } else if (!i.listed) {
      ban(i, SavingReason::kNotInList);
    } else if (!i.view && materializedInBackward(n)) {
      ban(i, SavingReason::kMaterialized);
    } else {
      std::int64_t read = 0;  // operands that are tensors by themselves: those in lists do not count there either
      for (const ir::Argument& a : node.args)
        if (const auto* use = std::get_if<ir::Use>(&a.value)) read += graph().value(use->value).localBytes();
      if (i.bytes * kReduces < read) ban(i, SavingReason::kReduction);
    }
  }
}

/// Walking on from these in order: the first node that is reached by a step that does not fuse.
int Partition::firstUnfusible(const std::vector<std::int32_t>& starts, int most) const {
  using Step = std::pair<int, bool>;  // order, fused: false comes first among equals
  std::priority_queue<std::pair<Step, std::int32_t>, std::vector<std::pair<Step, std::int32_t>>, std::greater<>> open;
  std::unordered_set<std::int64_t> seen;
  for (const std::int32_t s : starts) open.push({{items_[at(s)].order, true}, s});
  while (!open.empty()) {
    const auto [step, n] = open.top();
    open.pop();
    if (!step.second) return step.first;
    for (const std::int32_t u : items_[at(n)].users) {
      const Item& user = items_[at(u)];
      if (!user.in_forward || user.order > most) continue;
      const bool fused = fusible(items_[at(n)], user);
      if (seen.insert(std::int64_t{u} * 2 + fused).second) open.push({{user.order, fused}, u});
    }
  }
  return most;
}

void Partition::banUsedFarApart() {
  for (const Item& used : items_) {
    if (!used.in_forward) continue;
    std::vector<std::int32_t> users;
    int last = -1, first = kFar;
    for (const std::int32_t u : used.users) {
      if (!items_[at(u)].in_forward) continue;
      users.push_back(u);
      last = std::max(last, items_[at(u)].order);
      first = std::min(first, items_[at(u)].order);
    }
    if (users.size() < 2 || first == last) continue;  // a single reader is never beyond itself
    const int limit = firstUnfusible(users, last);
    for (const std::int32_t u : users)
      if (items_[at(u)].order > limit && fusible(used, items_[at(u)])) ban(item(u), SavingReason::kUsedFarApart);
  }
}

void Partition::banLongChains() {
  std::vector<bool> visited(items_.size(), false);
  for (std::int32_t start = 0; start < static_cast<std::int32_t>(items_.size()); ++start) {
    if (!items_[at(start)].in_forward) continue;
    using Entry = std::pair<int, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    open.push({items_[at(start)].order, start});
    while (!open.empty()) {
      const std::int32_t n = open.top().second;
      open.pop();
      if (visited[at(n)]) continue;
      visited[at(n)] = true;
      if (items_[at(n)].order > items_[at(start)].order + kChain && open.empty()) {
        ban(item(n), SavingReason::kLongChain);
        break;
      }
      for (const std::int32_t u : items_[at(n)].users) {
        const Item& user = items_[at(u)];
        if (user.in_forward && fusible(items_[at(n)], user) && user.ban == SavingReason::kNone) open.push({user.order, u});
      }
    }
  }
}

TorchPartition Partition::solve() {
  // Vertices: 2n into the node, 2n + 1 out of it. Cutting in -> out keeps the tensor.
  FlowNetwork network(2 * items_.size() + 2);
  const std::size_t source = 2 * items_.size(), sink = source + 1;
  for (std::size_t n = 0; n < items_.size(); ++n) {
    const Item& i = items_[n];
    if (i.in_backward) {
      network.connect(2 * n, sink, FlowNetwork::kInfinite);
      continue;
    }
    if (mustRunAgain(i)) {
      network.connect(2 * n, sink, FlowNetwork::kInfinite);
      network.connect(2 * n, 2 * n + 1, FlowNetwork::kInfinite);
      for (const std::int32_t u : i.users) network.connect(2 * n + 1, 2 * at(u), FlowNetwork::kInfinite);
      continue;
    }
    if (i.place < 0 || i.ban != SavingReason::kNone) network.connect(source, 2 * n, FlowNetwork::kInfinite);
    double weight = FlowNetwork::kInfinite;  // a tuple cannot be kept, its parts can
    if (i.place < 0) {
      weight = 0;
    } else if (i.value != ir::kNone) {
      const bool materialized = !std::all_of(i.users.begin(), i.users.end(), [&](std::int32_t u) { return fusible(i, items_[at(u)]); });
      weight = std::floor(static_cast<double>(i.bytes) * std::pow(kPerStep, std::clamp(i.distance, 1, kMostDistance))) * (materialized ? 1 : 2);
    }
    network.connect(2 * n, 2 * n + 1, weight);
    for (const std::int32_t u : i.users) network.connect(2 * n + 1, 2 * at(u), FlowNetwork::kInfinite);
  }
  // A gradient that depends on no incoming gradient is handed over by the forward.
  for (const ir::Output& output : graph().outputs) {
    if (output.value == ir::kNone || output.kind != ir::OutputKind::kGradient) continue;
    const std::int32_t n = item_of_[at(output.value)];
    if (n >= 0 && !items_[at(n)].in_backward) network.connect(2 * at(n) + 1, sink, FlowNetwork::kInfinite);
  }
  const std::vector<bool> after = network.sinkSide(source, sink);

  TorchPartition out;
  out.rules.assign(model_.storages.size(), SavingReason::kNone);
  // A tensor is kept when it is cut, and when it is there before the cut only while a node of the backward reads it: where
  // PyTorch would move that node into the forward and keep its result instead.
  std::vector<bool> kept(model_.storages.size(), false);
  for (std::size_t n = 0; n < items_.size(); ++n) {
    const Item& i = items_[n];
    if (i.place < 0 || i.value == ir::kNone) continue;
    const std::size_t s = at(model_.storageOf(i.value));
    if (!after[2 * n] && after[2 * n + 1]) kept[s] = true;
    if (!model_.ownsStorage(i.value)) continue;
    if (!after[2 * (i.getitem ? at(i.operands[0]) : n)]) kept[s] = true;
    out.rules[s] = i.ban;
    if (i.getitem && i.ban == SavingReason::kNone) out.rules[s] = items_[at(i.operands[0])].ban;
  }
  for (std::size_t s = 0; s < kept.size(); ++s) kept[s] = !checkpointed_[s] && (kept[s] || model_.storages[s].output);
  out.decisions = decideByNeed(model_, kept);
  return out;
}

}  // namespace

TorchPartition partitionLikeTorch(const StepModel& model) { return Partition(model).solve(); }

}  // namespace spscope::passes
