// SPDX-License-Identifier: Apache-2.0
// Diff by node identity and content hashes: what they see, what they must not see, and that they are fast.
#include <gmock/gmock.h>

#include <ctime>

#include "core/ir/diff.h"
#include "core/ir/equal.h"
#include "core/ir/hash.h"
#include "core/ir/text.h"
#include "tests/support/synthetic_graph.h"

namespace spscope::ir {
namespace {

/// Processor time: other work on the machine does not count.
double milliseconds(std::clock_t ticks) { return 1e3 * static_cast<double>(ticks) / CLOCKS_PER_SEC; }

using ::testing::ElementsAre;

const char* const kText =
    "// spscope-graph 1\n"
    "graph \"t\" planned mesh(sp=2) {\n"
    "  input %x : f32{2b, 8s} user \"x\"\n"
    "  %a = aten.relu.default(self=%x) : f32{2b, 8s} #0\n"
    "  %b = aten.sum.dim_IntList(self=%a, dim=[1], keepdim=false) : f32{2b} #1\n"
    "  %c = aten.neg.default(self=%a) : f32{2b, 8s} #2\n"
    "  %d = aten.mul.Tensor(self=%c, other=%c) : f32{2b, 8s} #3\n"
    "  output user %b\n"
    "  output user %d\n"
    "}\n";

Graph base() { return parseGraph(kText, "t").value(); }
ValueId only(const Graph& g, NodeId n) { return g.node(n).outputs[0]; }

TEST(Diff, OfAGraphAndItsCopyIsEmpty) {
  const Graph a = test::syntheticJoint(300);
  EXPECT_TRUE(diffGraphs(a, a).empty());
  EXPECT_EQ(countChangedNodes(a, a), 0);
  // Value ids are no identity: text gives new ones.
  const Graph back = parseGraph(printGraph(a), "t").value();
  EXPECT_TRUE(diffGraphs(a, back).empty()) << formatDiff(a, back, diffGraphs(a, back));
}

TEST(Diff, SaysWhatChanged) {
  const Graph a = base();
  Graph b = a;
  b.node(1).set("dim", Dims{0});
  b.node(1).erase("keepdim");
  b.node(2).op = "aten.abs.default";
  b.value(only(b, 3)).placement = Placement::sharded(1, 0, {4, 4});
  b.outputs[1].value = only(b, 2);
  const GraphDiff d = diffGraphs(a, b);
  ASSERT_EQ(d.changed.size(), 3u);
  EXPECT_THAT(d.changed[0].what, ElementsAre("argument dim: [1] -> [0]", "argument keepdim: false -> (absent)"));
  EXPECT_THAT(d.changed[1].what, ElementsAre("op: aten.neg.default -> aten.abs.default"));
  EXPECT_THAT(d.changed[2].what, ElementsAre("placement of %d: R -> S1[4, 4]"));
  EXPECT_THAT(d.graph, ElementsAre("output 1: %d -> %c"));
  EXPECT_EQ(countChangedNodes(a, b), 3);
}

TEST(Diff, FindsAddedRemovedAndMovedNodes) {
  const Graph a = base();
  Graph b = a;
  const NodeId fresh = b.addNode("sp.redistribute.default", "r");
  b.node(fresh).args.push_back({"self", Use{only(b, 0)}});
  const ValueId r = b.addOutput(fresh, DType::kF32, {2, 8});
  b.node(2).set("self", Use{r});
  b.order = {0, fresh, 2, 1};
  const GraphDiff d = diffGraphs(a, b);
  EXPECT_THAT(d.added, ElementsAre(fresh));
  EXPECT_THAT(d.removed, ElementsAre(3));
  ASSERT_EQ(d.changed.size(), 1u);
  EXPECT_EQ(d.changed[0].node, 2);
  EXPECT_THAT(d.changed[0].what, ElementsAre("argument self: %a -> %r"));
  EXPECT_EQ(countChangedNodes(a, b), 3);
  Graph c = a;
  c.order = {0, 2, 3, 1};
  EXPECT_THAT(diffGraphs(a, c).moved, ElementsAre(1)) << "as few as explain the order";
}

TEST(Hash, SeesEveryMeaningAndNoOrnament) {
  const Graph a = base();
  const std::string plan = planHash(a), content = contentHash(a);
  Graph b = a;
  b.node(0).location = std::make_shared<const Location>(Location{"m", "M", "m.py:1", {}});
  b.node(0).provenance = {"p", {1}};
  EXPECT_EQ(planHash(b), plan);
  EXPECT_EQ(contentHash(b), content);
  b.node(0).name = "renamed";
  EXPECT_EQ(planHash(b), plan) << "names do not count for the plan";
  EXPECT_NE(contentHash(b), content) << "but they are a change";
  EXPECT_EQ(planHash(parseGraph(printGraph(a), "t").value()), plan) << "value ids do not count";

  const std::vector<std::function<void(Graph&)>> changes = {
      [](Graph& g) { g.node(1).set("dim", Dims{0}); },
      [](Graph& g) { g.node(1).set("keepdim", true); },
      [](Graph& g) { g.node(0).op = "aten.abs.default"; },
      [](Graph& g) { g.node(3).set("other", Use{only(g, 0)}); },
      [](Graph& g) { g.value(only(g, 0)).dtype = DType::kF64; },
      [](Graph& g) { g.value(only(g, 0)).factors[1][0].tag = Tag::kNone; },
      [](Graph& g) { g.value(only(g, 0)).placement = Placement::partial(); },
      [](Graph& g) { g.value(only(g, 0)).local = {2, 4}; },
      [](Graph& g) { g.value(only(g, 3)).storage = only(g, 2); },
      [](Graph& g) { g.value(only(g, 3)).storage_bytes = 4; },
      [](Graph& g) { g.node(3).phase = Phase::kBackward; },
      [](Graph& g) { g.node(3).must_save = true; },
      [](Graph& g) { g.inputs[0].trainable = true; },
      [](Graph& g) { g.inputs[0].name = "y"; },
      [](Graph& g) { g.outputs[0].kind = OutputKind::kLoss; },
      [](Graph& g) { std::swap(g.outputs[0], g.outputs[1]); },
      [](Graph& g) { std::swap(g.order[1], g.order[2]); },
      [](Graph& g) { g.mesh.axes[0].size = 4; },
      [](Graph& g) { g.rank = 1; },
      [](Graph& g) { g.form = Form::kLocal; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Graph c = a;
    changes[i](c);
    EXPECT_NE(planHash(c), plan) << "change " << i;
    EXPECT_NE(contentHash(c), content) << "change " << i;
    EXPECT_FALSE(structurallyEqual(a, c, nullptr)) << "change " << i;
  }
}

TEST(Hash, AgreesWithEqualityOnRandomGraphs) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Graph a = test::randomGraph(seed);
    const Graph b = parseGraph(printGraph(a), "t").value();
    EXPECT_EQ(contentHash(a), contentHash(b)) << seed;
    EXPECT_NE(contentHash(a), contentHash(test::randomGraph(seed + 1))) << seed;
  }
}

TEST(DiffAndHash, SevenThousandNodesAreFast) {
  const Graph a = test::syntheticJoint(7000);
  Graph b = a;
  for (std::size_t i = 0; i < b.order.size(); i += 10) b.value(only(b, b.order[i])).storage_bytes += 1;
  double diff_ms = 1e9, hash_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto t0 = std::clock();
    const GraphDiff d = diffGraphs(a, b);
    const auto t1 = std::clock();
    const std::string h = contentHash(a);
    const auto t2 = std::clock();
    EXPECT_EQ(d.changed.size(), 700u);
    EXPECT_EQ(h.size(), 32u);
    diff_ms = std::min(diff_ms, milliseconds(t1 - t0));
    hash_ms = std::min(hash_ms, milliseconds(t2 - t1));
  }
  std::printf("diff %.2f ms, hash %.2f ms\n", diff_ms, hash_ms);
  EXPECT_LT(diff_ms, 50) << "10 times the budget";
  EXPECT_LT(hash_ms, 40);
}

}  // namespace
}  // namespace spscope::ir
