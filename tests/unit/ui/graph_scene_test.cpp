// SPDX-License-Identifier: Apache-2.0
// Modules, folds, opening and closing, comparison of stages: on a small transformer built by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/synthetic_graph.h"
#include "ui/model/graph/graph_scene.h"

namespace spscope::ui {
namespace {

using ir::Graph;
using ir::NodeId;
using ir::ValueId;

/// ids -> embed -> layers.N.{attn.{q,k,v,sdpa,o}, mlp} -> loss; rope feeds every layer.
class Transformer {
 public:
  Graph graph;
  std::vector<NodeId> sdpa;
  explicit Transformer(int layers) {
    graph.name = "tiny";
    const ValueId ids = input("input_ids", ir::InputKind::kUser);
    const ValueId cos = op("aten.cos.default", {ids}, "rope");
    ValueId x = op("aten.embedding.default", {input("embed.weight", ir::InputKind::kParameter), ids}, "embed");
    for (int i = 0; i < layers; ++i) {
      const std::string l = "layers." + std::to_string(i);
      const ValueId w = input(l + ".weight", ir::InputKind::kParameter);
      const ValueId q = op("aten.linear.default", {x, w}, l + ".attn.q");
      const ValueId r = op("aten.mul.Tensor", {q, cos}, l + ".attn");
      const ValueId a = op("aten.scaled_dot_product_attention.default", {r, q, q}, l + ".attn");
      sdpa.push_back(graph.value(a).producer);
      const ValueId y = op("aten.add.Tensor", {x, a}, l);
      x = op("aten.relu.default", {y}, l + ".mlp");
    }
    op("aten.sum.default", {x}, "");
  }
  ValueId input(const std::string& name, ir::InputKind kind) {
    const ValueId v = graph.addValue(name, ir::DType::kF32, {2, 4});
    ir::Input in;
    in.value = v, in.kind = kind, in.name = name;
    graph.inputs.push_back(in);
    return v;
  }
  ValueId op(const char* name, std::vector<ValueId> operands, const std::string& module) {
    const NodeId n = graph.addNode(name, "n");
    for (std::size_t i = 0; i < operands.size(); ++i) graph.node(n).args.push_back({Symbol("a" + std::to_string(i)), ir::Use{operands[i]}});
    auto location = std::make_shared<ir::Location>();
    location->module_path = module;
    graph.node(n).location = location;
    graph.order.push_back(n);
    return graph.addOutput(n, ir::DType::kF32, {2, 4});
  }
};

std::set<std::string> titles(const GraphDrawing& scene) {
  std::set<std::string> out;
  for (const SceneBox& b : scene.boxes) out.insert(b.title);
  return out;
}
std::shared_ptr<const Graph> share(Graph g) { return std::make_shared<const Graph>(std::move(g)); }

TEST(ModuleTree, GV_07_ModulesAreATreeWithEqualLayersFoldedBehindTheFirst) {
  const Transformer t(6);
  const ModuleTree tree(t.graph);
  const ModuleIndex layers = tree.find("layers");
  ASSERT_GT(layers, 0);
  ASSERT_EQ(tree.at(layers).children.size(), 2u);
  const Module& fold = tree.at(tree.at(layers).children[1]);
  EXPECT_EQ(fold.label, "1 … 5");
  EXPECT_EQ(fold.children.size(), 5u);
  EXPECT_EQ(tree.at(fold.same_as).label, "0");
  EXPECT_EQ(tree.at(0).all_nodes, static_cast<std::int64_t>(t.graph.order.size()));
  EXPECT_EQ(tree.at(layers).all_nodes, 30);
  EXPECT_EQ(tree.at(layers).parameter_bytes, 6 * 32);
  EXPECT_EQ(tree.at(tree.of(t.sdpa[3])).path, "layers.3.attn");
  const auto chain = tree.chain(tree.of(t.sdpa[3]));
  ASSERT_EQ(chain.size(), 4u);
  EXPECT_EQ(tree.at(chain[1]).label, "1 … 5") << "a folded layer lies in its fold";
}

TEST(ModuleTree, LayersThatDifferAreNotFolded) {
  Transformer t(5);
  t.graph.node(t.sdpa[2]).op = "aten.other.default";
  const ModuleTree tree(t.graph);
  EXPECT_EQ(tree.at(tree.find("layers")).children.size(), 5u) << "two equal ones before, two behind";
}

TEST(GraphScene, OpensAndClosesModules) {
  const Transformer t(6);
  GraphScene scene(makeGraphSource(share(t.graph)), 0);
  EXPECT_EQ(titles(scene.scene()), (std::set<std::string>{"input_ids", "rope", "embed", "layers", "sum"}));
  const ModuleTree& tree = *scene.source().tree;
  scene.setOpen(tree.find("layers"), true);
  EXPECT_TRUE(titles(scene.scene()).count("1 … 5"));
  EXPECT_EQ(scene.scene().boxes[static_cast<std::size_t>(scene.boxOf(t.sdpa[4]))].title, "1 … 5");
  scene.reveal(t.sdpa[4]);
  const SceneBox& box = scene.scene().boxes[static_cast<std::size_t>(scene.boxOf(t.sdpa[4]))];
  EXPECT_EQ(box.kind, SceneBox::Kind::kNode);
  EXPECT_EQ(scene.boxAt({box.rect.x + 1, box.rect.y + 1}), scene.boxOf(t.sdpa[4]));
  // What is open lies inside its frame.
  for (const SceneBox& b : scene.scene().boxes)
    if (b.kind == SceneBox::Kind::kFrame && b.module == tree.of(t.sdpa[4])) {
      EXPECT_GE(box.rect.x, b.rect.x);
      EXPECT_LE(box.rect.right(), b.rect.right());
      EXPECT_GE(box.rect.y, b.rect.y);
      EXPECT_LE(box.rect.bottom(), b.rect.bottom());
    }
  scene.closeAll();
  EXPECT_EQ(scene.scene().boxes.size(), 5u);
}

TEST(GraphScene, BoxesDoNotOverlapUnlessTheyNest) {
  const Transformer t(4);
  GraphScene scene(makeGraphSource(share(t.graph)), 9);
  const GraphDrawing& s = scene.scene();
  const auto inside = [](const Rect& a, const Rect& b) { return a.x >= b.x && a.right() <= b.right() && a.y >= b.y && a.bottom() <= b.bottom(); };
  for (std::size_t i = 0; i < s.boxes.size(); ++i)
    for (std::size_t j = i + 1; j < s.boxes.size(); ++j) {
      const Rect &a = s.boxes[i].rect, &b = s.boxes[j].rect;
      const bool apart = a.right() <= b.x || b.right() <= a.x || a.bottom() <= b.y || b.bottom() <= a.y;
      EXPECT_TRUE(apart || inside(b, a)) << s.boxes[i].title << " and " << s.boxes[j].title;
    }
  for (const SceneEdge& e : s.edges) {
    ASSERT_GE(e.from, 0);
    ASSERT_GE(e.to, 0);
    EXPECT_EQ(e.points.empty(), e.portal);
  }
}

/// Every stretch of every line lies beside, above or below every box that is neither one of its ends nor around one.
void expectLinesGoAround(const GraphDrawing& s) {
  const auto holds = [](const Rect& outer, const Rect& r) { return r.x >= outer.x && r.right() <= outer.right() && r.y >= outer.y && r.bottom() <= outer.bottom(); };
  for (const SceneEdge& e : s.edges) {
    if (e.portal || e.upwards) continue;
    const Rect &from = s.boxes[static_cast<std::size_t>(e.from)].rect, &to = s.boxes[static_cast<std::size_t>(e.to)].rect;
    EXPECT_FLOAT_EQ(e.points.front().y, from.bottom());
    EXPECT_FLOAT_EQ(e.points.back().y, to.y);
    for (std::size_t i = 0; i + 1 < e.points.size(); ++i) {
      const Point a = e.points[i], b = e.points[i + 1];
      EXPECT_LE(a.y, b.y + 0.01f);
      for (std::size_t n = 0; n < s.boxes.size(); ++n) {
        const SceneBox& box = s.boxes[n];
        const Rect& r = box.rect;
        if (box.kind == SceneBox::Kind::kFrame && (holds(r, from) || holds(r, to))) continue;
        const bool apart = std::max(a.x, b.x) <= r.x || std::min(a.x, b.x) >= r.right() || std::max(a.y, b.y) <= r.y + 0.01f || std::min(a.y, b.y) >= r.bottom() - 0.01f;
        EXPECT_TRUE(apart) << s.boxes[static_cast<std::size_t>(e.from)].title << " -> " << s.boxes[static_cast<std::size_t>(e.to)].title << " crosses " << box.title;
      }
    }
  }
}

TEST(GraphScene, LinesCrossNoBoxes) {
  const Transformer t(5);
  for (int depth = 0; depth < 6; ++depth) {
    GraphScene scene(makeGraphSource(share(t.graph)), depth);
    expectLinesGoAround(scene.scene());
    scene.reveal(t.sdpa[3]);
    expectLinesGoAround(scene.scene());
  }
}

TEST(GraphScene, GV_01_AHugeGraphIsFirstDrawnCollapsed) {
  GraphScene scene(makeGraphSource(share(test::syntheticJoint(50'000))));
  EXPECT_LT(scene.scene().boxes.size(), 2'500u);
  EXPECT_EQ(scene.scene().boxes.size(), GraphScene(scene.sourceRef()).scene().boxes.size());
}

TEST(GraphScene, GV_04_OpeningOneOfEightyLayersLaysOutThatOneAndWhatIsAroundIt) {
  Transformer t(80);
  for (std::size_t i = 0; i < t.sdpa.size(); ++i) t.graph.node(t.sdpa[i]).op = i % 2 ? "aten.one.default" : "aten.other.default";  // not folded
  GraphScene scene(makeGraphSource(share(t.graph)), 9);
  EXPECT_GT(scene.scene().boxes.size(), 500u);
  EXPECT_GT(scene.laidOut(), 160) << "all of them, once";
  const ModuleTree& tree = *scene.source().tree;
  const ModuleIndex layer = tree.find("layers.40.attn");
  ASSERT_GT(layer, 0);
  scene.setOpen(layer, false);
  scene.scene();
  EXPECT_LE(scene.laidOut(), 3) << "the layer, what is around it, and the root";
  scene.setOpen(layer, true);
  scene.scene();
  EXPECT_LE(scene.laidOut(), 4);
}

TEST(GraphScene, GV_06_KindsOfEdgesAreKnown) {
  Transformer t(2);
  t.graph.node(t.sdpa[0]).op = "sp.all_to_all";
  GraphScene scene(makeGraphSource(share(t.graph)), 9);
  std::set<LinkKind> kinds;
  for (const SceneEdge& e : scene.scene().edges) {
    const NodeId from = scene.source().nodes[static_cast<std::size_t>(scene.source().links[static_cast<std::size_t>(e.links.front())].from)].node;
    EXPECT_EQ(e.kind == LinkKind::kCollective, from == t.sdpa[0]);
    kinds.insert(e.kind);
  }
  EXPECT_EQ(kinds.size(), 2u);
}

TEST(GraphScene, LinksOfAClosedModuleAreBundledAndNoneIsLost) {
  const Transformer t(6);
  GraphScene scene(makeGraphSource(share(t.graph)), 0);
  std::size_t carried = 0;
  for (const SceneEdge& e : scene.scene().edges) carried += e.links.size();
  // rope and embed into layers, layers out, ids into rope and embed: all others are inside.
  EXPECT_EQ(carried, 6u + 2u + 1u + 2u);
  GraphScene open(makeGraphSource(share(t.graph)), 9);
  for (const char* path : {"layers.[1-5]"}) open.setOpen(open.source().tree->find(path), true);
  for (const NodeId n : t.sdpa) open.reveal(n);
  carried = 0;
  for (const SceneEdge& e : open.scene().edges) carried += e.links.size();
  // Left inside closed modules: nothing but what stays within attn.q (none) and mlp (none).
  EXPECT_EQ(carried, open.source().links.size());
}

TEST(GraphScene, AStageComparedWithAnotherShowsWhatWasAddedRemovedAndChanged) {
  Transformer t(3);
  const auto before = share(t.graph);
  Graph after = t.graph;
  // A new node before the attention of layer 1, which itself changes; the last node goes.
  const NodeId a2a = after.addNode("sp.all_to_all.default", "a2a");
  after.node(a2a).location = after.node(t.sdpa[1]).location;
  const ValueId old = std::get<ir::Use>(after.node(t.sdpa[1]).args[0].value).value;
  after.node(a2a).args.push_back({"self", ir::Use{old}});
  const ValueId fresh = after.addOutput(a2a, ir::DType::kF32, {2, 4});
  after.node(t.sdpa[1]).args[0].value = ir::Use{fresh};
  after.order.insert(std::find(after.order.begin(), after.order.end(), t.sdpa[1]), a2a);
  const NodeId gone = after.order.back();
  after.order.pop_back();

  GraphScene scene(makeGraphSource(share(std::move(after)), before), 9);
  scene.reveal(t.sdpa[1]);
  const GraphDrawing& s = scene.scene();
  const auto box = [&](NodeId n) -> const SceneBox& { return s.boxes[static_cast<std::size_t>(scene.boxOf(n))]; };
  EXPECT_EQ(box(a2a).change, Change::kAdded);
  EXPECT_EQ(box(t.sdpa[1]).change, Change::kChanged);
  EXPECT_EQ(box(gone).change, Change::kRemoved);
  EXPECT_EQ(box(t.sdpa[0]).change, Change::kNone);
  EXPECT_FALSE(scene.source().nodes[static_cast<std::size_t>(scene.source().indexOf(t.sdpa[1]))].what.empty());
  bool removed_edge = false;
  for (const SceneEdge& e : s.edges) removed_edge |= e.change == Change::kRemoved && e.to == scene.boxOf(gone);
  EXPECT_TRUE(removed_edge);
  scene.closeAll();
  const SceneBox& layers = scene.scene().boxes[static_cast<std::size_t>(scene.boxOf(a2a))];
  EXPECT_EQ(layers.title, "layers");
  EXPECT_EQ(layers.added, 1);
  EXPECT_EQ(layers.changed, 1);
  EXPECT_EQ(layers.collectives, 1);
}

TEST(GraphScene, AJointGraphHasTwoBranches) {
  Transformer t(2);
  Graph g = t.graph;
  g.form = ir::Form::kJoint;
  for (std::size_t i = g.order.size() / 2; i < g.order.size(); ++i) g.node(g.order[i]).phase = ir::Phase::kBackward;
  GraphScene scene(makeGraphSource(share(g)), 0);
  const auto shown = titles(scene.scene());
  EXPECT_TRUE(shown.count("forward"));
  EXPECT_TRUE(shown.count("backward"));
}

}  // namespace
}  // namespace spscope::ui
