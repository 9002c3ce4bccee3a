// SPDX-License-Identifier: Apache-2.0
// The reducer: what it writes is small, is a model by itself, and fails as what it was made of.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/session/reduce.h"
#include "core/session/stage.h"
#include "tests/support/shell.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

class Reduce : public testing::Test {
 protected:
  session::ReduceOutcome reduce(const std::string& path, int ranks, const std::vector<std::string>& plant, const std::vector<std::string>& inputs = {},
                                std::optional<ir::DType> dtype = ir::DType::kF64) {
    session::Request request{{}, {}, &diagnostics_};
    session::ReduceRequest what;
    what.verify.open.path = path;
    what.verify.open.dtype = dtype;
    what.verify.settings.sp = ranks;
    what.verify.settings.communication = communication_;
    what.verify.data.inputs = inputs;
    what.plant = plant;
    what.path = out();
    const auto model = session::open(what.verify.open, request);
    if (!model) throw std::runtime_error(model.error().format());
    auto outcome = session::reduceFailure(**model, what, request);
    if (!outcome) throw std::runtime_error(outcome.error().format());
    return std::move(*outcome);
  }
  std::string out() const { return tmp_.path("small.txt"); }

  /// Opens what was written, by the command that the answer gives.
  Json again(const session::ReduceOutcome& outcome, int code) {
    const std::string arguments = outcome.command.substr(std::string("spscope ").size());
    const ShellResult result = shell("'" SPSCOPE_PROGRAM "' " + arguments + " --threads 1 --json - 2>" + tmp_.path("err"));
    EXPECT_EQ(result.code, code) << outcome.command;
    return Json::parse(result.output, nullptr, false);
  }

  std::string communication_ = "overlap";
  DiagnosticSink diagnostics_;
  TempFolder tmp_;
};

TEST_F(Reduce, AWrongRuleIsLeftWithFewNodes) {
  const auto outcome = reduce(caseOf("llama_causal_gqa_pos", 2).path, 2, {"local-attention"});
  ASSERT_TRUE(outcome.fails);
  EXPECT_GT(outcome.nodes_before, 60);
  EXPECT_LE(outcome.nodes, 20);
  ASSERT_EQ(outcome.files.size(), 3U);
  const auto stage = session::readStage(out());
  ASSERT_TRUE(stage && *stage);
  EXPECT_EQ(std::ssize((*stage)->graph.order), outcome.nodes);
  const Json json = again(outcome, 1);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["verdict"], "different");
  EXPECT_EQ(json["first_difference"]["pass"], outcome.first_difference->pass);
  EXPECT_EQ(json["first_difference"]["node"], outcome.first_difference->node);
  EXPECT_NEAR(json["loss"].get<double>(), outcome.loss, 1e-9 * std::abs(outcome.loss));
}

TEST_F(Reduce, AFaultOfTheBackwardKeepsItsPass) {
  const Case what = caseOf("nanogpt", 2);
  const auto outcome = reduce(what.path, 2, {"wrong-derivative,seed=3"}, what.inputs);
  ASSERT_TRUE(outcome.fails);
  EXPECT_EQ(outcome.first_difference->pass, "build-joint");
  EXPECT_LT(outcome.nodes, outcome.nodes_before / 2);
  EXPECT_EQ(again(outcome, 1)["first_difference"]["pass"], "build-joint");
}

TEST_F(Reduce, WhatIsRightIsNotWritten) {
  const auto outcome = reduce(caseOf("nanogpt", 2).path, 2, {});
  EXPECT_FALSE(outcome.fails);
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(Reduce, ASumThatIsTakenTwiceKeepsItsPass) {
  communication_ = "plain";  // else it is a start and a wait, which fuse-collectives makes
  const auto outcome = reduce(caseOf("nanogpt", 2).path, 2, {"double-collective,pass=sync-gradients"});
  ASSERT_TRUE(outcome.fails);
  ASSERT_TRUE(outcome.first_difference);
  EXPECT_EQ(outcome.first_difference->pass, "sync-gradients");
  EXPECT_LT(outcome.nodes, outcome.nodes_before);
}

}  // namespace
}  // namespace spscope::zoo
