// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph/graph_source.h"

#include <unordered_map>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

std::string lastPart(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

/// "aten.linear.default" -> "linear"; "sp.all_to_all.default" keeps its sp.
std::string opTitle(const ir::Node& node) {
  const std::string base(ir::baseName(node.op));
  return node.op.str().starts_with("sp.") ? "sp." + base : base;
}

ir::ValueId firstOutput(const ir::Node& node) {
  for (const ir::ValueId v : node.outputs)
    if (v != ir::kNone) return v;
  return ir::kNone;
}

class Maker {
 public:
  explicit Maker(GraphSource& out) : out_(out) {}

  void addInputs() {
    const ir::Graph& g = *out_.graph;
    for (const ir::Input& input : g.inputs) {
      if (input.kind != ir::InputKind::kUser) continue;
      SourceNode n;
      n.input = input.value;
      n.title = input.name;
      n.subtitle = shapeText(g, g.value(input.value));
      producer_[input.value] = static_cast<std::int32_t>(out_.nodes.size());
      out_.nodes.push_back(std::move(n));
    }
  }

  void addNodes() {
    const ir::Graph& g = *out_.graph;
    out_.index_of.assign(g.nodeCount(), -1);
    for (const ir::NodeId id : g.order) {
      const auto index = static_cast<std::int32_t>(out_.nodes.size());
      out_.index_of[static_cast<std::size_t>(id)] = index;
      out_.nodes.push_back(nodeOf(g, id));
      for (const ir::ValueId v : g.node(id).outputs)
        if (v != ir::kNone) producer_[v] = index;
    }
    for (const ir::NodeId id : g.order) addLinks(g, id, Change::kNone);
  }

  void addDiff() {
    if (!out_.previous) return;
    const ir::Graph& before = *out_.previous;
    out_.diff = ir::diffGraphs(before, *out_.graph);
    for (const ir::NodeId id : out_.diff.added) out_.nodes[static_cast<std::size_t>(out_.indexOf(id))].change = Change::kAdded;
    for (const ir::NodeChange& change : out_.diff.changed) {
      SourceNode& n = out_.nodes[static_cast<std::size_t>(out_.indexOf(change.node))];
      n.change = Change::kChanged;
      n.what = change.what;
    }
    // Ids are never reused from stage to stage: a removed node has no place in index_of yet.
    for (const ir::NodeId id : out_.diff.removed) {
      SourceNode n = nodeOf(before, id);
      n.change = Change::kRemoved;
      n.module = nearestModule(before, id);
      const auto index = static_cast<std::int32_t>(out_.nodes.size());
      if (static_cast<std::size_t>(id) >= out_.index_of.size()) out_.index_of.resize(static_cast<std::size_t>(id) + 1, -1);
      out_.index_of[static_cast<std::size_t>(id)] = index;
      out_.nodes.push_back(std::move(n));
    }
    for (const ir::NodeId id : out_.diff.removed) addRemovedLinks(before, id);
    countChanges();
  }

 private:
  void countChanges() {
    out_.changes.assign(out_.tree->modules().size(), {});
    for (const SourceNode& n : out_.nodes) {
      if (n.change == Change::kNone) continue;
      for (ModuleIndex m = n.module; m >= 0; m = out_.tree->at(m).parent) {
        GraphSource::Changes& c = out_.changes[static_cast<std::size_t>(m)];
        ++(n.change == Change::kAdded ? c.added : n.change == Change::kRemoved ? c.removed : c.changed);
      }
    }
  }

  SourceNode nodeOf(const ir::Graph& g, ir::NodeId id) const {
    const ir::Node& node = g.node(id);
    SourceNode n;
    n.node = id;
    n.module = out_.tree->of(id);
    n.title = opTitle(node);
    if (node.location && !node.location->module_path.empty()) n.title += " · " + lastPart(node.location->module_path);
    if (const ir::ValueId v = firstOutput(node); v != ir::kNone) {
      n.subtitle = shapeText(g, g.value(v));
      n.view = g.value(v).storage != ir::kNone;
    }
    n.collective = ir::isCollective(node.op);
    n.attention = ir::isAttention(node.op);
    return n;
  }

  LinkKind kindOf(const ir::Graph& g, ir::ValueId value, const ir::Node& user) const {
    const ir::Value& v = g.value(value);
    if (v.producer != ir::kNone && ir::isCollective(g.node(v.producer).op)) return LinkKind::kCollective;
    if (v.keep == ir::Keep::kSaved && user.phase != ir::Phase::kForward) return LinkKind::kSaved;
    return LinkKind::kData;
  }

  void addLinks(const ir::Graph& g, ir::NodeId id, Change change) {
    const std::int32_t to = out_.indexOf(id);
    ir::forEachUse(g.node(id), [&](const ir::Use& use) {
      const auto it = producer_.find(use.value);
      if (it == producer_.end() || it->second == to) return;  // a parameter
      out_.links.push_back({it->second, to, use.value, kindOf(g, use.value, g.node(id)), change});
    });
  }

  void addRemovedLinks(const ir::Graph& before, ir::NodeId id) {
    const std::int32_t to = out_.indexOf(id);
    ir::forEachUse(before.node(id), [&](const ir::Use& use) {
      const ir::NodeId from = before.value(use.value).producer;
      std::int32_t index = from == ir::kNone ? -1 : out_.indexOf(from);
      if (from == ir::kNone) {  // inputs keep their value's id
        const auto it = producer_.find(use.value);
        if (it != producer_.end()) index = it->second;
      }
      if (index >= 0) out_.links.push_back({index, to, use.value, kindOf(before, use.value, before.node(id)), Change::kRemoved});
    });
    // What it fed that is still there.
    for (const ir::ValueId v : before.node(id).outputs) {
      if (v == ir::kNone) continue;
      if (users_.empty()) users_ = ir::usersOf(before);
      for (const ir::NodeId user : users_[static_cast<std::size_t>(v)])
        if (const std::int32_t index = out_.indexOf(user); index >= 0 && out_.nodes[static_cast<std::size_t>(index)].change != Change::kRemoved)
          out_.links.push_back({to, index, v, kindOf(before, v, before.node(user)), Change::kRemoved});
    }
  }

  /// A removed node stands in the innermost of its modules that is still there.
  ModuleIndex nearestModule(const ir::Graph& before, ir::NodeId id) const {
    const ir::Node& node = before.node(id);
    const bool joint = out_.graph->form == ir::Form::kJoint;
    const std::string branch = !joint ? "" : node.phase == ir::Phase::kForward ? "forward" : "backward";
    std::string path = node.location ? node.location->module_path : "";
    for (;;) {
      const std::string key = branch.empty() ? path : path.empty() ? branch : branch + "/" + path;
      if (const ModuleIndex m = out_.tree->find(key); m >= 0) return m;
      if (path.empty()) return 0;
      const auto dot = path.rfind('.');
      path = dot == std::string::npos ? "" : path.substr(0, dot);
    }
  }

  GraphSource& out_;
  std::unordered_map<ir::ValueId, std::int32_t> producer_;
  std::vector<std::vector<ir::NodeId>> users_;
};

}  // namespace

std::string shapeText(const ir::Graph& graph, const ir::Value& value) {
  const int ranks = graph.mesh.sizeOf("sp");
  std::vector<std::string> dims;
  const bool local = graph.form == ir::Form::kLocal || graph.form == ir::Form::kJoint;
  const ir::Dims& shape = local ? value.local : value.shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::string text = std::to_string(shape[d]);
    if (value.placement.isSharded() && value.placement.dim == static_cast<int>(d) && ranks > 1) {
      const bool sequence = d < value.factors.size() && static_cast<std::size_t>(value.placement.factor) < value.factors[d].size() &&
                            value.factors[d][static_cast<std::size_t>(value.placement.factor)].tag == ir::Tag::kSequence;
      text = local ? text + (sequence ? "=S/" : "=/") + std::to_string(ranks) : (sequence ? "S/" : text + "/") + std::to_string(ranks);
    }
    dims.push_back(std::move(text));
  }
  std::string out = "[" + join(dims, ", ") + "] " + std::string(ir::shortName(value.dtype));
  if (value.placement.isPartial()) out += " partial";
  return out;
}

ModuleRow moduleRow(const GraphSource& source, ModuleIndex module) {
  const Module& m = source.tree->at(module);
  ModuleRow row;
  row.label = m.label;
  if (m.same_as >= 0) {
    row.detail = strf("%zu like %s", m.children.size(), source.tree->at(m.same_as).label.c_str());
  } else if (m.parameter_bytes > 0) {
    row.detail = formatBytes(m.parameter_bytes);
  }
  row.tip = m.path + "\n" + strf("%lld nodes", static_cast<long long>(m.all_nodes));
  if (m.parameter_bytes > 0) row.tip += "\n" + formatBytes(m.parameter_bytes) + " of parameters";
  if (static_cast<std::size_t>(module) < source.changes.size() && source.changes[static_cast<std::size_t>(module)].any()) {
    const GraphSource::Changes& c = source.changes[static_cast<std::size_t>(module)];
    std::vector<std::string> parts;
    if (c.added > 0) parts.push_back("+" + std::to_string(c.added));
    if (c.removed > 0) parts.push_back("\u2212" + std::to_string(c.removed));
    if (c.changed > 0) parts.push_back("~" + std::to_string(c.changed));
    row.detail = join(parts, " ");
    row.tip += strf("\n%d added, %d removed, %d changed", c.added, c.removed, c.changed);
    row.changed = true;
  }
  return row;
}

std::shared_ptr<const GraphSource> makeGraphSource(std::shared_ptr<const ir::Graph> graph, std::shared_ptr<const ir::Graph> previous) {
  auto out = std::make_shared<GraphSource>();
  out->tree = std::make_shared<const ModuleTree>(*graph);
  out->graph = std::move(graph);
  out->previous = std::move(previous);
  Maker maker(*out);
  maker.addInputs();
  maker.addNodes();
  maker.addDiff();
  return out;
}

}  // namespace spscope::ui
