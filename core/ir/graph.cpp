// SPDX-License-Identifier: Apache-2.0
#include "core/ir/graph.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "core/ir/op_traits.h"

namespace spscope::ir {
namespace {

/// push_back that moves what is there when it grows: these types' moves may throw as far as their small vectors know, so a
/// vector would copy.
template <typename T>
void append(std::vector<T>& to, T&& item) {
  if (to.size() == to.capacity()) {
    std::vector<T> grown;
    grown.reserve(std::max<std::size_t>(16, 2 * to.size()));
    grown.insert(grown.end(), std::make_move_iterator(to.begin()), std::make_move_iterator(to.end()));
    to = std::move(grown);
  }
  to.push_back(std::move(item));
}

}  // namespace

const Attribute* Node::find(Symbol argument) const {
  for (const Argument& a : args)
    if (a.name == argument) return &a.value;
  return nullptr;
}

Attribute* Node::find(Symbol argument) {
  return const_cast<Attribute*>(static_cast<const Node*>(this)->find(argument));
}

void Node::set(Symbol argument, Attribute value) {
  if (Attribute* a = find(argument)) {
    *a = std::move(value);
  } else {
    args.push_back({argument, std::move(value)});
  }
}

void Node::erase(Symbol argument) {
  for (auto it = args.begin(); it != args.end(); ++it)
    if (it->name == argument) {
      args.erase(it);
      return;
    }
}

std::string Graph::uniqueName(std::string_view wanted) {
  // "view_3" met twice becomes "view_3.1": the suffix cannot be met in names that files bring (identifiers).
  std::string base(wanted.empty() ? std::string_view("v") : wanted);
  auto [it, fresh] = name_counts_.try_emplace(base, 0);
  while (!fresh) {
    std::string candidate = base + "." + std::to_string(++it->second);
    if (name_counts_.try_emplace(candidate, 0).second) return candidate;
  }
  return base;
}

ValueId Graph::addValue(std::string wanted, DType dtype, Dims shape) {
  Value v;
  v.id = static_cast<ValueId>(values_.size());
  v.name = uniqueName(wanted);
  v.dtype = dtype;
  v.local = shape;
  v.shape = std::move(shape);
  append(values_, std::move(v));
  return values_.back().id;
}

NodeId Graph::addNode(Symbol op, std::string wanted) {
  Node n;
  n.id = static_cast<NodeId>(nodes_.size());
  n.op = op;
  n.name = uniqueName(wanted.empty() ? baseName(op) : std::string_view(wanted));
  append(nodes_, std::move(n));
  return nodes_.back().id;
}

ValueId Graph::addOutput(NodeId node_id, DType dtype, Dims shape, std::string wanted) {
  const ValueId id = static_cast<ValueId>(values_.size());
  Value v;
  v.id = id;
  v.dtype = dtype;
  v.local = shape;
  v.shape = std::move(shape);
  v.producer = node_id;
  Node& n = node(node_id);
  v.output_index = static_cast<int>(n.outputs.size());
  // A node and its only output share their name; values and nodes are separate name spaces in the text.
  v.name = wanted.empty() ? (n.outputs.empty() ? n.name : uniqueName(n.name)) : uniqueName(wanted);
  n.outputs.push_back(id);
  append(values_, std::move(v));
  return id;
}

void Graph::reserveNodeIds(std::size_t count) {
  for (std::size_t i = nodes_.size(); i < count; ++i) {
    Node dead;
    dead.id = static_cast<NodeId>(i);
    append(nodes_, std::move(dead));
  }
}

void Graph::adoptNode(Node adopted) {
  name_counts_.try_emplace(adopted.name, 0);
  reserveNodeIds(static_cast<std::size_t>(adopted.id) + 1);
  node(adopted.id) = std::move(adopted);
}

ValueId Graph::adoptValue(Value adopted) {
  adopted.id = static_cast<ValueId>(values_.size());
  name_counts_.try_emplace(adopted.name, 0);
  append(values_, std::move(adopted));
  return values_.back().id;
}

void Graph::replaceAllUses(ValueId from, ValueId to) {
  for (NodeId id : order)
    forEachUse(node(id), [&](Use& use) {
      if (use.value == from) use.value = to;
    });
  for (Output& output : outputs)
    if (output.value == from) output.value = to;
}

int Graph::removeDeadNodes() {
  std::vector<bool> live(values_.size(), false);
  for (const Output& o : outputs)
    if (o.value != kNone) live[static_cast<std::size_t>(o.value)] = true;
  std::vector<NodeId> kept;
  kept.reserve(order.size());
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& n = node(*it);
    bool needed = isMutating(n.op);  // has an effect whoever reads the result
    for (ValueId v : n.outputs) needed = needed || (v != kNone && live[static_cast<std::size_t>(v)]);
    if (!needed) continue;
    forEachUse(n, [&](const Use& use) { live[static_cast<std::size_t>(use.value)] = true; });
    kept.push_back(*it);
  }
  const int removed = static_cast<int>(order.size() - kept.size());
  std::reverse(kept.begin(), kept.end());
  order = std::move(kept);
  return removed;
}

std::vector<std::vector<NodeId>> usersOf(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.valueCount());
  for (NodeId id : graph.order)
    forEachUse(graph.node(id), [&](const Use& use) { users[static_cast<std::size_t>(use.value)].push_back(id); });
  return users;
}

std::vector<std::int32_t> positionsOf(const Graph& graph) {
  std::vector<std::int32_t> positions(graph.nodeCount(), kNone);
  for (std::size_t i = 0; i < graph.order.size(); ++i)
    positions[static_cast<std::size_t>(graph.order[i])] = static_cast<std::int32_t>(i);
  return positions;
}

ValueId useArg(const Node& node, Symbol name) {
  const Attribute* a = node.find(name);
  const Use* use = a ? std::get_if<Use>(a) : nullptr;
  return use ? use->value : kNone;
}

std::int64_t intArg(const Node& node, Symbol name, std::int64_t fallback) {
  const Attribute* a = node.find(name);
  if (!a) return fallback;
  if (const auto* i = std::get_if<std::int64_t>(a)) return *i;
  if (const auto* b = std::get_if<bool>(a)) return *b;
  if (const auto* d = std::get_if<double>(a)) return static_cast<std::int64_t>(*d);
  return fallback;
}

double doubleArg(const Node& node, Symbol name, double fallback) {
  const Attribute* a = node.find(name);
  if (!a) return fallback;
  if (const auto* d = std::get_if<double>(a)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(a)) return static_cast<double>(*i);
  if (const auto* b = std::get_if<bool>(a)) return *b;
  return fallback;
}

bool boolArg(const Node& node, Symbol name, bool fallback) {
  const Attribute* a = node.find(name);
  const bool* b = a ? std::get_if<bool>(a) : nullptr;
  return b ? *b : fallback;
}

std::string stringArg(const Node& node, Symbol name, std::string_view fallback) {
  const Attribute* a = node.find(name);
  const std::string* s = a ? std::get_if<std::string>(a) : nullptr;
  return s ? *s : std::string(fallback);
}

std::optional<Dims> intListArg(const Node& node, Symbol name) {
  const Attribute* a = node.find(name);
  if (!a) return std::nullopt;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(a)) return *list;
  if (const auto* i = std::get_if<std::int64_t>(a)) return Dims{*i};
  return std::nullopt;
}

std::string_view baseName(Symbol op) {
  const std::string& s = op.str();
  const std::size_t first = s.find('.');
  if (first == std::string::npos) return s;
  const std::size_t second = s.find('.', first + 1);
  return std::string_view(s).substr(first + 1, second == std::string::npos ? second : second - first - 1);
}

bool isCollective(Symbol op) {
  if (op.str().rfind("sp.", 0) != 0) return false;
  std::string_view base = baseName(op);
  if (base.ends_with("_start")) base.remove_suffix(6);
  return base == "all_reduce" || base == "all_to_all" || base == "all_gather" || base == "reduce_scatter";
}

std::string_view layerOf(std::string_view path) {
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
      return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

bool isAttention(Symbol op) {
  const std::string_view base = baseName(op);
  return base.find("scaled_dot_product") != std::string_view::npos || base.find("_flash_attention") == 0 ||
         base.find("_efficient_attention") == 0;
}

bool isRandom(Symbol op) {
  const std::string_view base = baseName(op);
  return base.find("dropout") != std::string_view::npos || base.find("bernoulli") == 0 || base.find("rand") == 0 ||
         base == "normal" || base == "normal_" || base == "uniform_" || base == "multinomial";
}

}  // namespace spscope::ir
