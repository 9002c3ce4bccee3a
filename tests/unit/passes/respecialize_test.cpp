// SPDX-License-Identifier: Apache-2.0
// Static graphs at other lengths: the rules one by one on small graphs, then the zoo's static files against their
// dynamic twins, which the exporter itself made for every length.
#include "passes/sequence/respecialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "core/io/program.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"

namespace spscope::passes {
namespace {

using ir::Dims;
using testing::HasSubstr;

/// A graph of ids [2, 64], an embedding x [2, 64, 16] and further inputs and nodes.
ir::Graph graphOf(const std::string& inputs, const std::string& nodes, const std::string& output) {
  const std::string text = R"(// spscope-graph 1
graph "t" global mesh() rank=0 ids=40 {
  input %ids : i64[2, 64] user "input_ids"
  input %w : f32[50, 16] grad parameter "w" trainable
)" + inputs + R"(
  %x = aten.embedding.default(weight=%w, indices=%ids) : f32[2, 64, 16] #0
)" + nodes + "\n  output user " + output + "\n}\n";
  auto graph = ir::parseGraph(text, "test");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().format());
  return graph ? *graph : ir::Graph();
}

Result<ir::Graph> at(const ir::Graph& graph, std::int64_t seq, DiagnosticSink* told = nullptr) {
  DiagnosticSink sink;
  Settings settings;
  auto out = respecializeSequence(graph, settings, 64, seq, sink);
  if (told) *told = sink;
  if (out) {
    const Status ok = ir::verifyGraph(*out);
    EXPECT_TRUE(ok) << (ok ? "" : ok.error().format());
  }
  return out;
}

const ir::Node& nodeOf(const ir::Graph& g, const std::string& name) {
  for (ir::NodeId id : g.order)
    if (g.node(id).name == name) return g.node(id);
  ADD_FAILURE() << "no node " << name;
  return g.node(g.order[0]);
}

Dims shapeOf(const ir::Graph& g, const std::string& node) { return g.value(nodeOf(g, node).outputs[0]).shape; }

#define ASSERT_OK(r) \
  do {               \
    const auto& sp_r = (r); \
    ASSERT_TRUE(sp_r) << (sp_r ? std::string() : sp_r.error().format()); \
  } while (false)

TEST(Respecialize, ViewsFollowAndInferredSizesStay) {
  const ir::Graph g = graphOf("", R"(
  %v = aten.view.default(self=%x, size=[2, 64, -1, 8]) : f32[2, 64, 2, 8] #1
  %t = aten.transpose.int(self=%v, dim0=1, dim1=2) : f32[2, 2, 64, 8] #2
  %r = aten.reshape.default(self=%t, shape=[4, 64, 8]) : f32[4, 64, 8] #3
  %f = aten.reshape.default(self=%x, shape=[128, 16]) : f32[128, 16] #4
  %s = aten.sum.default(self=%f) : f32[] #5
  %u = aten.sum.default(self=%r) : f32[] #6
  %o = aten.add.Tensor(self=%s, other=%u) : f32[] #7)", "%o");
  const auto out = at(g, 96);
  ASSERT_OK(out);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "v"), "size"), (Dims{2, 96, -1, 8}));
  EXPECT_EQ(shapeOf(*out, "r"), (Dims{4, 96, 8}));
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "f"), "shape"), (Dims{192, 16}));
  EXPECT_EQ(out->value(out->inputs[0].value).shape, (Dims{2, 96}));
  EXPECT_EQ(out->value(out->inputs[1].value).shape, (Dims{50, 16}));
  EXPECT_EQ(nodeOf(*out, "v").provenance.pass, Symbol("respecialize"));
}

TEST(Respecialize, LiteralsFollowByUseBackwards) {
  // A causal mask made of nothing but literals: only that it meets the scores says what it is.
  const ir::Graph g = graphOf("", R"(
  %a = aten.arange.default(end=64) : i64[64] #1
  %a1 = aten.unsqueeze.default(self=%a, dim=1) : i64[64, 1] #2
  %a2 = aten.unsqueeze.default(self=%a, dim=0) : i64[1, 64] #3
  %m = aten.le.Tensor(self=%a2, other=%a1) : bool[64, 64] #4
  %one = aten.ones.default(size=[64, 64]) : f32[64, 64] #5
  %tri = aten.tril.default(self=%one) : f32[64, 64] #6
  %e = aten.expand.default(self=%m, size=[2, 64, 64]) : bool[2, 64, 64] #7
  %xt = aten.transpose.int(self=%x, dim0=1, dim1=2) : f32[2, 16, 64] #8
  %q = aten.bmm.default(self=%x, mat2=%xt) : f32[2, 64, 64] #9
  %k = aten.masked_fill.Scalar(self=%q, mask=%e, value=0) : f32[2, 64, 64] #10
  %o = aten.mul.Tensor(self=%k, other=%tri) : f32[2, 64, 64] #11)", "%o");
  const auto out = at(g, 32);
  ASSERT_OK(out);
  EXPECT_EQ(ir::intArg(nodeOf(*out, "a"), "end", 0), 32);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "one"), "size"), (Dims{32, 32}));
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "e"), "size"), (Dims{2, 32, 32}));
  EXPECT_EQ(shapeOf(*out, "o"), (Dims{2, 32, 32}));
}

TEST(Respecialize, SizesThatOnlyLookLikeTheLengthStay) {
  // 64 features, 64 frequencies: equal numbers, other things.
  const ir::Graph g = graphOf("  input %p : f32[64, 16] grad parameter \"p\" trainable", R"(
  %l = aten.linear.default(input=%x, weight=%p) : f32[2, 64, 64] #1
  %a = aten.arange.default(end=64) : i64[64] #2
  %c = aten.mul.Tensor(self=%l, other=%a) : f32[2, 64, 64] #3
  %v = aten.view.default(self=%c, size=[2, 64, 8, 8]) : f32[2, 64, 8, 8] #4
  %h = aten.slice.Tensor(self=%c, dim=2, start=0, end=32) : f32[2, 64, 32] #5
  %i = aten.slice.Tensor(self=%c, dim=2, start=32, end=9223372036854775807) : f32[2, 64, 32] #6
  %j = aten.cat.default(tensors=[%i, %h], dim=-1) : f32[2, 64, 64] #7
  %s = aten.sum.default(self=%v) : f32[] #8
  %o = aten.add.Tensor(self=%j, other=%s) : f32[2, 64, 64] #9)", "%o");
  DiagnosticSink told;
  const auto out = at(g, 96, &told);
  ASSERT_OK(out);
  EXPECT_EQ(ir::intArg(nodeOf(*out, "a"), "end", 0), 64);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "v"), "size"), (Dims{2, 96, 8, 8}));
  EXPECT_EQ(ir::intArg(nodeOf(*out, "h"), "end", 0), 32);
  EXPECT_EQ(shapeOf(*out, "o"), (Dims{2, 96, 64}));
  EXPECT_TRUE(told.all().empty());
}

TEST(Respecialize, ShiftsAndPadsKeepTheirDistance) {
  const ir::Graph g = graphOf("", R"(
  %p = aten.pad.default(self=%ids, pad=[0, 1], value=-100.0) : i64[2, 65] #1
  %s = aten.slice.Tensor(self=%p, dim=1, start=1, end=9223372036854775807) : i64[2, 64] #2
  %a = aten.slice.Tensor(self=%x, dim=1, start=0, end=-1) : f32[2, 63, 16] #3
  %b = aten.slice.Tensor(self=%x, dim=1, start=0, end=63) : f32[2, 63, 16] #4
  %c = aten.add.Tensor(self=%a, other=%b) : f32[2, 63, 16] #5
  %d = aten.reshape.default(self=%c, shape=[126, 16]) : f32[126, 16] #6
  %e = aten.select.int(self=%x, dim=1, index=63) : f32[2, 16] #7
  %f = aten.slice.Tensor(self=%x, dim=1, start=0, end=4) : f32[2, 4, 16] #8
  %g = aten.sum.default(self=%f) : f32[] #9
  %h = aten.sum.default(self=%e) : f32[] #10
  %i = aten.sum.default(self=%s) : i64[] #11
  %j = aten.add.Tensor(self=%d, other=%g) : f32[126, 16] #12
  %k = aten.add.Tensor(self=%j, other=%h) : f32[126, 16] #13
  %o = aten.add.Tensor(self=%k, other=%i) : f32[126, 16] #14)", "%o");
  const auto out = at(g, 40);
  ASSERT_OK(out);
  EXPECT_EQ(shapeOf(*out, "p"), (Dims{2, 41}));
  EXPECT_EQ(shapeOf(*out, "s"), (Dims{2, 40}));
  EXPECT_EQ(ir::intArg(nodeOf(*out, "a"), "end", 0), -1);
  EXPECT_EQ(ir::intArg(nodeOf(*out, "b"), "end", 0), 39);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "d"), "shape"), (Dims{78, 16}));
  EXPECT_EQ(ir::intArg(nodeOf(*out, "e"), "index", 0), 39);
  EXPECT_EQ(ir::intArg(nodeOf(*out, "f"), "end", 0), 4);  // the first four stay the first four
}

TEST(Respecialize, PartsOfTheLengthDivideOrRefuse) {
  const ir::Graph g = graphOf("", R"(
  %v = aten.view.default(self=%x, size=[2, 4, 16, 16]) : f32[2, 4, 16, 16] #1
  %u = aten.view.default(self=%v, size=[2, 64, 16]) : f32[2, 64, 16] #2
  %o = aten.add.Tensor(self=%u, other=%x) : f32[2, 64, 16] #3)", "%o");
  const auto out = at(g, 96);
  ASSERT_OK(out);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "v"), "size"), (Dims{2, 6, 16, 16}));
  const auto refused = at(g, 100);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "seq-literal");
  EXPECT_EQ(refused.error().node, "v");
  EXPECT_THAT(refused.error().message, HasSubstr("does not divide"));
  EXPECT_EQ(refused.error().legal, "--seq 64");
}

TEST(Respecialize, TheInferredPartOfTheLengthIsTheOneThatFollows) {
  const ir::Graph g = graphOf("", R"(
  %v = aten.view.default(self=%x, size=[2, 4, -1, 16]) : f32[2, 4, 16, 16] #1
  %o = aten.mul.Tensor(self=%v, other=2) : f32[2, 4, 16, 16] #2)", "%o");
  const auto out = at(g, 96);
  ASSERT_OK(out);
  EXPECT_EQ(shapeOf(*out, "o"), (Dims{2, 4, 24, 16}));
}

TEST(Respecialize, ConcatenationGrowsByItsParts) {
  const ir::Graph g = graphOf("  input %prompt : f32[1, 20, 16] grad parameter \"prompt\" trainable", R"(
  %p = aten.expand.default(self=%prompt, size=[2, -1, -1]) : f32[2, 20, 16] #1
  %c = aten.cat.default(tensors=[%p, %x], dim=1) : f32[2, 84, 16] #2
  %b = aten.zeros.default(size=[84, 16]) : f32[84, 16] #3
  %d = aten.add.Tensor(self=%c, other=%b) : f32[2, 84, 16] #4
  %o = aten.slice.Tensor(self=%d, dim=1, start=20, end=9223372036854775807) : f32[2, 64, 16] #5)", "%o");
  const auto out = at(g, 96);
  ASSERT_OK(out);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "b"), "size"), (Dims{116, 16}));
  EXPECT_EQ(ir::intArg(nodeOf(*out, "o"), "start", 0), 20);
  EXPECT_EQ(shapeOf(*out, "o"), (Dims{2, 96, 16}));
}

TEST(Respecialize, StoredTablesAreCutAsLongAsTheyLast) {
  const ir::Graph g = graphOf(R"(
  input %bias : bool[1, 1, 128, 128] buffer "bias"
  input %pos : f32[128, 16] grad parameter "pos" trainable)", R"(
  %b1 = aten.slice.Tensor(self=%bias, dim=2, start=0, end=64) : bool[1, 1, 64, 128] #1
  %b2 = aten.slice.Tensor(self=%b1, dim=3, start=0, end=64) : bool[1, 1, 64, 64] #2
  %q = aten.unsqueeze.default(self=%x, dim=1) : f32[2, 1, 64, 16] #3
  %k = aten.transpose.int(self=%q, dim0=2, dim1=3) : f32[2, 1, 16, 64] #4
  %m = aten.matmul.default(self=%q, other=%k) : f32[2, 1, 64, 64] #5
  %w1 = aten.where.ScalarOther(condition=%b2, self=%m, other=0.0) : f32[2, 1, 64, 64] #6
  %p = aten.slice.Tensor(self=%pos, dim=0, start=0, end=64) : f32[64, 16] #7
  %y = aten.add.Tensor(self=%q, other=%p) : f32[2, 1, 64, 16] #8
  %o = aten.matmul.default(self=%w1, other=%y) : f32[2, 1, 64, 16] #9)", "%o");
  const auto out = at(g, 128);
  ASSERT_OK(out);
  EXPECT_EQ(ir::intArg(nodeOf(*out, "b1"), "end", 0), 128);
  EXPECT_EQ(shapeOf(*out, "b2"), (Dims{1, 1, 128, 128}));
  EXPECT_EQ(ir::intArg(nodeOf(*out, "p"), "end", 0), 128);
  const auto refused = at(g, 129);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "seq-literal");
  EXPECT_EQ(refused.error().node, "b1");
  EXPECT_THAT(refused.error().message, HasSubstr("buffer bias has 128 entries in dim 2"));
}

TEST(Respecialize, PositionsBeyondATableAreRefused) {
  const ir::Graph g = graphOf("  input %wpe : f32[64, 16] grad parameter \"wpe.weight\" trainable", R"(
  %a = aten.arange.default(end=64) : i64[64] #1
  %u = aten.unsqueeze.default(self=%a, dim=0) : i64[1, 64] #2
  %p = aten.embedding.default(weight=%wpe, indices=%u) : f32[1, 64, 16] #3
  %o = aten.add.Tensor(self=%x, other=%p) : f32[2, 64, 16] #4)", "%o");
  ASSERT_OK(at(g, 32));
  const auto refused = at(g, 65);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().node, "p");
  EXPECT_THAT(refused.error().message, HasSubstr("parameter wpe.weight has 64 entries in dim 0; it would have to be 65"));
}

TEST(Respecialize, AParameterOfTheLengthIsRefused) {
  const ir::Graph g = graphOf("  input %mix : f32[64, 64] grad parameter \"mix\" trainable", R"(
  %o = aten.matmul.default(self=%mix, other=%x) : f32[2, 64, 16] #1)", "%o");
  const auto refused = at(g, 96);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "seq-literal");
  EXPECT_EQ(refused.error().node, "o");
  EXPECT_THAT(refused.error().message, HasSubstr("parameter mix has 64 entries in dim 1"));
}

TEST(Respecialize, WhatCannotBeToldIsRefused) {
  // Half of the sequence, or the first 32 tokens?
  const ir::Graph half = graphOf("", R"(
  %h = aten.slice.Tensor(self=%x, dim=1, start=0, end=32) : f32[2, 32, 16] #1
  %o = aten.sum.default(self=%h) : f32[] #2)", "%o");
  const auto a = at(half, 96);
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().node, "h");
  EXPECT_THAT(a.error().message, HasSubstr("counted from the start or from the end"));
  // An op that no rule follows.
  const ir::Graph odd = graphOf("", R"(
  %o = aten.some_op.default(self=%x) : f32[2, 64, 16] #1)", "%o");
  const auto b = at(odd, 96);
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().node, "o");
  EXPECT_THAT(b.error().message, HasSubstr("aten.some_op.default"));
  // Relative positions: i - j + 64 reads a table whose middle depends on the length.
  const ir::Graph relative = graphOf("  input %rel : f32[200, 16] grad parameter \"rel\" trainable", R"(
  %a = aten.arange.default(end=64) : i64[64] #1
  %u = aten.add.Tensor(self=%a, other=64) : i64[64] #2
  %p = aten.embedding.default(weight=%rel, indices=%u) : f32[64, 16] #3
  %o = aten.add.Tensor(self=%x, other=%p) : f32[2, 64, 16] #4)", "%o");
  const auto c = at(relative, 32);
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().node, "u");
}

TEST(Respecialize, NumbersEqualToTheLengthAreToldAndKept) {
  const ir::Graph g = graphOf("", R"(
  %s = aten.sum.dim_IntList(self=%x, dim=[1]) : f32[2, 16] #1
  %o = aten.div.Tensor(self=%s, other=64) : f32[2, 16] #2)", "%o");
  DiagnosticSink told;
  const auto out = at(g, 96, &told);
  ASSERT_OK(out);
  ASSERT_EQ(told.all().size(), 1U);
  EXPECT_EQ(told.all()[0].code, "seq-literal-kept");
  EXPECT_EQ(told.all()[0].node, "o");
}

TEST(Respecialize, BatchFollowsTheSameWay) {
  const ir::Graph g = graphOf("", R"(
  %f = aten.reshape.default(self=%x, shape=[128, 16]) : f32[128, 16] #1
  %z = aten.zeros.default(size=[2, 64, 16]) : f32[2, 64, 16] #2
  %v = aten.view.default(self=%f, size=[2, 64, 16]) : f32[2, 64, 16] #3
  %o = aten.add.Tensor(self=%v, other=%z) : f32[2, 64, 16] #4)", "%o");
  DiagnosticSink sink;
  const auto out = respecialize(g, Settings{}, {64, 96, 2, 5}, sink);
  ASSERT_OK(out);
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "f"), "shape"), (Dims{480, 16}));
  EXPECT_EQ(*ir::intListArg(nodeOf(*out, "z"), "size"), (Dims{5, 96, 16}));
  const ir::Graph fixed = graphOf("  input %c : f32[2, 1, 16] buffer \"c\"", R"(
  %o = aten.add.Tensor(self=%x, other=%c) : f32[2, 64, 16] #1)", "%o");
  const auto refused = respecialize(fixed, Settings{}, {64, 64, 2, 4}, sink);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "batch-static");
  EXPECT_EQ(refused.error().legal, "--batch 2");
}

TEST(Respecialize, WhatNothingReadsForbidsNothing) {
  const ir::Graph g = graphOf("", R"(
  %d = aten.some_op.default(self=%x) : f32[2, 64, 16] #1
  %o = aten.neg.default(self=%x) : f32[2, 64, 16] #2)", "%o");
  ASSERT_OK(at(g, 96));
}

TEST(Respecialize, WithoutASequenceInputItSaysSo) {
  auto g = ir::parseGraph(R"(// spscope-graph 1
graph "t" global mesh() rank=0 ids=2 {
  input %p : f32[2, 64] user "pixels"
  %o = aten.neg.default(self=%p) : f32[2, 64] #0
  output user %o
}
)", "test");
  ASSERT_TRUE(g) << g.error().format();
  const auto refused = at(*g, 96);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "seq-unmarked");
  Settings marks;  // a mark names it
  marks.sequence_marks = {{"pixels", 1}};
  DiagnosticSink sink;
  const auto out = respecializeSequence(*g, marks, 64, 96, sink);
  ASSERT_OK(out);
  EXPECT_EQ(shapeOf(*out, "o"), (Dims{2, 96}));
}

// --- the zoo --------------------------------------------------------------------------------------------------------

const std::filesystem::path kZoo = SPSCOPE_SOURCE_DIR "/../shared/zoo";

Result<io::ImportedModel> open(const std::string& name, std::int64_t seq = 0, std::int64_t batch = 0) {
  io::OpenOptions options;
  options.seq = seq;
  options.batch = batch;
  DiagnosticSink sink;
  return io::openModel((kZoo / (name + ".pt2")).string(), options, sink);
}

std::string literals(const ir::Graph& g, const ir::Node& n) {
  std::string out = n.op.str();
  for (const ir::Argument& a : n.args)
    if (std::holds_alternative<std::int64_t>(a.value) || std::holds_alternative<Dims>(a.value))
      out += " " + a.name.str() + "=" + ir::attributeText(g, a.value);
  for (ir::ValueId v : n.outputs) out += " " + (v == ir::kNone ? "none" : ir::typeText(g, g.value(v)));
  return out;
}

class Twins : public testing::TestWithParam<std::tuple<std::pair<const char*, const char*>, int>> {};

TEST_P(Twins, StaticFileAgreesWithTheDynamicOne) {
  if (!std::filesystem::exists(kZoo)) GTEST_SKIP() << "no zoo at " << kZoo;
  const auto [names, seq] = GetParam();
  const auto file = open(names.first);
  const auto twin = open(names.second, seq);
  ASSERT_OK(file);
  ASSERT_OK(twin);
  ASSERT_FALSE(file->dynamic);
  ASSERT_EQ(twin->seq, seq);
  DiagnosticSink sink;
  const auto out = respecializeSequence(file->graph, Settings{}, file->seq, seq, sink);
  ASSERT_OK(out);
  ir::Graph other = twin->graph;
  other.removeDeadNodes();
  ASSERT_EQ(out->order.size(), other.order.size());
  for (std::size_t i = 0; i < other.order.size(); ++i)  // names differ where the dynamic export counted sizes too
    EXPECT_EQ(literals(*out, out->node(out->order[i])), literals(other, other.node(other.order[i])))
        << out->node(out->order[i]).name;
}

INSTANTIATE_TEST_SUITE_P(Zoo, Twins,
                         testing::Combine(testing::Values(std::pair("llama_mha", "llama_mha_dyn"),
                                                          std::pair("gpt2_pos", "gpt2_dyn_pos"),
                                                          std::pair("nanogpt", "nanogpt_dyn")),
                                          testing::Values(32, 48, 63)));
// nanogpt's position table ends at its S = 64, so longer only without it.
INSTANTIATE_TEST_SUITE_P(ZooLonger, Twins,
                         testing::Combine(testing::Values(std::pair("llama_mha", "llama_mha_dyn"),
                                                          std::pair("gpt2_pos", "gpt2_dyn_pos")),
                                          testing::Values(96, 128)));

TEST(RespecializeZoo, GroupedTwinsChangeTheSameDims) {
  // These pairs differ in their kv heads: what is compared is which dims move, and to what.
  if (!std::filesystem::exists(kZoo)) GTEST_SKIP() << "no zoo at " << kZoo;
  for (const auto& [still, moving] : {std::pair("llama_gqa_pos", "llama_gqa_dyn_pos"),
                                      std::pair("llama_causal_gqa_pos", "llama_causal_gqa_dyn")}) {
    for (std::int64_t seq : {96, 32}) {
      const auto file = open(still), before = open(moving, 64), after = open(moving, seq);
      ASSERT_OK(file);
      ASSERT_OK(before);
      ASSERT_OK(after);
      DiagnosticSink sink;
      const auto out = respecializeSequence(file->graph, Settings{}, file->seq, seq, sink);
      ASSERT_OK(out);
      ir::Graph a = file->graph, b = before->graph, c = after->graph;
      for (ir::Graph* g : {&a, &b, &c}) g->removeDeadNodes();
      ASSERT_EQ(out->order.size(), c.order.size());
      for (std::size_t i = 0; i < c.order.size(); ++i)
        for (std::size_t k = 0; k < c.node(c.order[i]).outputs.size(); ++k) {
          const auto shape = [&](const ir::Graph& g) { return g.value(g.node(g.order[i]).outputs[k]).shape; };
          ASSERT_EQ(shape(*out).size(), shape(c).size());
          for (std::size_t d = 0; d < shape(c).size(); ++d)
            EXPECT_EQ(shape(*out)[d] - shape(a)[d], shape(c)[d] - shape(b)[d]) << out->node(out->order[i]).name;
        }
    }
  }
}

TEST(RespecializeZoo, EveryStaticFileTakesOtherLengthsOrSaysWhatForbidsThem) {
  if (!std::filesystem::exists(kZoo)) GTEST_SKIP() << "no zoo at " << kZoo;
  // Refused at 128: learned positions, of which nanogpt has as many as its length. No sequence of tokens: vit.
  const std::map<std::string, std::string> refused = {{"nanogpt 128", "wpe.weight"}, {"vit 48", "no input"}, {"vit 128", "no input"}};
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kZoo)) {
    if (entry.path().extension() != ".pt2") continue;
    ++files;
    const std::string name = entry.path().stem();
    const auto file = open(name);
    ASSERT_OK(file);
    for (std::int64_t seq : {48, 128}) {
      DiagnosticSink sink;
      const auto out = respecialize(file->graph, Settings{}, {file->seq, seq, file->batch, file->batch ? 3 : 0}, sink);
      const auto expected = refused.find(name + " " + std::to_string(seq));
      if (expected == refused.end()) {
        EXPECT_TRUE(out) << name << " " << seq << ": " << (out ? "" : out.error().format());
        if (out) {
          EXPECT_TRUE(ir::verifyGraph(*out)) << name;
        }
      } else {
        ASSERT_FALSE(out) << name << " " << seq;
        EXPECT_THAT(out.error().message, HasSubstr(expected->second));
      }
    }
  }
  EXPECT_GE(files, 39);
}

}  // namespace
}  // namespace spscope::passes
