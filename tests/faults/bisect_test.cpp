// SPDX-License-Identifier: Apache-2.0
// Bisecting within a pass: which of its rewrites makes the result wrong.
#include <gmock/gmock.h>

#include "core/session/bisect.h"
#include "core/session/plant.h"
#include "core/session/verify.h"
#include "passes/rewrite_count.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

class BisectRewrites : public testing::Test {
 protected:
  void open(const std::string& name, int ranks) {
    const Case what = caseOf(name, ranks);
    session::OpenRequest request;
    request.path = what.path;
    request.dtype = ir::DType::kF64;
    model_ = session::open(request, this->request()).value();
    settings_.sp = ranks;
    session::DataRequest data;
    data.inputs = what.inputs;
    sides_.state = session::loadState(*model_, data, this->request()).value();
    sides_.inputs = session::loadInputs(*model_, data, 0, this->request()).value();
    sides_.reference = session::compileUnsharded(*model_, settings_, this->request()).value();
    sides_.tolerance = exec::Tolerance::of(model_->computing_dtype);
  }
  session::Request request() { return {{}, {}, &diagnostics_}; }

  /// The pipeline with a pass that makes a mistake at its n-th rewrite of those that it asks for.
  struct Found {
    session::Bisection bisection;
    std::vector<std::string> asked;
  };
  Found bisectBroken(const std::string& pass, std::int64_t wrong, const std::function<void(ir::Graph&, const std::string& node)>& mistake) {
    Found out;
    const auto broken = [&](std::vector<passes::Pass> list) {
      for (passes::Pass& p : list)
        if (p.info.name == pass)
          p.run = [run = p.run, wrong, &mistake, &out](ir::Graph& g, const passes::PassContext& context) -> Result<bool> {
            const ir::Graph before = g;
            std::vector<std::string> all;
            {
              ir::Graph copy = g;
              const passes::RewriteCount count;
              SP_TRY(run(copy, context));
              all = count.nodes();
            }
            SP_TRY(run(g, context));
            out.asked = all;
            // Done where the n-th rewrite was allowed: the node that it rewrites is another one then, or gone.
            const std::string& node = all.at(static_cast<std::size_t>(wrong - 1));
            const auto named = [&](const ir::Graph& graph) -> const ir::Node* {
              for (const ir::NodeId id : graph.order)
                if (graph.node(id).name == node) return &graph.node(id);
              return nullptr;
            };
            const ir::Node *was = named(before), *is = named(g);
            if (was != nullptr && (is == nullptr || is->op != was->op || is->id != was->id)) mistake(g, node);
            return true;
          };
      return list;
    };
    const auto planning = broken(passes::planningPasses()), program = broken(passes::programPasses());
    const auto stages = session::stageGraphs(*model_, settings_, request(), planning, program);
    if (!stages) throw std::runtime_error(stages.error().format());
    out.bisection = session::bisect(*stages, sides_, request()).value();
    out.bisection.rewrite = session::bisectRewrites(settings_, *stages, out.bisection.pass, sides_, request(), planning, program).value();
    return out;
  }

  std::shared_ptr<const session::Model> model_;
  passes::Settings settings_;
  session::Sides sides_;
  DiagnosticSink diagnostics_;
};

TEST_F(BisectRewrites, TheAttentionThatLosesItsMask) {
  open("llama_causal_mha_pos", 2);
  const Found found = bisectBroken("lower-attention", 2, [](ir::Graph& g, const std::string& node) {
    for (const ir::NodeId id : g.order)
      if (g.node(id).name.starts_with(node) && ir::isAttention(g.node(id).op)) g.node(id).set("is_causal", false);
  });
  EXPECT_EQ(found.bisection.pass, "lower-attention");
  ASSERT_TRUE(found.bisection.rewrite);
  EXPECT_EQ(found.asked.size(), 2U);
  EXPECT_EQ(found.bisection.rewrite->application, 2);
  EXPECT_EQ(found.bisection.rewrite->applications, 2);
  EXPECT_EQ(found.bisection.rewrite->node, found.asked[1]);
}

TEST_F(BisectRewrites, TheExchangeThatIsWrong) {
  open("llama_causal_mha_pos", 2);
  const Found found = bisectBroken("insert-all-to-all", 3, [](ir::Graph& g, const std::string& node) {
    for (const ir::NodeId id : g.order) {
      ir::Node& n = g.node(id);
      if (n.op.str() != "sp.all_to_all.default" || (n.name != node && !n.name.starts_with(node + "."))) continue;
      // What it exchanges is another exchange's operand.
      for (const ir::NodeId other : g.order)
        if (other != id && g.node(other).op == n.op && g.value(ir::useArg(g.node(other), "self")).local == g.value(ir::useArg(n, "self")).local) {
          n.set("self", ir::Use{ir::useArg(g.node(other), "self")});
          return;
        }
    }
  });
  EXPECT_EQ(found.bisection.pass, "insert-all-to-all");
  ASSERT_TRUE(found.bisection.rewrite);
  EXPECT_EQ(found.bisection.rewrite->application, 3);
  EXPECT_EQ(found.bisection.rewrite->node, found.asked[2]);
  EXPECT_EQ(found.bisection.rewrite->applications, std::ssize(found.asked));
}

TEST_F(BisectRewrites, APlantedFaultIsTheLastRewriteOfItsPass) {
  open("gpt2_pos", 2);
  settings_.faults = session::resolveFaults(*model_, settings_, {"ignore-mask,seed=1"}, request()).value();
  const auto stages = session::stageGraphs(*model_, settings_, request()).value();
  session::Bisection found = session::bisect(stages, sides_, request()).value();
  EXPECT_EQ(found.pass, "lower-attention");
  const auto rewrite = session::bisectRewrites(settings_, stages, found.pass, sides_, request()).value();
  ASSERT_TRUE(rewrite);
  EXPECT_EQ(rewrite->application, rewrite->applications);
  EXPECT_EQ(rewrite->node, settings_.faults.front().node);
}

TEST_F(BisectRewrites, AWrongSumIsNamedAtItsWaitWithThePassThatMadeIt) {
  open("llama_causal_gqa_pos", 2);
  settings_.communication = "overlap";
  settings_.faults = session::resolveFaults(*model_, settings_, {"double-collective,pass=schedule"}, request()).value();
  session::CompileRequest compile;
  compile.settings = settings_;
  sides_.programs = session::programsOf(session::compile(*model_, compile, request()).value().compiled);
  const session::ValueComparison c = session::compareValues(sides_, request()).value();
  ASSERT_TRUE(c.first);
  EXPECT_EQ(c.first->node, settings_.faults.front().planted + ".wait");
  EXPECT_EQ(c.first->pass, "schedule");
}

TEST_F(BisectRewrites, ARightPassHasNone) {
  open("gpt2_pos", 2);
  const auto stages = session::stageGraphs(*model_, settings_, request()).value();
  EXPECT_EQ(session::bisect(stages, sides_, request())->pass, "");
  for (const char* pass : {"insert-all-to-all", "lower-attention", "simplify-joint"}) EXPECT_FALSE(session::bisectRewrites(settings_, stages, pass, sides_, request()).value()) << pass;
}

TEST(RewriteCount, CountsWithinItsScopeAndAllowsTheFirst) {
  ir::Graph g;
  const ir::NodeId a = g.addNode("aten.neg.default", "a"), b = g.addNode("aten.neg.default", "b");
  EXPECT_TRUE(passes::mayRewrite(g, a));
  {
    const passes::RewriteCount count(1);
    EXPECT_TRUE(passes::mayRewrite(g, a));
    EXPECT_FALSE(passes::mayRewrite(g, b));
    {
      const passes::RewriteCount inner;
      EXPECT_TRUE(passes::mayRewrite(g, b));
      EXPECT_THAT(inner.nodes(), testing::ElementsAre("b"));
    }
    EXPECT_THAT(count.nodes(), testing::ElementsAre("a", "b"));
  }
  EXPECT_TRUE(passes::mayRewrite(g, b));
}

}  // namespace
}  // namespace spscope::zoo
