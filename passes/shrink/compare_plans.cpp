// SPDX-License-Identifier: Apache-2.0
#include "passes/shrink/compare_plans.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "passes/shrink/layer_blocks.h"

namespace spscope::passes {
namespace {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

template <typename I>
std::size_t at(I i) {
  return static_cast<std::size_t>(i);
}

struct Side {
  const ir::Graph& graph;
  LayerBlocks blocks;
  std::unordered_map<ValueId, const ir::Input*> inputs;
  explicit Side(const ir::Graph& g) : graph(g), blocks(layerBlocks(g)) {
    for (const ir::Input& input : g.inputs) inputs[input.value] = &input;
  }
};

class Comparison {
 public:
  Comparison(const ir::Graph& real, const ir::Graph& twin, const std::map<std::string, std::string>& stands_for) : real_(real), twin_(twin), stands_for_(stands_for) {}

  PlanMatch run() {
    for (const Side* s : {&real_, &twin_})
      for (const NodeId id : s->graph.order) (s == &real_ ? out_.collectives : out_.twin_collectives) += ir::isCollective(s->graph.node(id).op);
    out_.nodes = static_cast<std::int64_t>(real_.graph.order.size());
    out_.twin_nodes = static_cast<std::int64_t>(twin_.graph.order.size());
    std::map<std::string, std::int32_t> of_twin;
    for (std::size_t b = 0; b < twin_.blocks.blocks.size(); ++b) of_twin[twin_.blocks.blocks[b].name] = static_cast<std::int32_t>(b);
    for (std::size_t b = 0; b < real_.blocks.blocks.size(); ++b) {
      const LayerBlock& layer = real_.blocks.blocks[b];
      const auto it = of_twin.find(left(layer.name));
      if (it != of_twin.end()) compareBlock(static_cast<std::int32_t>(b), it->second);
      else tell({layer.nodes.empty() ? "" : name(real_, layer.nodes[0]), "", "", "the twin has nothing for " + layer.name});
    }
    compareResults();
    return std::move(out_);
  }

 private:
  std::string left(const std::string& layer) const {
    const auto it = stands_for_.find(layer);
    return it == stands_for_.end() ? layer : it->second;
  }
  static std::string name(const Side& s, NodeId id) { return "%" + s.graph.node(id).name; }
  void tell(PlanDifference d) {
    if (out_.differences.size() < PlanMatch::kShown) out_.differences.push_back(std::move(d));
  }

  void compareBlock(std::int32_t real, std::int32_t twin) {
    const LayerBlock &a = real_.blocks.blocks[at(real)], &b = twin_.blocks.blocks[at(twin)];
    const std::size_t n = std::min(a.nodes.size(), b.nodes.size());
    for (std::size_t i = 0; i < n; ++i) {
      const Node &x = real_.graph.node(a.nodes[i]), &y = twin_.graph.node(b.nodes[i]);
      ++out_.compared;
      const std::string what = difference(x, y, real, twin);
      if (what.empty()) continue;
      tell({"%" + x.name, "%" + y.name, x.location ? x.location->source : "", what});
      if (x.op != y.op) return;  // what follows is out of step
    }
    if (a.nodes.size() == b.nodes.size()) return;
    const bool more = a.nodes.size() > n;
    const Side& s = more ? real_ : twin_;
    const Node& extra = s.graph.node(more ? a.nodes[n] : b.nodes[n]);
    tell({more ? "%" + extra.name : "", more ? "" : "%" + extra.name, extra.location ? extra.location->source : "",
          strf("%s has %zu nodes, the twin's has %zu; %s is the first of the others", a.name.empty() ? "what stands outside of layers" : a.name.c_str(), a.nodes.size(), b.nodes.size(),
               extra.op.str().c_str())});
  }

  void compareResults() {
    const auto named = [](const Side& s, const ir::Output& o) { return o.input == kNone ? std::string() : s.graph.inputs[at(o.input)].name; };
    std::map<std::string, const ir::Output*> of_twin;
    for (const ir::Output& o : twin_.graph.outputs) of_twin[strf("%d ", static_cast<int>(o.kind)) + named(twin_, o)] = &o;
    for (const ir::Output& o : real_.graph.outputs) {
      std::string of = named(real_, o);
      const std::string layer(ir::layerOf(of));
      if (!layer.empty()) of = left(layer) + of.substr(layer.size());
      const auto it = of_twin.find(strf("%d ", static_cast<int>(o.kind)) + of);
      if (it == of_twin.end() || (it->second->value == kNone) != (o.value == kNone)) tell({"", "", "", "the twin has no result " + (of.empty() ? "like the loss" : "for " + of)});
    }
  }

  /// Where an operand comes from, in words that are the same for equal layers. `relative`: one from a layer beside this one by that;
  /// else by the layer that is left for it. What a layer hands on is the same by the first, what all read of one layer by the second.
  std::string origin(const Side& s, ValueId v, std::int32_t block, bool relative) const {
    if (v == kNone) return "none";
    const ir::Value& value = s.graph.value(v);
    const LayerBlock& own = s.blocks.blocks[at(block)];
    if (value.producer == kNone) {
      const auto it = s.inputs.find(v);
      const std::string name = it == s.inputs.end() ? value.name : it->second->name;
      const std::string layer(ir::layerOf(name));
      if (layer.empty()) return name;
      return (layer == own.name ? "own" : left(layer)) + name.substr(layer.size());
    }
    const std::int32_t from = s.blocks.block_of[at(value.producer)];
    if (from == kNone) return "nothing";
    const std::string place = strf(" %d.%d", s.blocks.place_of[at(value.producer)], value.output_index);
    const std::string op = s.graph.node(value.producer).op.str();
    if (from == block) return "here" + place;
    if (from == 0) return "outside" + place;
    const auto step = s.blocks.step(from, block);
    if (step && relative) return (*step > 0 ? "layer before: " : "layer after: ") + op + strf(".%d", value.output_index);
    return left(s.blocks.blocks[at(from)].name) + place;
  }

  std::string difference(const Node& x, const Node& y, std::int32_t real, std::int32_t twin) {
    if (x.op != y.op) return x.op.str() + ", in the twin " + y.op.str();
    if (x.phase != y.phase) return "another phase";
    if (x.args.size() != y.args.size() || x.outputs.size() != y.outputs.size()) return "another number of arguments or results";
    sizes_.clear();
    for (std::size_t i = 0; i < x.args.size(); ++i) {
      if (x.args[i].name != y.args[i].name) return "argument " + x.args[i].name.str() + ", in the twin " + y.args[i].name.str();
      for (const auto& [v, w] : uses(x.args[i].value, y.args[i].value)) {
        if (origin(real_, v, real, true) != origin(twin_, w, twin, true) && origin(real_, v, real, false) != origin(twin_, w, twin, false))
          return "operand " + x.args[i].name.str() + " comes from " + origin(real_, v, real, true) + ", in the twin from " + origin(twin_, w, twin, true);
        if (v != kNone && w != kNone) addSizes(real_.graph.value(v), twin_.graph.value(w));
      }
    }
    for (std::size_t i = 0; i < x.outputs.size(); ++i) {
      if ((x.outputs[i] == kNone) != (y.outputs[i] == kNone)) return "another result is left out";
      if (x.outputs[i] == kNone) continue;
      const ir::Value &v = real_.graph.value(x.outputs[i]), &w = twin_.graph.value(y.outputs[i]);
      if (const std::string what = valueDifference(v, w); !what.empty()) return what;
      addSizes(v, w);
    }
    for (std::size_t i = 0; i < x.args.size(); ++i)
      if (!argumentAgrees(x.args[i], y.args[i]))
        return "argument " + x.args[i].name.str() + " is " + ir::attributeText(real_.graph, x.args[i].value) + ", in the twin " + ir::attributeText(twin_.graph, y.args[i].value);
    return {};
  }

  static std::vector<std::pair<ValueId, ValueId>> uses(const ir::Attribute& a, const ir::Attribute& b) {
    std::vector<std::pair<ValueId, ValueId>> out;
    const auto *u = std::get_if<ir::Use>(&a), *v = std::get_if<ir::Use>(&b);
    if (u && v) out.emplace_back(u->value, v->value);
    const auto *l = std::get_if<ir::UseList>(&a), *m = std::get_if<ir::UseList>(&b);
    if (l && m)
      for (std::size_t i = 0; i < std::min(l->size(), m->size()); ++i) out.emplace_back((*l)[i].value, (*m)[i].value);
    return out;
  }

  static std::string valueDifference(const ir::Value& v, const ir::Value& w) {
    if (v.dtype != w.dtype) return "another type";
    if (v.shape.size() != w.shape.size() || v.local.size() != w.local.size()) return "another number of dimensions";
    for (std::size_t d = 0; d < v.shape.size(); ++d)
      if ((v.shape[d] == 1) != (w.shape[d] == 1)) return strf("dim %zu is of size %lld, in the twin %lld", d, static_cast<long long>(v.shape[d]), static_cast<long long>(w.shape[d]));
    const ir::Placement &p = v.placement, &q = w.placement;
    if (p.kind != q.kind || p.dim != q.dim || p.factor != q.factor || p.sizes.size() != q.sizes.size()) return "another placement";
    for (std::size_t r = 0; r < p.sizes.size(); ++r)
      if ((p.sizes[r] == p.sizes[0]) != (q.sizes[r] == q.sizes[0]) || (p.sizes[r] == 0) != (q.sizes[r] == 0)) return "uneven blocks where the other's are even";
    if (v.factors.size() != w.factors.size()) return "other factors";
    for (std::size_t d = 0; d < v.factors.size(); ++d) {
      if (v.factors[d].size() != w.factors[d].size()) return "other factors";
      for (std::size_t f = 0; f < v.factors[d].size(); ++f)
        if (v.factors[d][f].tag != w.factors[d][f].tag) return "other factors";
    }
    if ((v.storage == kNone) != (w.storage == kNone)) return "a view where the other is none";
    return {};
  }

  void addSizes(const ir::Value& v, const ir::Value& w) {
    const auto add = [&](std::int64_t a, std::int64_t b) { sizes_.emplace_back(static_cast<double>(a), static_cast<double>(b)); };
    for (std::size_t d = 0; d < std::min(v.shape.size(), w.shape.size()); ++d) add(v.shape[d], w.shape[d]);
    for (std::size_t d = 0; d < std::min(v.local.size(), w.local.size()); ++d) add(v.local[d], w.local[d]);
    add(ir::numel(v.local), ir::numel(w.local));
    add(ir::numel(v.shape), ir::numel(w.shape));
  }

  bool follows(double a, double b) const {
    if (a == b || (std::isnan(a) && std::isnan(b))) return true;
    const auto same = [](double p, double q) { return std::abs(p - q) <= 1e-9 * std::max(std::abs(p), std::abs(q)); };
    const auto ratio = [&](double x, double y) { return same(a * y, b * x) || same(a * x, b * y) || same(a * a * y, b * b * x) || same(a * a * x, b * b * y); };
    for (const auto& [x, y] : sizes_) {
      if (std::abs(a - x) <= 4 && a - x == b - y) return true;
      if (ratio(x, y)) return true;
    }
    for (const auto& [x, y] : sizes_)  // what a reduction divides by: entries before over entries after
      for (const auto& [p, q] : sizes_)
        if (p != 0 && q != 0 && ratio(x / p, y / q)) return true;
    return false;
  }

  bool argumentAgrees(const ir::Argument& a, const ir::Argument& b) const {
    if (a.value.index() != b.value.index()) return false;
    if (std::holds_alternative<ir::Use>(a.value)) return true;  // compared as operands
    if (const auto* l = std::get_if<ir::UseList>(&a.value)) return l->size() == std::get<ir::UseList>(b.value).size();
    if (const auto* i = std::get_if<std::int64_t>(&a.value)) {
      const std::int64_t j = std::get<std::int64_t>(b.value);
      if (a.name == Symbol("rows") && !sizes_.empty())  // tiles of the loss: one, or more than one
        return (sizes_.front().first > static_cast<double>(*i)) == (sizes_.front().second > static_cast<double>(j));
      return follows(static_cast<double>(*i), static_cast<double>(j));
    }
    if (const auto* d = std::get_if<double>(&a.value)) return follows(*d, std::get<double>(b.value));
    if (const auto* l = std::get_if<std::vector<std::int64_t>>(&a.value)) {
      const auto& m = std::get<std::vector<std::int64_t>>(b.value);
      return l->size() == m.size() && std::equal(l->begin(), l->end(), m.begin(), [&](std::int64_t p, std::int64_t q) { return follows(static_cast<double>(p), static_cast<double>(q)); });
    }
    return a.value == b.value;
  }

  Side real_, twin_;
  const std::map<std::string, std::string>& stands_for_;
  std::vector<std::pair<double, double>> sizes_;  ///< of the node's values: real, twin
  PlanMatch out_;
};

}  // namespace

PlanMatch comparePlans(const ir::Graph& real, const ir::Graph& twin, const std::map<std::string, std::string>& stands_for) {
  return Comparison(real, twin, stands_for).run();
}

SavedPlaces savedPlaces(const ir::Graph& chosen) {
  SavedPlaces out;
  for (const LayerBlock& block : layerBlocks(chosen).blocks) {
    std::vector<ir::Keep>& keeps = out.of_layer[block.name];
    for (const NodeId id : block.nodes)
      for (const ValueId v : chosen.node(id).outputs) keeps.push_back(v == kNone ? ir::Keep::kUnknown : chosen.value(v).keep);
  }
  return out;
}

bool markPlaces(ir::Graph& graph, const SavedPlaces& places) {
  for (const LayerBlock& block : layerBlocks(graph).blocks) {
    const auto it = places.of_layer.find(block.name);
    if (it == places.of_layer.end()) return false;
    std::size_t next = 0;
    for (const NodeId id : block.nodes)
      for (const ValueId v : graph.node(id).outputs) {
        if (next == it->second.size()) return false;
        if (v != kNone && it->second[next] == ir::Keep::kRecompute) graph.value(v).keep = ir::Keep::kRecompute;
        ++next;
      }
    if (next != it->second.size()) return false;
  }
  return true;
}

}  // namespace spscope::passes
