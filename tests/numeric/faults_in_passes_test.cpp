// SPDX-License-Identifier: Apache-2.0
// Mistakes of a pass: bisection names it, wrong programs of exchanges never pass for right ones, and what the checks of the IR know is
// refused before anything runs.
#include "tests/numeric/faults_fixture.h"

namespace spscope::zoo {
namespace {

// --- which pass it was ----------------------------------------------------------------------------------------------

TEST_F(Faults, NoPassIsBlamedForARightProgram) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("", {});
  EXPECT_EQ(found.pass, "");
  EXPECT_EQ(found.stages.size(), 1 + passes::planningPasses().size() + passes::programPasses().size());
  std::map<std::string, std::string> judged;
  for (const session::BisectStage& s : found.stages) judged[s.pass] = s.judged_by;
  EXPECT_EQ(judged["functionalize"], "loss");
  EXPECT_EQ(judged["plan-sequence"], "");  // cannot run
  EXPECT_EQ(judged["insert-all-to-all"], "values");
  EXPECT_EQ(judged["parallelize-loss"], "loss");
  EXPECT_EQ(judged["overlap-collectives"], "loss and gradients");
}

TEST_F(Faults, ThePassThatLosesTheMaskIsFound) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("lower-attention", [](Graph& g) {
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("is_causal", false);
  });
  EXPECT_EQ(found.pass, "lower-attention");
  EXPECT_THAT(found.suspects, testing::ElementsAre("lower-attention"));
  EXPECT_EQ(found.stages.back().judged_by, "loss");
}

TEST_F(Faults, WhatCannotRunBeforeItIsSuspectedToo) {
  use("llama_causal_gqa_pos", 4);
  const session::Bisection found = bisect("insert-all-to-all", [](Graph& g) {  // scores that are not scaled: the placements stay right
    for (const NodeId id : g.order)
      if (ir::isAttention(g.node(id).op)) g.node(id).set("scale", 1.0);
  });
  EXPECT_EQ(found.pass, "insert-all-to-all");
  EXPECT_THAT(found.suspects, testing::ElementsAre("plan-sequence", "shard-sequence", "insert-all-to-all"));
  EXPECT_EQ(found.stages.back().judged_by, "values");
}

TEST_F(Faults, ThePassThatCountsWronglyIsFound) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("parallelize-loss", [](Graph& g) {
    const NodeId mean = find(g, "aten.div.Tensor", [](const Node& n) { return n.name.find("_mean") != std::string::npos; });
    g.node(mean).op = "aten.mul.Tensor";
  });
  EXPECT_EQ(found.pass, "parallelize-loss");
}

TEST_F(Faults, ThePassThatLosesASumInTheBackwardIsFound) {
  use("llama_causal_gqa_pos");
  const session::Bisection found = bisect("schedule", [](Graph& g) { drop(g, find(g, "sp.all_reduce.default", backward)); });
  EXPECT_EQ(found.pass, "schedule");
  EXPECT_EQ(found.stages.back().judged_by, "loss and gradients");
  EXPECT_LE(found.stages.back().loss_rel, 1e-10);
  EXPECT_GT(found.stages.back().grad_rel_max, 0.1);
}

TEST_F(Faults, RanksThatIssueOtherCollectivesDoNotStart) {
  use("llama_causal_gqa_pos");
  std::vector<std::shared_ptr<const exec::Program>> programs;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto graph = std::make_shared<Graph>(*compiled_.compiled.programs.front());
    if (rank == 1) drop(*graph, find(*graph, "sp.all_reduce.default", backward));
    programs.push_back(exec::Program::prepare(graph, {rank, kRanks, false}).value());
  }
  const auto ranks = exec::VirtualRanks::create(std::move(programs));
  ASSERT_FALSE(ranks);
  EXPECT_EQ(ranks.error().code, "rank-programs-differ");
}

/// Mistakes in exchanges, before they are fused. Sizes that do not fit need not run; nothing may call them equal.
TEST_F(Faults, ExchangesOfOtherPartsOrSizes) {
  use("llama_causal_mha_pos");
  const auto exchange = [](Graph& g) -> Node& { return g.node(find(g, "sp.all_to_all.default", forward)); };
  const Mistake other_offset = [&](Graph& g, int) {  // each rank gives its neighbour's heads away
    const NodeId id = find(g, "sp.all_to_all.default", forward);
    const ValueId operand = ir::useArg(g.node(id), "self");
    const std::int64_t dim = ir::intArg(g.node(id), "scatter_dim", -1);
    const NodeId producer = g.value(operand).producer;
    const ValueId rolled = insert(g, producer, "aten.roll.default",
                                  {{"self", Use{operand}}, {"shifts", std::vector<std::int64_t>{1}}, {"dims", std::vector<std::int64_t>{dim}}},
                                  operand, g.value(operand).local);
    g.node(id).set("self", Use{rolled});
  };
  const Seen seen = see(other_offset);
  EXPECT_FALSE(seen.equal);
  EXPECT_GT(seen.loss_rel, 1e-6);
  for (const char* blocks : {"gather_blocks", "scatter_blocks"})
    for (const Issued issued : {Issued::kPlain, Issued::kOverlapped}) {
      SCOPED_TRACE(blocks);
      const auto result = compare(issued, [&](Graph& g, int) {
        ir::Dims sizes = *ir::intListArg(exchange(g), blocks);
        --sizes.front();
        ++sizes.back();
        exchange(g).set(blocks, sizes);
      });
      EXPECT_FALSE(result && result->equal);
    }
}

/// Mistakes that only a fused, started program can have.
TEST_F(Faults, InWhatIsIssued) {
  use("llama_causal_mha_pos");
  const auto startOf = [](const Graph& g, const char* op, std::size_t parts) {
    return find(g, op, [&](const Node& n) { return ir::partCount(n) >= parts; });
  };
  const auto operands = [](Graph& g, NodeId start) { return std::get<ir::UseList>(*g.node(start).find("self")); };
  const auto waitOf = [](const Graph& g, NodeId start) {
    return find(g, "sp.wait.default", [&](const Node& n) { return std::get<ir::UseList>(*n.find("self")).front().value == g.node(start).outputs[0]; });
  };
  const Mistake none = [](Graph&, int) {};
  const auto right = compare(Issued::kOverlapped, none, none);
  ASSERT_TRUE(right) << right.error().format();
  ASSERT_TRUE(right->equal);

  const std::map<std::string, Mistake> mistakes = {
      {"operands of an exchange in another order",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_to_all_start.default", 2);
         ir::UseList list = operands(g, start);
         std::swap(list[0], list[1]);
         g.node(start).set("self", std::move(list));
       }},
      {"a gradient of a bucket that is taken before the sum",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_reduce_start.default", 2);
         const ValueId own = operands(g, start)[0].value, sum = g.node(waitOf(g, start)).outputs[0];
         const NodeId copy = g.addNode("aten.clone.default", "fault");
         g.node(copy).args = {{"self", Use{own}}};
         g.node(copy).phase = g.node(start).phase;
         const ValueId kept = g.addOutput(copy, g.value(own).dtype, g.value(own).local);
         g.order.insert(std::find(g.order.begin(), g.order.end(), start), copy);
         g.replaceAllUses(sum, kept);
       }},
      {"a gradient of a bucket that is summed again",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_reduce_start.default", 2);
         const NodeId wait = waitOf(g, start);
         const ValueId sum = g.node(wait).outputs[0];
         const NodeId again = g.addNode("sp.all_reduce.default", "fault");
         g.node(again).args = {{"self", Use{sum}}};
         g.node(again).phase = g.node(start).phase;
         const ValueId twice = g.addOutput(again, g.value(sum).dtype, g.value(sum).local);
         g.replaceAllUses(sum, twice);
         g.node(again).set("self", Use{sum});
         g.order.insert(std::find(g.order.begin(), g.order.end(), wait) + 1, again);
       }},
      {"parts of other sizes",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_to_all_start.default", 1);
         ir::Dims sizes = *ir::intListArg(g.node(start), "scatter_blocks");
         --sizes[0], ++sizes[1];
         g.node(start).set("scatter_blocks", sizes);
       }},
      {"parts that are put together along another dimension's sizes",
       [&](Graph& g, int) {
         const NodeId unpack = find(g, "sp.unpack.default");
         ir::Dims sizes = *ir::intListArg(g.node(unpack), "blocks");
         --sizes.front(), ++sizes.back();
         g.node(unpack).set("blocks", sizes);
       }},
      {"an exchange that nobody waits for",
       [&](Graph& g, int) {
         const NodeId start = startOf(g, "sp.all_reduce_start.default", 2);
         const NodeId wait = waitOf(g, start);
         for (std::size_t i = 0; i < ir::partCount(g.node(start)); ++i) g.replaceAllUses(g.node(wait).outputs[i], g.node(start).outputs[i]);
         std::erase(g.order, wait);
       }},
  };
  for (const auto& [what, mistake] : mistakes) {
    SCOPED_TRACE(what);
    const auto result = compare(Issued::kOverlapped, none, mistake);
    EXPECT_FALSE(result && result->equal);
  }
}

TEST_F(Faults, AMissingVaryIsSeenBeforeAnythingRuns) {
  use("llama_causal_gqa_pos");
  std::shared_ptr<const Graph> local;
  for (const auto& stage : compiled_.compiled.stages)
    if (stage.name == "lower-attention") local = stage.graph;
  ASSERT_TRUE(local);
  const auto ofKeys = [](const Node& n) { return n.location && n.location->module_path.find("k_proj") != std::string::npos; };
  for (const bool with_mistake : {false, true}) {
    auto graph = std::make_shared<Graph>(*local);
    if (with_mistake) drop(*graph, find(*graph, "sp.vary.default", ofKeys));
    const auto services = exec::makeOpServices();
    passes::PassContext context{.settings = settings_};
    context.services = services.get();
    const auto result = passes::runPipeline(graph, {*passes::findPass("build-joint"), *passes::findPass("sync-gradients")}, context, {});
    ASSERT_EQ(result.failure.has_value(), with_mistake);
    if (!with_mistake) continue;
    EXPECT_EQ(result.failure->code, "gradient-incomplete");
    EXPECT_THAT(result.failure->message, testing::HasSubstr("k_proj.weight"));
    EXPECT_EQ(result.failed_pass, "sync-gradients");
  }
}

TEST_F(Faults, ASumTakenTwiceIsSeenBeforeAnythingRuns) {
  use("llama_causal_gqa_pos");
  std::shared_ptr<const Graph> joint;
  for (const auto& stage : compiled_.compiled.stages)
    if (stage.name == "build-joint") joint = stage.graph;
  ASSERT_TRUE(joint);
  auto graph = std::make_shared<Graph>(*joint);
  const NodeId sum = find(*graph, "sp.all_reduce.default", backward);
  const ValueId once = graph->node(sum).outputs[0];
  const ValueId twice = insert(*graph, sum, "sp.all_reduce.default", {{"self", Use{once}}}, once, graph->value(once).local);
  for (ir::Output& out : graph->outputs)
    if (out.value == once) out.value = twice;
  passes::PassContext context{.settings = settings_};
  const auto result = passes::runPipeline(graph, {*passes::findPass("sync-gradients")}, context, {});
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, "gradient-repeated");
}

}  // namespace
}  // namespace spscope::zoo
