// SPDX-License-Identifier: Apache-2.0
// What drawing a graph costs without painting it: the layered layout alone, the first scene of a collapsed graph from the
// graph on, and one layer of many opened. Prints one JSON object a line: CPU nanoseconds of each repeat.
//
//   graph_drawing REPEATS [STAGE...]     STAGE: of `spscope compile --stages`
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/ir/text.h"
#include "ui/model/graph/graph_scene.h"
#include "tests/bench/programs/clocks.h"

using namespace spscope;

namespace {

template <typename Work>
std::int64_t cpuOf(Work&& work) {
  const std::int64_t begin = cpuNs();
  work();
  return cpuNs() - begin;
}

void say(const std::string& what, const std::string& of, std::size_t nodes, std::size_t boxes, const std::vector<std::int64_t>& ns) {
  std::printf("{\"what\": \"%s\", \"of\": \"%s\", \"nodes\": %zu, \"boxes\": %zu, \"cpu_ns\": [%s]}\n", what.c_str(), of.c_str(), nodes, boxes, join(ns, ", ").c_str());
  std::fflush(stdout);
}

/// Blocks of q, k, v that meet again, on a residual stream, each block with a few ops in a row.
void layoutAlone(int boxes, int repeats) {
  std::mt19937 random(1);
  std::vector<ui::Size> sizes;
  std::vector<ui::LayoutEdge> edges;
  const auto box = [&](std::initializer_list<std::int32_t> from) {
    const auto at = static_cast<std::int32_t>(sizes.size());
    sizes.push_back({60 + static_cast<float>(random() % 120), 34});
    for (const std::int32_t f : from) edges.push_back({f, at});
    return at;
  };
  const std::int32_t cos = box({});
  std::int32_t x = box({});
  while (static_cast<int>(sizes.size()) < boxes) {
    const std::int32_t norm = box({x}), q = box({box({norm}), cos}), k = box({box({norm}), cos}), v = box({norm});
    const std::int32_t o = box({box({box({q, k}), v})}), mid = box({x, o}), again = box({mid});
    x = box({mid, box({box({box({again}), box({again})})})});
  }
  std::vector<std::int64_t> ns;
  for (int i = 0; i < repeats; ++i) ns.push_back(cpuOf([&] { (void)ui::layered(sizes, edges); }));
  say("layout", "synthetic", sizes.size(), sizes.size(), ns);
}

/// `layers` equal layers of `blocks` modules with ten ops each, on a residual stream.
ir::Graph transformer(int layers, int blocks) {
  ir::Graph g;
  g.name = "synthetic";
  const auto input = [&](const std::string& name, ir::InputKind kind) {
    const ir::ValueId v = g.addValue(name, ir::DType::kF32, {2, 4});
    ir::Input in;
    in.value = v, in.kind = kind, in.name = name;
    g.inputs.push_back(in);
    return v;
  };
  const auto op = [&](const char* name, const std::vector<ir::ValueId>& operands, const std::string& module) {
    const ir::NodeId n = g.addNode(name, "n");
    for (const ir::ValueId o : operands) g.node(n).args.push_back({Symbol("a"), ir::Use{o}});
    auto location = std::make_shared<ir::Location>();
    location->module_path = module;
    g.node(n).location = location;
    g.order.push_back(n);
    return g.addOutput(n, ir::DType::kF32, {2, 4});
  };
  ir::ValueId x = input("hidden", ir::InputKind::kUser);
  const ir::ValueId cos = op("aten.cos.default", {x}, "rope");
  for (int l = 0; l < layers; ++l) {
    for (int b = 0; b < blocks; ++b) {
      const std::string at = strf("layers.%d.block%d", l, b);
      const ir::ValueId w = input(at + ".weight", ir::InputKind::kParameter);
      const ir::ValueId norm = op("aten.rms_norm.default", {x, w}, at);
      const ir::ValueId q = op("aten.mul.Tensor", {op("aten.linear.default", {norm, w}, at), cos}, at), k = op("aten.mul.Tensor", {op("aten.linear.default", {norm, w}, at), cos}, at);
      const ir::ValueId v = op("aten.linear.default", {norm, w}, at);
      const ir::ValueId a = op("aten.scaled_dot_product_attention.default", {q, k, v}, at);
      x = op("aten.add.Tensor", {x, op("aten.linear.default", {a, w}, at)}, at);
      x = op("aten.relu.default", {x}, at);
    }
  }
  op("aten.sum.default", {x}, "");
  return g;
}

void sceneOf(const std::string& name, std::shared_ptr<const ir::Graph> graph, int repeats) {
  std::vector<std::int64_t> first, opened;
  std::size_t boxes = 0, more = 0;
  std::shared_ptr<const ui::GraphSource> source;
  for (int i = 0; i < repeats; ++i) {
    first.push_back(cpuOf([&] {
      source = ui::makeGraphSource(graph);
      ui::GraphScene scene(source);
      boxes = scene.scene().boxes.size();
    }));
  }
  say("first scene", name, graph->order.size(), boxes, first);
  // The modules that have most children stand for the layers, folds of equal ones opened before.
  const ui::ModuleTree& tree = *source->tree;
  ui::ModuleIndex layers = 0;
  std::size_t most = 0;
  const auto members = [&](ui::ModuleIndex m) {
    std::vector<ui::ModuleIndex> out;
    for (const ui::ModuleIndex child : tree.at(m).children) {
      if (tree.at(child).same_as < 0) out.push_back(child);
      else out.insert(out.end(), tree.at(child).children.begin(), tree.at(child).children.end());
    }
    return out;
  };
  for (ui::ModuleIndex m = 0; m < static_cast<ui::ModuleIndex>(tree.modules().size()); ++m)
    if (tree.at(m).same_as < 0 && members(m).size() > most && tree.at(m).path.ends_with("layers")) most = members(m).size(), layers = m;
  if (most == 0) return;
  ui::GraphScene scene(source);
  for (ui::ModuleIndex m = layers; m > 0; m = tree.at(m).parent) scene.setOpen(m, true);
  for (const ui::ModuleIndex child : tree.at(layers).children)
    if (tree.at(child).same_as >= 0) scene.setOpen(child, true);
  (void)scene.scene();
  const std::vector<ui::ModuleIndex> all = members(layers);
  for (int i = 0; i < repeats; ++i) {
    const ui::ModuleIndex layer = all[static_cast<std::size_t>(i * 7 + 3) % all.size()];
    opened.push_back(cpuOf([&] {
      scene.setOpen(layer, true);
      scene.openAll(layer, 9);
      more = scene.scene().boxes.size();
    }));
    scene.setOpen(layer, false);
    (void)scene.scene();
  }
  say(strf("one of %zu layers opened", all.size()), name, graph->order.size(), more, opened);
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 10;
  layoutAlone(5000, repeats * 4);
  sceneOf("synthetic", std::make_shared<const ir::Graph>(transformer(80, 125)), repeats);
  for (int i = 2; i < argc; ++i) {
    std::ifstream in(argv[i]);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    auto graph = ir::parseGraph(text, argv[i]);
    if (!graph) return std::fprintf(stderr, "graph_drawing: %s\n", graph.error().format().c_str()), 1;
    sceneOf(std::string(argv[i]).substr(std::string(argv[i]).find_last_of('/') + 1), std::make_shared<const ir::Graph>(std::move(*graph)), repeats);
  }
  return 0;
}
