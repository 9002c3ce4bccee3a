// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph/module_tree.h"

#include <algorithm>
#include <functional>

#include "core/base/strings.h"

namespace spscope::ui {
namespace {

constexpr std::size_t kFewestFolded = 3;

const char* branchOf(const ir::Graph& graph, const ir::Node& node) {
  if (graph.form != ir::Form::kJoint) return nullptr;
  return node.phase == ir::Phase::kForward ? "forward" : "backward";
}

bool isNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull; }

}  // namespace

ModuleTree::ModuleTree(const ir::Graph& graph) : of_node_(graph.nodeCount(), 0) {
  modules_.emplace_back();
  modules_.front().label = graph.name.empty() ? "model" : graph.name;
  by_path_.emplace("", 0);
  for (const ir::NodeId id : graph.order) {
    const ModuleIndex module = moduleFor(graph, graph.node(id));
    of_node_[static_cast<std::size_t>(id)] = module;
    modules_[static_cast<std::size_t>(module)].nodes.push_back(id);
  }
  hashStructures(graph);
  foldEqualLayers();
  // A parameter counts where it is used first; children lie behind their parents, folds excepted, so sums go by recursion.
  std::vector<bool> counted(graph.valueCount(), false);
  std::unordered_map<ir::ValueId, std::int64_t> bytes;
  for (const ir::Input& input : graph.inputs)
    if (input.kind == ir::InputKind::kParameter) bytes.emplace(input.value, graph.value(input.value).localBytes());
  for (const ir::NodeId id : graph.order)
    ir::forEachUse(graph.node(id), [&](const ir::Use& use) {
      if (counted[static_cast<std::size_t>(use.value)]) return;
      counted[static_cast<std::size_t>(use.value)] = true;
      if (const auto it = bytes.find(use.value); it != bytes.end()) modules_[static_cast<std::size_t>(of(id))].parameter_bytes += it->second;
    });
  // Depth is that of the user's modules: small.
  const std::function<void(Module&)> sum = [&](Module& m) {
    m.all_nodes = static_cast<std::int64_t>(m.nodes.size());
    for (const ModuleIndex c : m.children) {
      Module& at = modules_[static_cast<std::size_t>(c)];
      sum(at);
      m.all_nodes += at.all_nodes;
      m.parameter_bytes += at.parameter_bytes;
    }
  };
  sum(modules_.front());
}

ModuleIndex ModuleTree::of(ir::NodeId node) const {
  return node >= 0 && static_cast<std::size_t>(node) < of_node_.size() ? of_node_[static_cast<std::size_t>(node)] : 0;
}

ModuleIndex ModuleTree::find(const std::string& path) const {
  const auto it = by_path_.find(path);
  return it == by_path_.end() ? -1 : it->second;
}

std::vector<ModuleIndex> ModuleTree::chain(ModuleIndex module) const {
  std::vector<ModuleIndex> out;
  for (; module > 0; module = at(module).parent) out.push_back(module);
  std::reverse(out.begin(), out.end());
  return out;
}

ModuleIndex ModuleTree::child(ModuleIndex parent, const std::string& label, std::string path, std::string name) {
  const auto [it, fresh] = by_path_.try_emplace(path, static_cast<ModuleIndex>(modules_.size()));
  if (fresh) {
    Module m;
    m.path = std::move(path);
    m.label = label;
    m.name = std::move(name);
    m.parent = parent;
    modules_.push_back(std::move(m));
    modules_[static_cast<std::size_t>(parent)].children.push_back(it->second);
  }
  return it->second;
}

ModuleIndex ModuleTree::moduleFor(const ir::Graph& graph, const ir::Node& node) {
  ModuleIndex at_module = 0;
  std::string prefix;
  if (const char* branch = branchOf(graph, node)) {
    at_module = child(0, branch, branch, "");
    prefix = std::string(branch) + "/";
  }
  if (!node.location || node.location->module_path.empty()) return at_module;
  std::string name;
  for (const std::string& part : split(node.location->module_path, '.')) {
    name += (name.empty() ? "" : ".") + part;
    at_module = child(at_module, part, prefix + name, name);
  }
  return at_module;
}

/// What a module computes, without its name: ops, shapes, and operands by where they come from relative to it.
void ModuleTree::hashStructures(const ir::Graph& graph) {
  // Number of a node within its module: a node's operands from the same module are told by distance.
  std::vector<std::int32_t> number(graph.nodeCount(), 0);
  for (const Module& m : modules_)
    for (std::size_t i = 0; i < m.nodes.size(); ++i) number[static_cast<std::size_t>(m.nodes[i])] = static_cast<std::int32_t>(i);
  // Children come after their parents in modules_: backwards, a module's children are done before it.
  for (std::size_t i = modules_.size(); i-- > 0;) {
    Module& m = modules_[i];
    std::uint64_t h = 1;
    for (const ir::NodeId id : m.nodes) {
      const ir::Node& node = graph.node(id);
      h = mix(h, std::hash<std::string>()(node.op.str()));
      for (const ir::ValueId out : node.outputs) {
        if (out == ir::kNone) continue;
        h = mix(h, static_cast<std::uint64_t>(graph.value(out).dtype));
        for (const std::int64_t d : graph.value(out).local) h = mix(h, static_cast<std::uint64_t>(d));
      }
      ir::forEachUse(node, [&](const ir::Use& use) {
        const ir::NodeId from = graph.value(use.value).producer;
        const bool inside = from != ir::kNone && of_node_[static_cast<std::size_t>(from)] == static_cast<ModuleIndex>(i);
        h = mix(h, inside ? static_cast<std::uint64_t>(number[static_cast<std::size_t>(id)] - number[static_cast<std::size_t>(from)]) : ~0ull);
      });
    }
    for (const ModuleIndex c : m.children) h = mix(mix(h, std::hash<std::string>()(at(c).label)), at(c).structure);
    m.structure = h;
  }
}

/// Of a run of equal numbered siblings the first stays, the others go into one fold.
void ModuleTree::foldEqualLayers() {
  const std::size_t before = modules_.size();
  for (std::size_t p = 0; p < before; ++p) {
    const std::vector<ModuleIndex> siblings = modules_[p].children;
    std::vector<ModuleIndex> kept;
    for (std::size_t i = 0; i < siblings.size();) {
      kept.push_back(siblings[i]);
      std::size_t end = i + 1;
      while (isNumber(at(siblings[i]).label) && end < siblings.size() && isNumber(at(siblings[end]).label) &&
             at(siblings[end]).structure == at(siblings[i]).structure)
        ++end;
      if (end - i < kFewestFolded) {
        ++i;
        continue;
      }
      const std::string first = at(siblings[i + 1]).label, last = at(siblings[end - 1]).label;
      Module fold;
      const std::string& parent_path = modules_[p].path;
      fold.path = parent_path + (parent_path.empty() ? "" : ".") + "[" + first + "-" + last + "]";
      fold.label = first + " … " + last;
      fold.parent = static_cast<ModuleIndex>(p);
      fold.same_as = siblings[i];
      fold.children.assign(siblings.begin() + static_cast<std::ptrdiff_t>(i) + 1, siblings.begin() + static_cast<std::ptrdiff_t>(end));
      const auto index = static_cast<ModuleIndex>(modules_.size());
      for (const ModuleIndex c : fold.children) modules_[static_cast<std::size_t>(c)].parent = index;
      by_path_.emplace(fold.path, index);
      kept.push_back(index);
      modules_.push_back(std::move(fold));
      i = end;
    }
    modules_[p].children = std::move(kept);
  }
}

}  // namespace spscope::ui
