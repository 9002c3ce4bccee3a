// SPDX-License-Identifier: Apache-2.0
// The same proof on real processes that talk over Gloo, and training on them: ten steps give PyTorch's own losses.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/session/run.h"
#include "core/torch/compare.h"
#include "core/torch/tensor_store.h"
#include "tests/support/figures.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zoo.h"

namespace spscope::zoo {
namespace {

class Gloo : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& model() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }

  /// Ten steps of AdamW as the command makes them. `ranks` "virtual" with one rank: the unsharded program.
  session::RunOutcome train(int sp, ir::DType dtype, const std::string& kind) const {
    const Case what = caseOf(model(), sp);
    DiagnosticSink diagnostics;
    session::Request request;
    request.diagnostics = &diagnostics;
    session::RunRequest run;
    run.open.path = what.path;
    run.open.dtype = dtype;
    run.settings.sp = sp;
    run.data.inputs = what.inputs;
    run.ranks = kind;
    run.steps = 10;
    run.timeout_seconds = 60;
    run.program = SPSCOPE_PROGRAM;
    auto outcome = session::run(run, request);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().format();
      return {};
    }
    if (outcome->failure) ADD_FAILURE() << outcome->failure->error.format();
    return std::move(*outcome);
  }
  const TempFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_P(Gloo, VerifyGivesTheReference) {
  const Case what = caseOf(model(), ranks());
  const std::string command = std::string(SPSCOPE_PROGRAM) + " verify " + what.path + " --inputs " + what.inputs[0] + " --ranks gloo --sp " +
                              std::to_string(ranks()) + " --dtype float64 --threads 1 --grads " + folder_ +
                              "/grads.safetensors --json " + folder_ + "/out.json >" + folder_ + "/log 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream log(folder_ + "/log");
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << std::string(std::istreambuf_iterator<char>(log), {});
  const Json json = Json::parse(std::ifstream(folder_ + "/out.json"));
  EXPECT_EQ(json["verdict"], "equal");
  EXPECT_EQ(json["inserted_all_to_all"], json["expected_all_to_all"]);
  EXPECT_GT(json["inserted_all_to_all"].get<int>(), 0);
  EXPECT_EQ(json["peak_bytes"].size(), static_cast<std::size_t>(ranks()));
  const auto gradients = exec::loadBag(folder_ + "/grads.safetensors");
  ASSERT_TRUE(gradients) << gradients.error().format();
  const Distance far = distance(json["loss"].get<double>(), *gradients, reference(model()), "f64");
  EXPECT_GT(far.gradients, 0);
  EXPECT_LE(far.loss, 1e-10);
  EXPECT_LE(far.gradient, 1e-8) << far.worst;
  WorstFigures::table().add("gloo against .ref.json, P = " + std::to_string(ranks()), far.loss, far.gradient, model() + ": " + far.worst);
}

TEST_P(Gloo, TenStepsGiveTheUnshardedLosses) {
  const Json torch = Json::parse(std::ifstream(folder() + "adamw.json"))[model()];
  for (const auto& [dtype, name, tolerance] : {std::tuple{ir::DType::kF64, "float64", 1e-9}, {ir::DType::kF32, "float32", 1e-4}}) {
    const auto alone = train(1, dtype, "virtual");
    const auto sharded = train(ranks(), dtype, "gloo");
    ASSERT_EQ(alone.steps.size(), 10u);
    ASSERT_EQ(sharded.steps.size(), 10u);
    double worst = 0.0;
    for (std::size_t i = 0; i < 10; ++i) {
      const double eager = torch[name][i].get<double>();
      EXPECT_LE(exec::relativeError(sharded.steps[i].loss, alone.steps[i].loss), tolerance) << name << " step " << i;
      EXPECT_LE(exec::relativeError(sharded.steps[i].loss, eager), tolerance) << name << " step " << i << " against PyTorch";
      worst = std::max(worst, exec::relativeError(sharded.steps[i].loss, eager));
    }
    EXPECT_LT(sharded.steps[9].loss, sharded.steps[0].loss - 0.5);  // it learns
    ASSERT_EQ(sharded.last_loss.size(), static_cast<std::size_t>(ranks()));
    for (const double loss : sharded.last_loss) EXPECT_EQ(loss, sharded.last_loss[0]);  // the same bits on every rank
    WorstFigures::table().add(std::string("ten AdamW steps, ") + name + ", P = " + std::to_string(ranks()), worst, 0.0, model());
  }
}

// Each step drops out others, and real ranks drop out what one rank does.
TEST(GlooDropout, StepsDifferAndRanksAgree) {
  std::vector<std::vector<session::StepLine>> steps;
  for (const int sp : {1, 3}) {
    const Case what = caseOf("gpt2_dropout_pos", sp);
    DiagnosticSink diagnostics;
    session::Request request;
    request.diagnostics = &diagnostics;
    session::RunRequest run;
    run.open.path = what.path;
    run.open.dtype = ir::DType::kF64;
    run.settings.sp = sp;
    run.data.inputs = what.inputs;
    run.data.seed = 3;
    run.steps = 4;
    run.lr = 0.0;
    run.timeout_seconds = 60;
    run.program = SPSCOPE_PROGRAM;
    const auto outcome = session::run(run, request);
    ASSERT_TRUE(outcome) << outcome.error().format();
    ASSERT_EQ(outcome->steps.size(), 4u);
    steps.push_back(outcome->steps);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(steps[0][i].loss, steps[1][i].loss, 1e-12);
    for (std::size_t j = 0; j < i; ++j) EXPECT_GT(std::abs(steps[0][i].loss - steps[0][j].loss), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Real, Gloo,
                         testing::Combine(testing::Values("llama_causal_gqa_pos", "gpt2_pos", "nanogpt"), testing::Values(2, 3, 4)),
                         nameWithRanks);

}  // namespace
}  // namespace spscope::zoo
