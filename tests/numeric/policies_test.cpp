// SPDX-License-Identifier: Apache-2.0
// The memory policies on real models: gradients stay exact under each, a smaller budget never takes more memory, neither
// predicted nor measured, and what the user marked or drew at random is made once.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

const std::vector<std::string> kPolicies = {"all", "min-cut", "layer-inputs", "budget=0", "budget=0.25", "budget=0.5", "budget=1"};

class Policies : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Policies, GradientsAreTheReference) {
  const auto& [model, ranks] = GetParam();
  const Json ref = reference(model);
  for (const std::string& policy : kPolicies) {
    SCOPED_TRACE(policy);
    Case what = caseOf(model, ranks);
    what.save = policy;
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    expectEqual(*verified);
    const auto& figures = verified->outcome.compiled.figures;
    if (policy == "layer-inputs") {
      EXPECT_GT(figures.recomputed_collectives, 0) << "the exchanges around attention";
      EXPECT_GT(figures.recomputed_attention, 0);
      EXPECT_GT(figures.recomputed_matmul, 0);
    } else {
      EXPECT_EQ(figures.recomputed_collectives, 0);
    }
    if (policy == "all" || policy == "budget=1") { EXPECT_EQ(figures.recomputed_nodes, 0); }
    if (policy == "min-cut" || policy == "budget=0") { EXPECT_GT(figures.recomputed_nodes, 0); }
    if (policy == "min-cut") { EXPECT_EQ(figures.recomputed_matmul + figures.recomputed_attention, 0); }
    const Distance far = distance(verified->outcome.loss, verified->gradients, ref, "f64");
    EXPECT_LE(far.loss, 1e-10);
    EXPECT_LE(far.gradient, 1e-8) << far.worst;
  }
}
INSTANTIATE_TEST_SUITE_P(Zoo, Policies,
                         testing::Combine(testing::Values("llama_causal_gqa_pos", "gpt2_pos", "bert_pos", "nanogpt", "mixtral_batched_pos",
                                                          "phi3_pos", "llama_packed_pos"),
                                          testing::Values(2, 3)),
                         nameWithRanks);

// What torch 2.15's partitioner keeps of these graphs on one rank (tests/data/min_cut.py).
TEST(MinCut, KeepsWhatPyTorchsPartitionerKeeps) {
  const std::map<std::string, std::int64_t> torch_keeps = {
      {"llama_gqa_pos", 586244}, {"gpt2_pos", 647684}, {"bert_pos", 550404},       {"qwen2_pos", 582148},        {"nanogpt", 614404},
      {"phi3_pos", 582148},      {"opt", 452100},      {"mistral_sw_pos", 582148}, {"llama_packed_pos", 582148}, {"gemma_pos", 532996}};
  for (const auto& [name, bytes] : torch_keeps) {
    DiagnosticSink diagnostics;
    session::Request request;
    request.diagnostics = &diagnostics;
    session::OpenRequest open;
    open.path = folder() + name + ".pt2";
    const auto model = session::open(open, request);
    ASSERT_TRUE(model) << name;
    session::CompileRequest what;
    what.settings.sp = 1;
    what.settings.read_masks = false;  // torch has them whole
    what.settings.save = "min-cut";
    const auto compiled = session::compile(**model, what, request);
    ASSERT_TRUE(compiled) << name;
    // Statistics of rows that one keeps and the other makes again, and one split of a fused product: 5.5 % at most, phi3.
    EXPECT_NEAR(static_cast<double>(compiled->figures.saved_bytes) / static_cast<double>(bytes), 1.0, 0.06) << name;
  }
}

/// Peak of the fullest rank's step, predicted and measured.
struct Peaks {
  std::int64_t predicted = 0, measured = 0;
};
Peaks peaksOf(const Verified& v) {
  const auto& measured = v.outcome.peak_bytes;
  return {v.outcome.compiled.figures.memory.stepPeak(), *std::max_element(measured.begin(), measured.end())};
}

class Budgets : public testing::TestWithParam<std::pair<std::string, int>> {};  // model, sequence

TEST_P(Budgets, AC_06_twenty_budgets_rise_together_predicted_and_measured) {
  Case what;
  what.path = folder() + GetParam().first + ".pt2";
  what.dtype = ir::DType::kF32;
  what.seq = GetParam().second;
  what.seed_weights = 1;
  Peaks before;
  int rises = 0;
  for (int i = 0; i <= 20; ++i) {
    what.save = "budget=" + std::to_string(i / 20.0);
    SCOPED_TRACE(what.save);
    const auto verified = verify(what);
    ASSERT_TRUE(verified) << verified.error().format();
    const Peaks now = peaksOf(*verified);
    EXPECT_GE(now.predicted, before.predicted);
    EXPECT_GE(now.measured, before.measured);
    EXPECT_NEAR(static_cast<double>(now.measured) / static_cast<double>(now.predicted), 1.0, 0.03);
    rises += now.measured > before.measured;
    before = now;
  }
  EXPECT_GE(rises, 4) << "budgets are different choices";
}
using ModelAndLength = std::pair<std::string, int>;  // the last two know 128 positions
INSTANTIATE_TEST_SUITE_P(Zoo, Budgets,
                         testing::Values(ModelAndLength("llama_gqa_dyn_pos", 512), ModelAndLength("gpt2_dyn_pos", 128), ModelAndLength("nanogpt_dyn", 128)),
                         [](const auto& test) { return test.param.first; });

/// verify with the program changed after it was opened.
Result<session::VerifyOutcome> verifyEdited(const Case& what, const std::function<void(ir::Graph&)>& edit) {
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::VerifyRequest verify;
  verify.open.path = what.path;
  verify.open.dtype = what.dtype;
  verify.open.seq = verify.settings.seq = what.seq;
  verify.open.batch = verify.settings.batch = what.batch;
  verify.settings.sp = what.sp;
  verify.settings.save = what.save;
  verify.data.inputs = what.inputs;
  verify.data.seed = what.seed;
  SP_ASSIGN(const auto model, session::open(verify.open, request));
  session::Model edited = *model;
  auto graph = std::make_shared<ir::Graph>(*model->graph);
  edit(*graph);
  edited.graph = std::move(graph);
  return session::verify(edited, verify, request);
}

// Dropout 0.1 on embeddings, residuals and inside attention, live in the graph: under every policy and on any number of ranks
// the loss and the gradients are those of one rank that keeps everything.
TEST(FieldCases, AC_02_recomputation_leaves_the_loss_of_a_graph_with_dropout_alone) {
  std::map<std::uint64_t, double> losses;
  for (const std::uint64_t seed : {5, 6})
    for (const int ranks : {1, 2, 4})
      for (const std::string& policy : {"all", "sac", "min-cut", "layer-inputs", "budget=0", "budget=0.5"}) {
        SCOPED_TRACE(policy + " P = " + std::to_string(ranks));
        Case what = caseOf("gpt2_dropout_pos", ranks);
        what.save = policy;
        what.seed = seed;
        const auto verified = verify(what);
        ASSERT_TRUE(verified) << verified.error().format();
        expectEqual(*verified);
        const double loss = verified->outcome.loss;
        EXPECT_NEAR(loss, losses.try_emplace(seed, loss).first->second, 1e-13);
        if (policy == "budget=0") { EXPECT_GT(verified->outcome.compiled.figures.recomputed_nodes, 0); }
      }
  EXPECT_GT(std::abs(losses[5] - losses[6]), 1e-4) << "another seed, other masks";
}

// Attention with dropout whose scores are too many to exist at once: windows of rows, others on one rank than on two.
TEST(Dropout, AttentionInWindowsDrawsWhatItDrawsWhole) {
  Case what = caseOf("llama_causal_gqa_dyn", 2);
  what.inputs.clear();
  what.seq = 1536;
  what.batch = 1;
  const auto outcome = verifyEdited(what, [&](ir::Graph& graph) {
    for (const ir::NodeId id : graph.order)
      if (ir::isAttention(graph.node(id).op)) graph.node(id).set("dropout_p", 0.5);
  });
  ASSERT_TRUE(outcome) << outcome.error().format();
  EXPECT_TRUE(outcome->equal) << outcome->loss_rel << " " << outcome->gradients.worst << " " << outcome->gradients.rel_max;
  for (const auto& stage : outcome->compiled.compiled.stages)
    if (stage.name == "lower-attention") {
      EXPECT_EQ(stage.statistics.at("dropped-out"), 2);
      EXPECT_EQ(stage.statistics.at("windows"), 4);
    }
  EXPECT_GE(outcome->compiled.figures.recomputed_matmul, 4) << "a window is an activation checkpoint";
}

// Every layer in an activation checkpoint of its own, as torch.utils.checkpoint around it leaves it.
TEST(Checkpoints, OfTheUserAreRunAgainAndChangeNothing) {
  for (const char* name : {"llama_causal_gqa_pos", "gpt2_pos"}) {
    for (const char* policy : {"all", "sac", "min-cut", "layer-inputs", "budget=0.5"}) {
      SCOPED_TRACE(std::string(name) + " " + policy);
      Case what = caseOf(name, 2);
      what.save = policy;
      std::map<std::string, std::int32_t, std::less<>> regions;
      const auto outcome = verifyEdited(what, [&](ir::Graph& graph) {
        for (const ir::NodeId id : graph.order) {
          ir::Node& node = graph.node(id);
          const std::string layer(node.location ? ir::layerOf(node.location->module_path) : std::string_view());
          if (layer.empty()) continue;
          ir::Location location = *node.location;
          location.checkpoint = regions.try_emplace(layer, static_cast<std::int32_t>(regions.size()) + 1).first->second;
          node.location = std::make_shared<const ir::Location>(std::move(location));
        }
      });
      EXPECT_EQ(regions.size(), 2u);
      ASSERT_TRUE(outcome) << outcome.error().format();
      EXPECT_TRUE(outcome->equal) << outcome->gradients.worst << " " << outcome->gradients.rel_max;
      const auto& figures = outcome->compiled.figures;
      EXPECT_EQ(figures.recomputed_attention, 2);  // torch.utils.checkpoint runs it again too: the user asked for it
      if (what.save != "layer-inputs") {
        EXPECT_EQ(figures.recomputed_collectives, 0);
      }
      EXPECT_GE(figures.recomputed_matmul, 2 * 2);
    }
  }
}

}  // namespace
}  // namespace spscope::zoo
