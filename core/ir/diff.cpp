// SPDX-License-Identifier: Apache-2.0
#include "core/ir/diff.h"

#include <algorithm>

#include "core/ir/equal.h"
#include "core/ir/text.h"
#include "core/ir/text_words.h"

namespace spscope::ir {
namespace {

std::string shapeText(const Dims& dims) { return attributeText(Graph{}, Attribute(dims)); }

/// The placement alone, as the text form spells it.
std::string placementText(const Placement& p) {
  if (p.isReplicated()) return "R";
  if (p.isPartial()) return "P";
  return "S" + std::to_string(p.dim) + (p.factor ? "." + std::to_string(p.factor) : "") + shapeText(p.sizes);
}

std::string factorText(const Value& v) {
  Value bare;
  bare.dtype = v.dtype;
  bare.shape = bare.local = v.shape;
  bare.factors = v.factors;
  return typeText(Graph{}, bare);
}

class Differ {
 public:
  Differ(const Graph& a, const Graph& b) : a_(a), b_(b), identity_(a, b), position_in_a_(positionsOf(a)) {
    in_b_.resize(std::max(a.nodeCount(), b.nodeCount()), false);
    for (NodeId id : b.order) in_b_[static_cast<std::size_t>(id)] = true;
  }

  bool inA(NodeId id) const { return positionInA(id) != kNone; }
  bool inB(NodeId id) const { return in_b_[static_cast<std::size_t>(id)]; }
  std::int32_t positionInA(NodeId id) const {
    const auto i = static_cast<std::size_t>(id);
    return i < position_in_a_.size() ? position_in_a_[i] : kNone;
  }
  /// Whether the node differs; says how where `what` is not null (and then looks at everything).
  bool nodeDiffers(const Node& x, const Node& y, std::vector<std::string>* what) const;
  bool valueDiffers(const Value& x, const Value& y, std::vector<std::string>* what) const;
  void graphDiffers(std::vector<std::string>* what) const;

 private:
  bool argumentsDiffer(const Node& x, const Node& y, std::vector<std::string>* what) const;

  const Graph& a_;
  const Graph& b_;
  ValueIdentity identity_;
  std::vector<std::int32_t> position_in_a_;
  std::vector<bool> in_b_;
};

bool Differ::argumentsDiffer(const Node& x, const Node& y, std::vector<std::string>* what) const {
  // The common case first: the same names in the same order.
  bool aligned = x.args.size() == y.args.size();
  for (std::size_t i = 0; aligned && i < x.args.size(); ++i) aligned = x.args[i].name == y.args[i].name;
  bool differs = false;
  const auto note = [&](Symbol name, const Attribute* before, const Attribute* after) {
    differs = true;
    if (what)
      what->push_back("argument " + name.str() + ": " + (before ? attributeText(a_, *before) : "(absent)") + " -> " +
                      (after ? attributeText(b_, *after) : "(absent)"));
  };
  for (std::size_t i = 0; i < x.args.size(); ++i) {
    const Argument& argument = x.args[i];
    const Attribute* other = aligned ? &y.args[i].value : y.find(argument.name);
    if (!other || !identity_.same(argument.value, *other)) note(argument.name, &argument.value, other);
    if (differs && !what) return true;
  }
  if (!aligned)
    for (const Argument& argument : y.args)
      if (!x.find(argument.name)) note(argument.name, nullptr, &argument.value);
  return differs;
}

bool Differ::valueDiffers(const Value& x, const Value& y, std::vector<std::string>* what) const {
  const bool differs = x.dtype != y.dtype || x.shape != y.shape || x.factors != y.factors || x.local != y.local ||
                       x.requires_grad != y.requires_grad || !samePlacement(x.placement, y.placement) ||
                       !identity_.same(x.storage, y.storage) || x.storage_bytes != y.storage_bytes || x.keep != y.keep;
  if (!differs || !what) return differs;
  const auto note = [&](const std::string& property, const std::string& before, const std::string& after) {
    if (before != after) what->push_back(property + " of %" + y.name + ": " + before + " -> " + after);
  };
  note("type", std::string(shortName(x.dtype)), std::string(shortName(y.dtype)));
  note("shape", shapeText(x.shape), shapeText(y.shape));
  if (x.factors != y.factors) note("factors", factorText(x), factorText(y));
  note("placement", placementText(x.placement), placementText(y.placement));
  note("local shape", shapeText(x.local), shapeText(y.local));
  note("grad", x.requires_grad ? "yes" : "no", y.requires_grad ? "yes" : "no");
  if (!identity_.same(x.storage, y.storage)) note("storage", valueRef(a_, x.storage), valueRef(b_, y.storage));
  note("storage bytes", std::to_string(x.storage_bytes), std::to_string(y.storage_bytes));
  note("keep", std::string(words::kKeeps[static_cast<std::size_t>(x.keep)]),
       std::string(words::kKeeps[static_cast<std::size_t>(y.keep)]));
  return true;
}

bool Differ::nodeDiffers(const Node& x, const Node& y, std::vector<std::string>* what) const {
  bool differs = false;
  const auto note = [&](const std::string& property, const std::string& before, const std::string& after) {
    differs = true;
    if (what) what->push_back(property + ": " + before + " -> " + after);
  };
  static const char* const kPhases[] = {"forward", "backward", "recompute"};
  if (x.op != y.op) note("op", x.op.str(), y.op.str());
  if (x.name != y.name) note("name", x.name, y.name);
  if (x.phase != y.phase)
    note("phase", kPhases[static_cast<std::size_t>(x.phase)], kPhases[static_cast<std::size_t>(y.phase)]);
  if (x.forward != y.forward) note("forward node", std::to_string(x.forward), std::to_string(y.forward));
  if (x.must_save != y.must_save) note("must be saved", x.must_save ? "yes" : "no", y.must_save ? "yes" : "no");
  if (differs && !what) return true;
  differs = argumentsDiffer(x, y, what) || differs;
  if (differs && !what) return true;
  if (x.outputs.size() != y.outputs.size())
    note("number of outputs", std::to_string(x.outputs.size()), std::to_string(y.outputs.size()));
  for (std::size_t i = 0; i < std::min(x.outputs.size(), y.outputs.size()); ++i) {
    if (differs && !what) return true;
    if ((x.outputs[i] == kNone) != (y.outputs[i] == kNone)) {
      note("output " + std::to_string(i), valueRef(a_, x.outputs[i]), valueRef(b_, y.outputs[i]));
    } else if (x.outputs[i] != kNone) {
      differs = valueDiffers(a_.value(x.outputs[i]), b_.value(y.outputs[i]), what) || differs;
    }
  }
  return differs;
}

void Differ::graphDiffers(std::vector<std::string>* what) const {
  static const char* const kForms[] = {"global", "planned", "local", "joint"};
  if (a_.form != b_.form)
    what->push_back(std::string("form: ") + kForms[static_cast<std::size_t>(a_.form)] + " -> " +
                    kForms[static_cast<std::size_t>(b_.form)]);
  if (!(a_.mesh == b_.mesh)) what->push_back("the mesh");
  if (a_.rank != b_.rank) what->push_back("rank: " + std::to_string(a_.rank) + " -> " + std::to_string(b_.rank));
  for (std::size_t i = 0; i < std::max(a_.inputs.size(), b_.inputs.size()); ++i) {
    if (i >= a_.inputs.size()) {
      what->push_back("input " + b_.inputs[i].name + " added");
    } else if (i >= b_.inputs.size()) {
      what->push_back("input " + a_.inputs[i].name + " removed");
    } else {
      const Input& x = a_.inputs[i];
      const Input& y = b_.inputs[i];
      if (x.name != y.name) {
        what->push_back("input " + std::to_string(i) + ": " + x.name + " -> " + y.name);
        continue;
      }
      if (x.kind != y.kind || x.trainable != y.trainable || x.aliases != y.aliases || x.storage != y.storage)
        what->push_back("input " + x.name);
      if (x.value == kNone || y.value == kNone) continue;
      std::vector<std::string> parts;
      if (valueDiffers(a_.value(x.value), b_.value(y.value), &parts))
        for (const std::string& part : parts) what->push_back("input " + x.name + ", " + part);
    }
  }
  for (std::size_t i = 0; i < std::max(a_.outputs.size(), b_.outputs.size()); ++i) {
    const std::string name = "output " + std::to_string(i);
    if (i >= a_.outputs.size()) {
      what->push_back(name + " added: " + valueRef(b_, b_.outputs[i].value));
    } else if (i >= b_.outputs.size()) {
      what->push_back(name + " removed: " + valueRef(a_, a_.outputs[i].value));
    } else {
      const Output& x = a_.outputs[i];
      const Output& y = b_.outputs[i];
      if (x.kind != y.kind || x.input != y.input || !identity_.same(x.value, y.value))
        what->push_back(name + ": " + valueRef(a_, x.value) + " -> " + valueRef(b_, y.value));
    }
  }
}

/// Nodes of b outside a longest run that keeps a's relative order. `positions` are a's, in b's order.
std::vector<NodeId> movedNodes(const std::vector<NodeId>& nodes, const std::vector<std::int32_t>& positions) {
  if (std::is_sorted(positions.begin(), positions.end())) return {};
  std::vector<std::size_t> tails;                             // index of the last element of the best run of each length
  std::vector<std::size_t> before(nodes.size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto it = std::lower_bound(tails.begin(), tails.end(), positions[i],
                                     [&](std::size_t t, std::int32_t p) { return positions[t] < p; });
    if (it != tails.begin()) before[i] = *(it - 1);
    if (it == tails.end()) {
      tails.push_back(i);
    } else {
      *it = i;
    }
  }
  std::vector<bool> stays(nodes.size(), false);
  for (std::size_t i = tails.empty() ? nodes.size() : tails.back(); i < nodes.size(); i = before[i]) stays[i] = true;
  std::vector<NodeId> moved;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!stays[i]) moved.push_back(nodes[i]);
  return moved;
}

}  // namespace

GraphDiff diffGraphs(const Graph& a, const Graph& b) {
  const Differ differ(a, b);
  GraphDiff diff;
  std::vector<NodeId> common;
  std::vector<std::int32_t> positions;
  std::vector<bool> is_changed(b.nodeCount(), false);
  for (NodeId id : a.order)
    if (!differ.inB(id)) diff.removed.push_back(id);
  for (NodeId id : b.order) {
    if (!differ.inA(id)) {
      diff.added.push_back(id);
      continue;
    }
    common.push_back(id);
    positions.push_back(differ.positionInA(id));
    if (!differ.nodeDiffers(a.node(id), b.node(id), nullptr)) continue;
    NodeChange change{id, {}};
    differ.nodeDiffers(a.node(id), b.node(id), &change.what);
    is_changed[static_cast<std::size_t>(id)] = true;
    diff.changed.push_back(std::move(change));
  }
  for (NodeId id : movedNodes(common, positions))
    if (!is_changed[static_cast<std::size_t>(id)]) diff.moved.push_back(id);
  differ.graphDiffers(&diff.graph);
  return diff;
}

std::int64_t countChangedNodes(const Graph& a, const Graph& b) {
  const Differ differ(a, b);
  std::int64_t count = 0;
  for (NodeId id : a.order) count += !differ.inB(id);
  for (NodeId id : b.order) count += !differ.inA(id) || differ.nodeDiffers(a.node(id), b.node(id), nullptr);
  return count;
}

std::string formatDiff(const Graph& a, const Graph& b, const GraphDiff& diff) {
  std::string out;
  for (const std::string& line : diff.graph) out += "~ " + line + "\n";
  for (NodeId id : diff.removed) out += "- " + nodeText(a, a.node(id)) + "\n";
  for (NodeId id : diff.added) out += "+ " + nodeText(b, b.node(id)) + "\n";
  for (const NodeChange& change : diff.changed) {
    out += "~ #" + std::to_string(change.node) + " " + b.node(change.node).name + "\n";
    for (const std::string& what : change.what) out += "    " + what + "\n";
  }
  for (NodeId id : diff.moved) out += "> #" + std::to_string(id) + " " + b.node(id).name + " moved\n";
  return out;
}

}  // namespace spscope::ir
