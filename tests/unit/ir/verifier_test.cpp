// SPDX-License-Identifier: Apache-2.0
// Every rule of the verifier refuses what it is for, and lets a right graph pass.
#include "core/ir/verifier.h"

#include <gmock/gmock.h>

#include "core/base/codes.h"
#include "core/ir/text.h"
#include "tests/support/synthetic_graph.h"

namespace spscope::ir {
namespace {

Graph parsed(const std::string& line, const std::string& body) {
  auto g = parseGraph("// spscope-graph 1\ngraph \"t\" " + line + " {\n" + body + "}\n", "t");
  if (!g) ADD_FAILURE() << g.error().message;
  return g ? std::move(*g) : Graph{};
}
std::string codeOf(const std::string& line, const std::string& body) {
  const Status s = verifyGraph(parsed(line, body));
  if (s) return "ok";
  EXPECT_NE(findCode(s.error().code), nullptr) << s.error().code;
  return s.error().code;
}

const char* const kLocal = "local mesh(sp=2) rank=1";
const char* const kInput = "  input %x : f32{2b, 8s} user \"x\"\n";
// A shard of the sequence, 3 + 5: rank 1 holds 5.
const char* const kSlice =
    "  %s = sp.slice.default(self=%x, dim=1, blocks=[3, 5]) : f32{2b, 8s} S1[3, 5] local[2, 5] loc(\"m\", \"M\", \"m.py:7\")\n";
const std::string kSharded = std::string(kInput) + kSlice;

TEST(Verifier, AcceptsRightGraphs) {
  EXPECT_EQ(codeOf(kLocal, kSharded +
                               "  %p = aten.sum.dim_IntList(self=%s, dim=[1]) : f32{2b} P\n"
                               "  %r = sp.all_reduce.default(self=%p) : f32{2b}\n"
                               "  %g = sp.all_gather.default(self=%s, dim=1, blocks=[3, 5]) : f32{2b, 8s}\n"
                               "  %n = aten.new_zeros.default(self=%s, size=[2]) : f32{2}\n"
                               "  output user %r\n"),
            "ok");
  EXPECT_TRUE(verifyGraph(test::syntheticJoint(500)));
}

TEST(Verifier, RefusesBrokenStructure) {
  EXPECT_EQ(codeOf("global mesh()", "  %a = aten.f.default(self=%b) : f32[2]\n  %b = aten.f.default() : f32[2]\n"), "verify-use");
  EXPECT_EQ(codeOf("global mesh()", "  %a = aten.f.default() : f32[2] name=n\n  %b = aten.f.default() : f32[2] name=n\n"), "verify-name");
  EXPECT_EQ(codeOf("global mesh()", "  %a = aten.f.default() : f32[2]\n  output gradient %a\n"), "verify-output");
  EXPECT_EQ(codeOf("global mesh()", "  %a = aten.f.default() : f32[2]\n  output loss %a\n"), "verify-output");
  EXPECT_EQ(codeOf("global mesh()", "  output user _\n"), "verify-output");
  EXPECT_EQ(codeOf("global mesh(sp=2) rank=2", ""), "verify-placement");

  Graph g = parsed("global mesh()", "  %a = aten.f.default() : f32[2] #0\n  %b = aten.g.default(self=%a) : f32[2] #1\n");
  ASSERT_TRUE(verifyGraph(g));
  Graph twice = g;
  twice.order.push_back(0);
  EXPECT_EQ(verifyGraph(twice).error().code, "verify-ids");
  Graph dead = g;
  dead.order = {1};
  EXPECT_EQ(verifyGraph(dead).error().code, "verify-use");
  Graph alias = g;
  alias.value(alias.node(0).outputs[0]).storage = alias.node(1).outputs[0];
  ASSERT_TRUE(verifyGraph(alias));
  alias.order = {0};
  EXPECT_EQ(verifyGraph(alias).error().code, "verify-use") << "storage of a dead value";
  Graph wild = g;
  wild.node(1).set("self", Use{99});
  EXPECT_EQ(verifyGraph(wild).error().code, "verify-ids");
  Graph other = g;
  other.value(other.node(1).outputs[0]).producer = 0;
  EXPECT_EQ(verifyGraph(other).error().code, "verify-ids");
}

TEST(Verifier, RefusesWrongPlacementsAndLocalShapes) {
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32[2, 8] user \"x\"\n"), "verify-placement") << "no factors";
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2, 8} S2[4, 4] user \"x\"\n"), "verify-placement") << "no such dimension";
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2, 8} S1.1[4, 4] user \"x\"\n"), "verify-placement") << "no such factor";
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2, 8} S1[4, 3] user \"x\"\n"), "verify-placement") << "sum";
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2, 8} S1[8] user \"x\"\n"), "verify-placement") << "one size per rank";
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2, 8} global[2, 9] user \"x\"\n"), "verify-placement") << "product";
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2, 8} S1[3, 5] local[2, 3] user \"x\"\n"), "verify-local");
  EXPECT_EQ(codeOf(kLocal, "  input %x : f32{2*8s} S0.1[3, 5] local[10] user \"x\"\n"), "ok");
  EXPECT_EQ(codeOf("global mesh()", "  input %x : f32[8] local[4] user \"x\"\n"), "verify-local");
}

TEST(Verifier, RefusesReplicatedResultsOfShardedOperands) {
  const auto s = verifyGraph(parsed(kLocal, kSharded + "  %r = aten.relu.default(self=%s) : f32{2b, 8s} loc(\"m\", \"M\", \"m.py:9\")\n"));
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, "verify-replicated");
  EXPECT_EQ(s.error().node, "%r");
  EXPECT_EQ(s.error().source, "m.py:9");
  EXPECT_EQ(codeOf(kLocal, std::string(kInput) + "  %r = aten.relu.default(self=%x) : f32{2b, 8s} S1[3, 5] local[2, 5]\n"),
            "verify-replicated");
  // type_as reads only the type of its second operand, but the elements of its first.
  EXPECT_EQ(codeOf(kLocal, kSharded + "  %r = aten.type_as.default(self=%x, other=%s) : f32{2b, 8s}\n"), "ok");
  EXPECT_EQ(codeOf(kLocal, kSharded + "  %r = aten.type_as.default(self=%s, other=%x) : f32{2b, 8s}\n"), "verify-replicated");
}

TEST(Verifier, CopiesOfAReplicatedValueMayBeSplit) {
  const auto expand = [](const char* type) {
    return codeOf(kLocal, std::string(kInput) + "  %u = aten.unsqueeze.default(self=%x, dim=0) : f32{1, 2b, 8s}\n"
                                                "  %e = aten.expand.default(self=%u, size=[3, 2, 8]) : " + type + "\n");
  };
  EXPECT_EQ(expand("f32{4x, 2b, 8s} S0[1, 3] local[3, 2, 8]"), "ok");
  EXPECT_EQ(expand("f32{4, 2b, 8s} S0[1, 3] local[3, 2, 8]"), "verify-replicated");
}

TEST(Verifier, RefusesMutationAfterPlanning) {
  const std::string body = std::string(kInput) + "  %y = aten.add_.Tensor(self=%x, other=%x) : f32{2b, 8s}\n";
  EXPECT_EQ(codeOf("planned mesh(sp=2)", body), "verify-mutation");
  EXPECT_EQ(codeOf("global mesh(sp=2)", body), "ok");
  EXPECT_EQ(codeOf("planned mesh(sp=2)", std::string(kInput) + "  %y = aten.__and__.Tensor(self=%x, other=%x) : f32{2b, 8s}\n"), "ok");
}

TEST(Verifier, ChecksCollectivesAgainstTheirBlocks) {
  const auto gather = [](const std::string& args, const std::string& type) {
    return codeOf(kLocal, kSharded + "  %g = sp.all_gather.default(self=%s, " + args + ") : " + type + "\n");
  };
  EXPECT_EQ(gather("dim=1, blocks=[3, 5]", "f32{2b, 8s}"), "ok");
  EXPECT_EQ(gather("dim=1, blocks=[5, 3]", "f32{2b, 8s}"), "verify-collective") << "not this rank's block";
  EXPECT_EQ(gather("dim=2, blocks=[3, 5]", "f32{2b, 8s}"), "verify-collective");
  EXPECT_EQ(gather("dim=1, blocks=[8]", "f32{2b, 8s}"), "verify-collective");
  EXPECT_EQ(gather("dim=1", "f32{2b, 8s}"), "verify-collective");
  EXPECT_EQ(gather("dim=1, blocks=[3, 5]", "f32{2b, 9s}"), "verify-collective") << "result's shape";
  EXPECT_EQ(gather("dim=1, blocks=[3, 5]", "f64{2b, 8s}"), "verify-collective") << "type";
  EXPECT_EQ(codeOf(kLocal, kSharded + "  %g = sp.all_reduce.default(self=%s) : f32{2b, 8s} S1[3, 5] local[2, 5]\n"),
            "verify-collective") << "sharded operand";
  const std::string abstract = kSharded + "  %g = sp.redistribute.default(self=%s) : f32{2b, 8s}\n";
  EXPECT_EQ(codeOf(kLocal, abstract), "ok");
  EXPECT_EQ(codeOf("joint mesh(sp=2) rank=1", abstract), "verify-collective");
}

TEST(Verifier, ChecksPhasesAndGradientsOfTheJointGraph) {
  EXPECT_EQ(codeOf("joint mesh()", "  %a = aten.f.default() : f32[2] backward\n  %b = aten.f.default() : f32[2]\n"), "verify-phase");
  EXPECT_EQ(codeOf("joint mesh()", "  %a = aten.f.default() : f32[2] backward\n  %b = aten.f.default() : f32[2] recompute\n"), "ok");
  const std::string weight = "  input %w : f32[2] parameter \"w\" trainable\n";
  EXPECT_EQ(codeOf("joint mesh()", weight + "  %g = aten.f.default() : f32[2]\n  output gradient %g of=0\n"), "ok");
  EXPECT_EQ(codeOf("joint mesh()", weight + "  %g = aten.f.default() : f32[3]\n  output gradient %g of=0\n"), "verify-gradient");
}

TEST(CollectiveSequence, IsTheSameForEveryClassOfRanks) {
  const auto sequence = [](int rank, const char* local, const char* heads) {
    const Graph g = parsed("local mesh(sp=2) rank=" + std::to_string(rank),
                           std::string("  input %x : f32{2b, 8s, 3} S1[3, 5] local[2, ") + local + ", 3] user \"x\"\n" +
                               "  %h = sp.all_to_all.default(self=%x, gather_dim=1, gather_blocks=[3, 5], scatter_dim=2, "
                               "scatter_blocks=[2, 1]) : f32{2b, 8s, 3} S2[2, 1] local[2, 8, " + heads + "]\n");
    EXPECT_TRUE(verifyGraph(g));
    return collectiveSequence(g).value();
  };
  EXPECT_EQ(sequence(0, "3", "2"), "all_to_all forward gather=1(3, 5) scatter=2(2, 1) f32[2, 8, 3]\n");
  EXPECT_EQ(sequence(1, "5", "1"), sequence(0, "3", "2"));
}

}  // namespace
}  // namespace spscope::ir
