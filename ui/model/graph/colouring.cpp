// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph/colouring.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/strings.h"
#include "ui/model/graph/search.h"

namespace spscope::ui {
namespace {

const ir::Graph& graphOf(const GraphSource& source, const SourceNode& n) {
  return n.change == Change::kRemoved ? *source.previous : *source.graph;
}

/// The value that a node stands for: its first output, or the input.
const ir::Value* valueOf(const GraphSource& source, const SourceNode& n) {
  const ir::Graph& g = graphOf(source, n);
  if (n.node == ir::kNone) return &g.value(n.input);
  for (const ir::ValueId v : g.node(n.node).outputs)
    if (v != ir::kNone) return &g.value(v);
  return nullptr;
}

/// 0 to 9: how hot, in a digit.
BoxFill heatFill(double heat) { return {Tone::kModule, -1, static_cast<float>(heat), std::to_string(static_cast<int>(std::lround(heat * 9)))}; }

BoxFill placementFill(const SourceNode& n, const ir::Value* v) {
  if (n.collective) return {Tone::kCollective, -1, -1, "C"};
  if (v == nullptr || v->placement.isReplicated()) return {Tone::kReplicated, -1, -1, "R"};
  if (v->placement.isPartial()) return {Tone::kPartial, -1, -1, "P"};
  const auto d = static_cast<std::size_t>(v->placement.dim), f = static_cast<std::size_t>(v->placement.factor);
  const bool known = d < v->factors.size() && f < v->factors[d].size();
  if (known && v->factors[d][f].tag != ir::Tag::kSequence) return {Tone::kHeads, -1, -1, "H"};
  return {Tone::kSequence, -1, -1, "S"};
}

BoxFill recomputeFill(const ir::Graph& g, const SourceNode& n, const ir::Value* v) {
  if (n.node != ir::kNone && g.node(n.node).phase == ir::Phase::kRecompute) return {Tone::kWaiting, -1, -1, "2"};
  switch (v == nullptr ? ir::Keep::kUnknown : v->keep) {
    case ir::Keep::kSaved: return {Tone::kSaved, -1, -1, "K"};
    case ir::Keep::kRecompute: return {Tone::kHeads, -1, -1, "A"};
    case ir::Keep::kFreed: return {Tone::kReplicated, -1, -1, "F"};
    case ir::Keep::kUnknown: break;
  }
  return {Tone::kModule, -1, -1, ""};
}

const std::map<std::string, const char*>& meanings(ColourBy by) {
  static const std::map<std::string, const char*> placement = {{"S", "sharded on sequence"}, {"H", "sharded on heads"}, {"R", "replicated"}, {"P", "partial sums"}, {"C", "collective"}};
  static const std::map<std::string, const char*> recompute = {{"K", "kept for the backward"}, {"A", "made again"}, {"F", "freed after use"}, {"2", "second computation"}};
  return by == ColourBy::kPlacement ? placement : recompute;
}

}  // namespace

const std::vector<std::string>& colourings() {
  static const std::vector<std::string> names = {"placement", "dtype", "module", "memory", "time", "recompute"};
  return names;
}

std::optional<ColourBy> colouringNamed(const std::string& name) {
  const auto& names = colourings();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return {};
  return static_cast<ColourBy>(it - names.begin());
}

Colouring::Colouring(std::shared_ptr<const GraphSource> source, ColourBy by, const std::unordered_map<ir::NodeId, std::int64_t>& node_ns)
    : source_(std::move(source)), by_(by) {
  if (by_ != ColourBy::kMemory && by_ != ColourBy::kTime) return;
  const ModuleTree& tree = *source_->tree;
  std::vector<double> amount(source_->nodes.size(), 0.0), of_module(tree.modules().size(), 0.0);
  for (std::size_t i = 0; i < source_->nodes.size(); ++i) {
    const SourceNode& n = source_->nodes[i];
    if (by_ == ColourBy::kTime) {
      if (const auto it = node_ns.find(n.node); it != node_ns.end()) amount[i] = static_cast<double>(it->second);
    } else if (n.node != ir::kNone) {
      const ir::Graph& g = graphOf(*source_, n);
      for (const ir::ValueId v : g.node(n.node).outputs)
        if (v != ir::kNone && g.value(v).storage == ir::kNone) amount[i] += static_cast<double>(g.value(v).localBytes());
    }
    of_module[static_cast<std::size_t>(n.module)] += amount[i];
  }
  // Children come after their parents.
  for (std::size_t m = of_module.size(); m-- > 1;)
    if (const ModuleIndex parent = tree.at(static_cast<ModuleIndex>(m)).parent; parent >= 0) of_module[static_cast<std::size_t>(parent)] += of_module[m];
  const auto scaled = [](std::vector<double> values, std::size_t from) {
    double most = 0;
    for (std::size_t i = from; i < values.size(); ++i) most = std::max(most, values[i]);
    // Square root: one huge value would make all others look alike.
    for (double& v : values) v = most > 0 ? std::sqrt(std::min(1.0, v / most)) : 0.0;
    return std::pair{values, most};
  };
  double most = 0;
  std::tie(metric_, most) = scaled(std::move(amount), 0);
  module_metric_ = scaled(std::move(of_module), 1).first;
  metric_high_ = by_ == ColourBy::kMemory ? formatBytes(static_cast<std::int64_t>(most)) : formatNs(static_cast<std::int64_t>(most));
  if (by_ == ColourBy::kTime && node_ns.empty()) metric_high_.clear();
}

BoxFill Colouring::ofNode(std::int32_t node) const {
  const SourceNode& n = source_->nodes[static_cast<std::size_t>(node)];
  const ir::Value* v = valueOf(*source_, n);
  switch (by_) {
    case ColourBy::kPlacement: return placementFill(n, v);
    case ColourBy::kDType: return {Tone::kModule, v == nullptr ? 11 : static_cast<int>(v->dtype) % 12, -1, v == nullptr ? "" : std::string(ir::shortName(v->dtype))};
    case ColourBy::kModule: return {Tone::kModule, static_cast<int>(n.module % 12), -1, ""};
    case ColourBy::kRecompute: return recomputeFill(graphOf(*source_, n), n, v);
    case ColourBy::kMemory:
    case ColourBy::kTime: return metric_high_.empty() ? BoxFill{} : heatFill(metric_[static_cast<std::size_t>(node)]);
  }
  return {};
}

BoxFill Colouring::of(const SceneBox& box) const {
  if (box.node >= 0) return ofNode(box.node);
  if (box.kind == SceneBox::Kind::kModule && !module_metric_.empty() && !metric_high_.empty()) return heatFill(module_metric_[static_cast<std::size_t>(box.module)]);
  if (box.kind == SceneBox::Kind::kModule && by_ == ColourBy::kModule) return {Tone::kModule, static_cast<int>(box.module % 12), -1, ""};
  return {Tone::kModule, -1, -1, ""};
}

std::vector<LegendEntry> Colouring::legend() const {
  std::vector<LegendEntry> out;
  if (by_ == ColourBy::kModule) return out;
  if (!metric_.empty()) {
    if (metric_high_.empty()) return {{{Tone::kReplicated, -1, -1, ""}, "no times: run with a profile, or open a trace"}};
    return {{heatFill(0), "0"}, {heatFill(0.5), "a quarter"}, {heatFill(1), metric_high_ + " a node"}};
  }
  std::map<std::string, BoxFill> seen;
  for (std::size_t i = 0; i < source_->nodes.size(); ++i) {
    BoxFill fill = ofNode(static_cast<std::int32_t>(i));
    if (!fill.letter.empty()) seen.try_emplace(fill.letter, fill);
  }
  for (const auto& [letter, fill] : seen) {
    if (by_ == ColourBy::kDType) {
      out.push_back({fill, letter});
    } else if (const auto it = meanings(by_).find(letter); it != meanings(by_).end()) {
      out.push_back({fill, it->second});
    }
  }
  if (out.empty() && by_ == ColourBy::kRecompute) out.push_back({{Tone::kModule, -1, -1, ""}, "not decided at this stage"});
  return out;
}

std::string boxTip(const GraphSource& source, const SceneBox& box) {
  std::vector<std::string> lines;
  if (box.node >= 0) {
    const SourceNode& n = source.nodes[static_cast<std::size_t>(box.node)];
    const ir::Graph& g = graphOf(source, n);
    if (n.node != ir::kNone) {
      const ir::Node& node = g.node(n.node);
      lines.push_back(node.name + "  " + std::string(node.op.str()));
      for (const ir::ValueId v : node.outputs)
        if (v != ir::kNone) lines.push_back(shapeText(g, g.value(v)) + "  " + placementText(g.value(v)) + "  " + formatBytes(g.value(v).localBytes()));
      if (node.location && !node.location->module_path.empty()) lines.push_back(node.location->module_path);
      if (node.location && !node.location->source.empty()) lines.push_back(node.location->source);
    } else {
      lines.push_back("input " + n.title);
      lines.push_back(n.subtitle + "  " + placementText(g.value(n.input)));
    }
    if (n.change == Change::kAdded) lines.push_back("added by this stage");
    if (n.change == Change::kRemoved) lines.push_back("removed by this stage");
    for (const std::string& w : n.what) lines.push_back("~ " + w);
  } else {
    const Module& m = source.tree->at(box.module);
    lines.push_back(m.path.empty() ? "model" : m.path);
    lines.push_back(strf("%lld nodes", static_cast<long long>(m.all_nodes)));
    if (m.parameter_bytes > 0) lines.push_back(formatBytes(m.parameter_bytes) + " of parameters");
    if (box.collectives > 0) lines.push_back(strf("%d collectives", box.collectives));
    if (box.change != Change::kNone) lines.push_back(strf("%d added, %d removed, %d changed", box.added, box.removed, box.changed));
    lines.push_back(box.kind == SceneBox::Kind::kModule ? "double click or Enter opens it" : "double click on its title closes it");
  }
  return join(lines, "\n");
}

}  // namespace spscope::ui
