// SPDX-License-Identifier: Apache-2.0
// The manager: order, honesty, verification, restoring, reproducers, cancellation, and what all that costs.
#include "passes/manager.h"

#include <gmock/gmock.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/ir/hash.h"
#include "core/ir/text.h"
#include "core/ir/verifier.h"
#include "passes/comm/comm_bytes.h"
#include "passes/registry.h"
#include "tests/support/synthetic_graph.h"

namespace spscope::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Pass joint(std::string name, std::function<Result<bool>(ir::Graph&, const PassContext&)> run) {
  Pass p;
  p.info.name = std::move(name);
  p.info.needs = p.info.ensures = ir::Form::kJoint;
  p.run = std::move(run);
  return p;
}

/// Marks one node in a hundred, from `offset` on.
Result<bool> touch(ir::Graph& g, int offset) {
  for (std::size_t i = static_cast<std::size_t>(offset); i < g.order.size(); i += 100) g.node(g.order[i]).must_save ^= true;
  return true;
}

class Manager : public ::testing::Test {
 protected:
  std::shared_ptr<const ir::Graph> graph_ = std::make_shared<ir::Graph>(test::syntheticJoint(500));
  Settings settings_;
  PassContext context_{settings_};
  ManagerOptions options_;
};

TEST_F(Manager, RecordsWhatEachPassDid) {
  const std::vector<Pass> passes = {
      joint("first", [](ir::Graph& g, const PassContext& c) {
        c.count("seen", 3);
        c.diagnostics->remark("attention-math", "a remark");
        return touch(g, 1);
      }),
      joint("nothing", [](ir::Graph&, const PassContext&) -> Result<bool> { return false; }),
  };
  std::vector<std::string> progress;
  options_.progress = [&](const Progress& p) { progress.emplace_back(p.what); };
  const PipelineResult r = runPipeline(graph_, passes, context_, options_);
  ASSERT_FALSE(r.failure);
  ASSERT_EQ(r.stages.size(), 2u);
  EXPECT_TRUE(r.stages[0].changed);
  EXPECT_EQ(r.stages[0].changed_nodes, 5);
  EXPECT_EQ(r.stages[0].nodes, 500);
  EXPECT_EQ(r.stages[0].statistics.at("seen"), 3);
  ASSERT_EQ(r.stages[0].diagnostics.size(), 1u);
  EXPECT_TRUE(r.stages[1].statistics.empty()) << "each pass has its own";
  EXPECT_TRUE(r.stages[1].diagnostics.empty());
  EXPECT_FALSE(r.stages[1].changed);
  EXPECT_EQ(r.stages[1].graph, r.stages[0].graph) << "an unchanged stage shares the graph";
  EXPECT_EQ(r.graph, r.stages[1].graph);
  EXPECT_GT(r.stages[0].ns, 0);
  EXPECT_THAT(progress, ElementsAre("first", "nothing"));
  EXPECT_FALSE(graph_->node(graph_->order[1]).must_save) << "the graph given is not touched";
}

TEST_F(Manager, CatchesPassesThatLie) {
  const Pass silent = joint("silent", [](ir::Graph& g, const PassContext&) -> Result<bool> { return touch(g, 0).value() && false; });
  const Pass boasting = joint("boasting", [](ir::Graph&, const PassContext&) -> Result<bool> { return true; });
  for (const Pass& pass : {silent, boasting}) {
    const PipelineResult r = runPipeline(graph_, {pass}, context_, options_);
    ASSERT_TRUE(r.failure);
    EXPECT_EQ(r.failure->code, "pass-dishonest");
    EXPECT_EQ(r.failed_pass, pass.info.name);
    EXPECT_EQ(r.graph, graph_) << "the graph of the stage before";
  }
}

TEST_F(Manager, StopsAtABrokenGraphAndWritesAReproducer) {
  const std::string dir = (std::filesystem::path(::testing::TempDir()) / "spscope-reproducers").string();
  std::filesystem::remove_all(dir);
  options_.reproducer_dir = dir;
  const std::vector<Pass> passes = {
      joint("good", [](ir::Graph& g, const PassContext&) { return touch(g, 0); }),
      joint("bad", [](ir::Graph& g, const PassContext&) -> Result<bool> {
        g.order.erase(g.order.begin() + 10);
        return true;
      }),
      joint("never", [](ir::Graph&, const PassContext&) -> Result<bool> { std::abort(); }),
  };
  const PipelineResult r = runPipeline(graph_, passes, context_, options_);
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->code, "verify-use");
  EXPECT_EQ(r.failed_pass, "bad");
  ASSERT_EQ(r.stages.size(), 1u);
  EXPECT_EQ(r.graph, r.stages[0].graph);
  ASSERT_FALSE(r.reproducer.empty());
  std::ostringstream text;
  text << std::ifstream(r.reproducer).rdbuf();
  const auto back = ir::parseGraphText(text.str(), "reproducer");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back->header.find("pass"), "bad");
  EXPECT_EQ(*back->header.find("sp"), "2");
  EXPECT_THAT(*back->header.find("failure"), HasSubstr("verify-use"));
  EXPECT_EQ(ir::contentHash(back->graph), ir::contentHash(*r.graph)) << "the input of the pass that failed";
  std::filesystem::remove_all(dir);

  options_.verify = false;
  EXPECT_FALSE(runPipeline(graph_, {passes[0], passes[1]}, context_, options_).failure);
}

TEST_F(Manager, TurnsRefusalsFormsAndExceptionsIntoErrors) {
  options_.reproducer_dir = ::testing::TempDir();
  Pass refusing = joint("refusing", [](ir::Graph&, const PassContext&) -> Result<bool> { std::abort(); });
  refusing.checkLegal = [](const ir::Graph&, const PassContext&) -> Status { return makeError("random-op-sharded", "no"); };
  const PipelineResult refused = runPipeline(graph_, {refusing}, context_, options_);
  EXPECT_EQ(refused.failure->code, "random-op-sharded");
  EXPECT_TRUE(refused.reproducer.empty()) << "a refusal is no fault";
  Pass wrong_form = joint("wrong-form", [](ir::Graph&, const PassContext&) -> Result<bool> { std::abort(); });
  wrong_form.info.needs = ir::Form::kGlobal;
  EXPECT_EQ(runPipeline(graph_, {wrong_form}, context_, options_).failure->code, "pass-form");
  options_.reproducer_dir.clear();
  const Pass throwing = joint("throwing", [](ir::Graph&, const PassContext&) -> Result<bool> { throw std::bad_alloc(); });
  EXPECT_EQ(runPipeline(graph_, {throwing}, context_, options_).failure->code, "internal");
}

TEST_F(Manager, StopsBetweenPassesWhenCancelled) {
  const std::vector<Pass> passes = {
      joint("cancels", [](ir::Graph& g, const PassContext& c) {
        c.cancel.cancel();
        return touch(g, 0);
      }),
      joint("never", [](ir::Graph&, const PassContext&) -> Result<bool> { std::abort(); }),
  };
  const PipelineResult r = runPipeline(graph_, passes, context_, options_);
  EXPECT_EQ(r.failure->code, "cancelled");
  EXPECT_EQ(r.stages.size(), 1u);
}

TEST_F(Manager, CostsLittle) {
  graph_ = std::make_shared<ir::Graph>(test::syntheticJoint(5000));
  std::vector<Pass> passes;
  for (int i = 0; i < 11; ++i)
    passes.push_back(joint("touch-" + std::to_string(i), [i](ir::Graph& g, const PassContext&) { return touch(g, i); }));
  double ms = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    const PipelineResult r = runPipeline(graph_, passes, context_, options_);
    ms = std::min(ms, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    ASSERT_EQ(r.stages.size(), 11u);
  }
  std::printf("11 passes over 5000 nodes: %.1f ms for copies, hashes, verifier and diffs\n", ms);
  EXPECT_LT(ms, 600) << "10 times the budget";
}

ir::Graph local(int rank, const std::string& body) {
  auto g = ir::parseGraph("// spscope-graph 1\ngraph \"t\" local mesh(sp=4) rank=" + std::to_string(rank) + " {\n" + body + "}\n", "t");
  EXPECT_TRUE(g) << g.error().message;
  return std::move(*g);
}

TEST(CommBytes, OfRingsAndExchanges) {
  const ir::Graph g = local(1,
      "  input %x : f32{2b, 10s, 6} S1[1, 2, 3, 4] local[2, 2, 6] user \"x\"\n"
      "  %h = sp.all_to_all.default(self=%x, gather_dim=1, gather_blocks=[1, 2, 3, 4], scatter_dim=2, scatter_blocks=[2, 2, 1, 1]) : f32{2b, 10s, 6} S2[2, 2, 1, 1] local[2, 10, 2]\n"
      "  %g = sp.all_gather.default(self=%x, dim=1, blocks=[1, 2, 3, 4]) : f32{2b, 10s, 6}\n"
      "  %p = aten.sum.dim_IntList(self=%x, dim=[1]) : f32{2b, 6} P\n"
      "  %r = sp.all_reduce.default(self=%p) : f32{2b, 6}\n"
      "  %v = sp.vary.default(self=%r) : f32{2b, 6}\n");
  ASSERT_TRUE(ir::verifyGraph(g));
  // all_to_all: this rank holds 2*2*6 elements and keeps 2 of 6 columns; all_gather: 3/4 of 120; all_reduce: 2 * 3/4 of 12.
  const std::vector<CollectiveTotal> totals = collectiveTotals(g);
  ASSERT_EQ(totals.size(), 3u);
  EXPECT_EQ(totals[0].kind, "all_gather");
  EXPECT_EQ(totals[0].bytes, 120 * 4 * 3 / 4);
  EXPECT_EQ(totals[1].kind, "all_reduce");
  EXPECT_EQ(totals[1].bytes, 2 * 12 * 4 * 3 / 4);
  EXPECT_EQ(totals[2].kind, "all_to_all");
  EXPECT_EQ(totals[2].count, 1);
  EXPECT_EQ(totals[2].bytes, 2 * 2 * (6 - 2) * 4);
  EXPECT_EQ(totalSentBytes(g), totals[0].bytes + totals[1].bytes + totals[2].bytes);
}

TEST(CommBytes, WhatRanksSendInAnExchangeIsWhatTheyReceive) {
  const ir::Dims seq = {0, 5, 3, 2}, heads = {3, 1, 0, 2};
  std::int64_t sent = 0, expected = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const auto s = std::to_string(seq[static_cast<std::size_t>(rank)]), h = std::to_string(heads[static_cast<std::size_t>(rank)]);
    const ir::Graph g = local(rank,
        "  input %x : f64{10s, 6} S0[0, 5, 3, 2] local[" + s + ", 6] user \"x\"\n"
        "  %h = sp.all_to_all.default(self=%x, gather_dim=0, gather_blocks=[0, 5, 3, 2], scatter_dim=1, scatter_blocks=[3, 1, 0, 2]) : f64{10s, 6} S1[3, 1, 0, 2] local[10, " + h + "]\n");
    sent += totalSentBytes(g);
    for (int other = 0; other < 4; ++other)
      if (other != rank) expected += seq[static_cast<std::size_t>(rank)] * heads[static_cast<std::size_t>(other)] * 8;
  }
  EXPECT_EQ(sent, expected);
}

TEST(Registry, NamesEveryPassOnceAndDescribesIt) {
  for (const Pass& pass : allPasses()) {
    EXPECT_EQ(findPass(pass.info.name), &pass);
    EXPECT_FALSE(pass.info.summary.empty()) << pass.info.name;
    EXPECT_TRUE(pass.run) << pass.info.name;
  }
  EXPECT_EQ(findPass("no-such-pass"), nullptr);
}

}  // namespace
}  // namespace spscope::passes
