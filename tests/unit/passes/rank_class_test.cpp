// SPDX-License-Identifier: Apache-2.0
// rankClass: two ranks share a program exactly when shard-sequence makes the same one for both.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/ir/text.h"
#include "passes/manager.h"
#include "passes/sequence/shard_sequence.h"

namespace spscope::passes {
namespace {

ir::Graph planned(int ranks, const std::string& body) {
  auto graph = ir::parseGraph("// spscope-graph 1\ngraph \"t\" planned mesh(sp=" + std::to_string(ranks) + ") {\n" + body + "}\n", "t");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  return graph ? std::move(*graph) : ir::Graph{};
}

/// Classes as numbers by first appearance: {0, 1, 1, 2}.
std::vector<int> classesOf(const ir::Graph& graph) {
  std::vector<std::string> known;
  std::vector<int> out;
  for (int rank = 0; rank < graph.mesh.sizeOf("sp"); ++rank) {
    const std::string key = rankClass(graph, rank);
    std::size_t i = 0;
    while (i < known.size() && known[i] != key) ++i;
    if (i == known.size()) known.push_back(key);
    out.push_back(static_cast<int>(i));
  }
  return out;
}

/// The same by the programs themselves: their text without the rank's number.
std::vector<int> programsOf(const ir::Graph& graph) {
  std::vector<std::string> known;
  std::vector<int> out;
  Settings settings;
  settings.sp = graph.mesh.sizeOf("sp");
  for (int rank = 0; rank < settings.sp; ++rank) {
    const PassContext context{.settings = settings, .rank = rank};
    PipelineResult result = runPipeline(std::make_shared<ir::Graph>(graph), {shardSequencePass()}, context, {});
    EXPECT_FALSE(result.failure) << result.failure->format();
    ir::Graph program = *result.graph;
    program.rank = 0;
    const std::string text = ir::printGraph(program);
    std::size_t i = 0;
    while (i < known.size() && known[i] != text) ++i;
    if (i == known.size()) known.push_back(text);
    out.push_back(static_cast<int>(i));
  }
  return out;
}

TEST(RankClass, EvenBlocksAreOneClass) {
  const ir::Graph g = planned(4,
                              "  input %x : f32{8s} user \"x\"\n"
                              "  %r = sp.redistribute.default(self=%x) : f32{8s} S0[2, 2, 2, 2]\n"
                              "  output user %r\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(programsOf(g), classesOf(g));
}

TEST(RankClass, UnevenBlocksAreTwo) {
  const ir::Graph g = planned(4,
                              "  input %x : f32{6s} user \"x\"\n"
                              "  %r = sp.redistribute.default(self=%x) : f32{6s} S0[2, 2, 1, 1]\n"
                              "  output user %r\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(programsOf(g), classesOf(g));
}

TEST(RankClass, EqualBlocksButOtherPartsOfThem) {
  // [:, 1:-1] leaves one token on the first and on the last rank, not the same one.
  const ir::Graph g = planned(3,
                              "  input %x : f32{6s} user \"x\"\n"
                              "  %r = sp.redistribute.default(self=%x) : f32{6s} S0[2, 2, 2]\n"
                              "  %y = aten.slice.Tensor(self=%r, dim=0, start=1, end=-1) : f32{4s} S0[1, 2, 1]\n"
                              "  output user %y\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(programsOf(g), classesOf(g));
}

TEST(RankClass, AShiftMakesFirstInnerAndLast) {
  const std::string cut =
      "  input %x : f32{8s} user \"x\"\n"
      "  %r = sp.redistribute.default(self=%x) : f32{8s} S0[2, 2, 2, 2]\n";
  const ir::Graph g = planned(4, cut +
                                     "  %y = aten.pad.default(self=%r, pad=[1, -1]) : f32{8s} S0[3, 2, 2, 1]\n"
                                     "  output user %y\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 1, 1, 2}));
  EXPECT_EQ(programsOf(g), classesOf(g));
}

TEST(RankClass, APadOnOneSideMakesTwo) {
  const ir::Graph g = planned(3,
                              "  input %x : f32{6s} user \"x\"\n"
                              "  %r = sp.redistribute.default(self=%x) : f32{6s} S0[2, 2, 2]\n"
                              "  %y = aten.pad.default(self=%r, pad=[0, 1]) : f32{7s} S0[2, 2, 3]\n"
                              "  output user %y\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(programsOf(g), classesOf(g));
}

TEST(RankClass, AShiftOnBlocksThatHideIt) {
  // Blocks of 1, 2, 2 and 3 before the shift are 2 everywhere after it: only the pads tell the ranks apart.
  const ir::Graph g = planned(4,
                              "  input %x : f32{8s} S0[1, 2, 2, 3] user \"x\"\n"
                              "  %y = aten.pad.default(self=%x, pad=[1, -1]) : f32{8s} S0[2, 2, 2, 2]\n"
                              "  output user %y\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 1, 1, 2}));
}

TEST(RankClass, WholeValuesMakeNoDifference) {
  const ir::Graph g = planned(2,
                              "  input %x : f32{8s} user \"x\"\n"
                              "  %y = aten.slice.Tensor(self=%x, dim=0, start=1, end=8) : f32{7s}\n"
                              "  output user %y\n");
  EXPECT_EQ(classesOf(g), (std::vector<int>{0, 0}));
  EXPECT_EQ(programsOf(g), classesOf(g));
}

}  // namespace
}  // namespace spscope::passes
