// SPDX-License-Identifier: Apache-2.0
// Reduced twins: which layers fold, which sizes get smaller together, which differences of plans are seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "passes/shrink/compare_plans.h"
#include "passes/shrink/fold_layers.h"
#include "passes/shrink/narrow.h"

namespace spscope::passes {
namespace {

using ir::Dims;

ir::Graph parse(const std::string& body) {
  auto graph = ir::parseGraph("// spscope-graph 1\ngraph \"t\" global mesh() rank=0 ids=100 {\n" + body + "}\n", "test");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().format());
  return graph ? *graph : ir::Graph();
}

const ir::Node& nodeOf(const ir::Graph& g, const std::string& name) {
  for (const ir::NodeId id : g.order)
    if (g.node(id).name == name) return g.node(id);
  ADD_FAILURE() << "no node " << name;
  return g.node(g.order[0]);
}
Dims shapeOf(const ir::Graph& g, const std::string& node) { return g.value(nodeOf(g, node).outputs[0]).shape; }
Dims inputShape(const ir::Graph& g, const std::string& name) {
  for (const ir::Input& in : g.inputs)
    if (in.name == name) return g.value(in.value).shape;
  ADD_FAILURE() << "no input " << name;
  return {};
}

/// Layers of one product each; `odd` is a relu instead of a gelu, `reads` a layer that reads the embedding too.
ir::Graph stack(int layers, int odd = -1, int reads = -1) {
  std::string inputs = "  input %ids : i64[1, 4096] user \"input_ids\"\n  input %e : f32[50, 64] grad parameter \"e\" trainable\n", nodes;
  nodes += "  %h0 = aten.embedding.default(weight=%e, indices=%ids) : f32[1, 4096, 64] #0\n";
  int id = 1;
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1), loc = " loc(\"m.layers." + n + "\", \"L\", \"m.py:1\")\n";
    inputs += "  input %w" + n + " : f32[64, 64] grad parameter \"m.layers." + n + ".w\" trainable\n";
    nodes += "  %p" + n + " = aten.linear.default(input=%h" + n + ", weight=%w" + n + ") : f32[1, 4096, 64] #" + std::to_string(id++) + loc;
    nodes += "  %a" + n + " = aten." + (i == odd ? "relu" : "gelu") + ".default(self=%p" + n + ") : f32[1, 4096, 64] #" + std::to_string(id++) + loc;
    nodes += "  %h" + next + " = aten.add.Tensor(self=%" + (i == reads ? "h0" : "h" + n) + ", other=%a" + n + ") : f32[1, 4096, 64] #" + std::to_string(id++) + loc;
  }
  return parse(inputs + nodes + "  output user %h" + std::to_string(layers) + "\n");
}

TEST(FoldLayers, KeepsFirstLastAndOneOfTheEqualOnes) {
  const Fold fold = foldLayers(stack(8));
  ASSERT_EQ(fold.groups.size(), 1u);
  EXPECT_EQ(fold.groups[0].layers, 8);
  EXPECT_EQ(fold.groups[0].kept, 3);
  EXPECT_EQ(fold.stands_for.at("m.layers.5"), "m.layers.1");
  EXPECT_EQ(fold.stands_for.at("m.layers.7"), "m.layers.7");
  EXPECT_EQ(fold.graph.order.size(), 10u);
  EXPECT_EQ(fold.graph.inputs.size(), 5u);
  const Status ok = ir::verifyGraph(fold.graph);
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().format());
  // The last layer reads what the one that stands for all before it gives.
  EXPECT_EQ(ir::useArg(nodeOf(fold.graph, "p7"), "input"), nodeOf(fold.graph, "h2").outputs[0]);
}

TEST(FoldLayers, AnOddLayerStays) {
  const Fold fold = foldLayers(stack(8, 4));
  EXPECT_EQ(fold.stands_for.at("m.layers.4"), "m.layers.4");
  EXPECT_EQ(fold.stands_for.at("m.layers.3"), "m.layers.1");
  EXPECT_EQ(fold.stands_for.at("m.layers.6"), "m.layers.5");
  EXPECT_EQ(fold.groups[0].kept, 5);
}

TEST(FoldLayers, WhatOthersReadStays) {
  const Fold fold = foldLayers(stack(6, -1, 3));
  EXPECT_EQ(fold.stands_for.at("m.layers.3"), "m.layers.3");
  EXPECT_EQ(fold.stands_for.at("m.layers.2"), "m.layers.1");
}

/// A head of attention with rotary halves: 8 query heads on 2 key heads, of 64.
const char* const kAttention = R"(
  input %ids : i64[1, 8192] user "input_ids"
  input %e : f32[32000, 512] grad parameter "e" trainable
  input %wq : f32[512, 512] grad parameter "wq" trainable
  input %wk : f32[128, 512] grad parameter "wk" trainable
  input %wo : f32[512, 512] grad parameter "wo" trainable
  input %up : f32[1376, 512] grad parameter "up" trainable
  input %down : f32[512, 1376] grad parameter "down" trainable
  %x = aten.embedding.default(weight=%e, indices=%ids, padding_idx=31999) : f32[1, 8192, 512] #0
  %q = aten.linear.default(input=%x, weight=%wq) : f32[1, 8192, 512] #1
  %k = aten.linear.default(input=%x, weight=%wk) : f32[1, 8192, 128] #2
  %qv = aten.view.default(self=%q, size=[1, 8192, -1, 64]) : f32[1, 8192, 8, 64] #3
  %kv = aten.view.default(self=%k, size=[1, 8192, 2, 64]) : f32[1, 8192, 2, 64] #4
  %qt = aten.transpose.int(self=%qv, dim0=1, dim1=2) : f32[1, 8, 8192, 64] #5
  %kt = aten.transpose.int(self=%kv, dim0=1, dim1=2) : f32[1, 2, 8192, 64] #6
  %lo = aten.slice.Tensor(self=%qt, dim=3, start=0, end=32) : f32[1, 8, 8192, 32] #7
  %hi = aten.slice.Tensor(self=%qt, dim=3, start=32, end=9223372036854775807) : f32[1, 8, 8192, 32] #8
  %rot = aten.cat.default(tensors=[%hi, %lo], dim=-1) : f32[1, 8, 8192, 64] #9
  %o = aten.scaled_dot_product_attention.default(query=%rot, key=%kt, value=%kt, is_causal=true, scale=0.125, enable_gqa=true) : f32[1, 8, 8192, 64] #10
  %ot = aten.transpose.int(self=%o, dim0=1, dim1=2) : f32[1, 8192, 8, 64] #11
  %or = aten.reshape.default(self=%ot, shape=[1, 8192, -1]) : f32[1, 8192, 512] #12
  %y = aten.linear.default(input=%or, weight=%wo) : f32[1, 8192, 512] #13
  %r = aten.add.Tensor(self=%x, other=%y) : f32[1, 8192, 512] #14
  %u = aten.linear.default(input=%r, weight=%up) : f32[1, 8192, 1376] #15
  %d = aten.linear.default(input=%u, weight=%down) : f32[1, 8192, 512] #16
  output user %d
)";

Narrowed narrowed(const ir::Graph& g, std::int64_t seq, int sp) {
  Settings settings;
  settings.sp = sp;
  auto out = narrow(g, settings, seq, 1, {}, {});
  EXPECT_TRUE(out) << (out ? "" : out.error().format());
  return *out;
}

TEST(Narrow, SizesThatBelongTogetherGetSmallerTogether) {
  const ir::Graph g = parse(kAttention);
  const Narrowed n = narrowed(g, 8192, 4);
  const std::int64_t seq = n.seq, head = shapeOf(n.graph, "kt")[3], hidden = shapeOf(n.graph, "x")[2], ffn = shapeOf(n.graph, "u")[2], words = inputShape(n.graph, "e")[0];
  EXPECT_LT(seq, 8192);
  EXPECT_EQ(seq % 8, 0);
  EXPECT_LT(head, 64);
  EXPECT_LT(hidden, 512);
  EXPECT_LT(ffn, 1376);
  EXPECT_LT(words, 32000);
  EXPECT_EQ(hidden % 4, 0);
  EXPECT_EQ(ffn % 4, 0);
  EXPECT_NE(hidden, ffn);
  EXPECT_EQ(shapeOf(n.graph, "qt"), (Dims{1, 8, seq, head}));
  EXPECT_EQ(shapeOf(n.graph, "kt"), (Dims{1, 2, seq, head}));
  EXPECT_EQ(shapeOf(n.graph, "hi"), (Dims{1, 8, seq, head / 2}));
  EXPECT_EQ(ir::intArg(nodeOf(n.graph, "hi"), "start", -1), head / 2);
  EXPECT_EQ(ir::intArg(nodeOf(n.graph, "lo"), "end", -1), head / 2);
  EXPECT_EQ(shapeOf(n.graph, "or"), (Dims{1, seq, 8 * head}));
  EXPECT_EQ(inputShape(n.graph, "wo"), (Dims{hidden, 8 * head}));
  EXPECT_EQ(inputShape(n.graph, "wk"), (Dims{2 * head, hidden}));
  EXPECT_EQ(ir::intListArg(nodeOf(n.graph, "qv"), "size"), (Dims{1, seq, -1, head}));
  EXPECT_EQ(ir::doubleArg(nodeOf(n.graph, "o"), "scale", 0), 0.125);
  EXPECT_EQ(ir::intArg(nodeOf(n.graph, "x"), "padding_idx", -1), words - 1);
  const Status ok = ir::verifyGraph(n.graph);
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().format());
}

TEST(Narrow, AnUnevenSequenceStaysUneven) {
  std::string text = kAttention;
  for (std::size_t at = text.find("8192"); at != std::string::npos; at = text.find("8192", at)) text.replace(at, 4, "8195");
  EXPECT_EQ(narrowed(parse(text), 8195, 4).seq % 8, 8195 % 8);
}

TEST(Narrow, PartsOfOneProductFollowTheirUse) {
  const ir::Graph g = parse(R"(
  input %ids : i64[1, 64] user "input_ids"
  input %e : f32[50, 512] grad parameter "e" trainable
  input %w : f32[768, 512] grad parameter "w" trainable
  %x = aten.embedding.default(weight=%e, indices=%ids) : f32[1, 64, 512] #0
  %p = aten.linear.default(input=%x, weight=%w) : f32[1, 64, 768] #1
  %q, %k, %v = aten.split_with_sizes.default(self=%p, split_sizes=[512, 128, 128], dim=-1) : f32[1, 64, 512], f32[1, 64, 128], f32[1, 64, 128] #2
  %qv = aten.view.default(self=%q, size=[1, 64, 8, 64]) : f32[1, 64, 8, 64] #3
  %kv = aten.view.default(self=%k, size=[1, 64, 2, 64]) : f32[1, 64, 2, 64] #4
  %vv = aten.view.default(self=%v, size=[1, 64, 2, 64]) : f32[1, 64, 2, 64] #5
  %qt = aten.transpose.int(self=%qv, dim0=1, dim1=2) : f32[1, 8, 64, 64] #6
  %kt = aten.transpose.int(self=%kv, dim0=1, dim1=2) : f32[1, 2, 64, 64] #7
  %vt = aten.transpose.int(self=%vv, dim0=1, dim1=2) : f32[1, 2, 64, 64] #8
  %o = aten.scaled_dot_product_attention.default(query=%qt, key=%kt, value=%vt, enable_gqa=true) : f32[1, 8, 64, 64] #9
  output user %o
)");
  const Narrowed n = narrowed(g, 64, 2);
  const std::int64_t head = shapeOf(n.graph, "kt")[3], of_value = shapeOf(n.graph, "vt")[3];
  EXPECT_LT(head, 64);
  EXPECT_LT(of_value, 64);
  EXPECT_EQ(inputShape(n.graph, "w")[0], 8 * head + 2 * head + 2 * of_value);
  EXPECT_EQ(ir::intListArg(n.graph.node(n.graph.order[2]), "split_sizes"), (Dims{8 * head, 2 * head, 2 * of_value}));
}

TEST(ComparePlans, SizesMayDifferNumbersAndOrderMayNot) {
  const ir::Graph g = parse(kAttention);
  const Narrowed n = narrowed(g, 8192, 4);
  const PlanMatch same = comparePlans(g, n.graph, {});
  EXPECT_TRUE(same.matches()) << (same.differences.empty() ? "" : same.differences[0].what);
  EXPECT_EQ(same.compared, 17);

  ir::Graph other = n.graph;
  other.node(nodeOf(other, "o").id).set("scale", 0.3);
  EXPECT_THAT(comparePlans(g, other, {}).differences.at(0).what, testing::HasSubstr("scale"));

  other = n.graph;
  other.node(nodeOf(other, "r").id).set("self", ir::Use{nodeOf(other, "y").outputs[0]});
  EXPECT_THAT(comparePlans(g, other, {}).differences.at(0).what, testing::HasSubstr("comes from"));

  other = n.graph;
  std::erase(other.order, nodeOf(other, "d").id);
  EXPECT_FALSE(comparePlans(g, other, {}).matches());
}

TEST(ComparePlans, FoldedLayersAreHeldAgainstTheOneThatIsLeft) {
  const ir::Graph real = stack(8);
  const Fold fold = foldLayers(real);
  const PlanMatch match = comparePlans(real, fold.graph, fold.stands_for);
  EXPECT_TRUE(match.matches()) << (match.differences.empty() ? "" : match.differences[0].what);
  EXPECT_EQ(match.compared, 25);
  ir::Graph changed = real;
  changed.node(nodeOf(changed, "a5").id).op = Symbol("aten.relu.default");
  const PlanMatch other = comparePlans(changed, fold.graph, fold.stands_for);
  ASSERT_FALSE(other.differences.empty());
  EXPECT_EQ(other.differences[0].node, "%a5");
  EXPECT_EQ(other.differences[0].twin, "%a1");
}

}  // namespace
}  // namespace spscope::passes
