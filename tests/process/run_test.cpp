// SPDX-License-Identifier: Apache-2.0
// `spscope run` itself, as a person starts it: trains, saves and resumes, is interrupted, loses ranks, loses its launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::HasSubstr;

const std::string kZoo = SPSCOPE_SOURCE_DIR "/../shared/zoo/";
const std::string kSample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";
bool hasZoo() { return fs::exists(kZoo + "nanogpt.pt2"); }

class RunCommand : public TempFolderTest {
 protected:
  static std::vector<std::string> arguments(const std::string& command, const char* sp, const char* steps,
                                            std::vector<std::string> more = {}) {
    std::vector<std::string> out{command, "--dtype", "float64", "--sp", sp, "--steps", steps};
    // One batch again and again where there is one, else fresh random ones.
    const std::vector<std::string> model =
        hasZoo() ? std::vector<std::string>{kZoo + "llama_causal_gqa_pos.pt2", "--inputs", kZoo + "llama_causal_gqa_pos.inputs.safetensors"}
                 : std::vector<std::string>{kSample, "--seq", "64"};
    out.insert(out.end(), model.begin(), model.end());
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static std::vector<double> losses(std::vector<std::string> args) {
    Spscope run(std::move(args));
    EXPECT_EQ(run.wait(), 0) << run.text();
    return run.json()["losses"].get<std::vector<double>>();
  }
  const std::string& save_ = folder_;
};

TEST_F(RunCommand, TenStepsOnGlooRanksGiveTheUnshardedLosses) {
  const auto want = losses(arguments("run", "1", "10", {"--ranks", "virtual"}));
  ASSERT_EQ(want.size(), 10u);
  if (hasZoo()) {
    EXPECT_LT(want[9], want[0] - 0.5);  // it learns
  }
  for (const char* sp : {"2", "3"}) {
    const auto got = losses(arguments("run", sp, "10"));
    ASSERT_EQ(got.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(got[i], want[i], 1e-9) << "sp " << sp << " step " << i;
  }
}

TEST_F(RunCommand, SavedAndResumedGoesOnAsIfNothingHadHappened) {
  const auto whole = losses(arguments("run", "2", "6", {"--clip", "0.5"}));
  auto parts = losses(arguments("run", "2", "3", {"--clip", "0.5", "--save-to", save_}));
  EXPECT_TRUE(fs::exists(save_ + "/step-000003/weights.safetensors"));
  const auto rest = losses(arguments("run", "2", "3", {"--clip", "0.5", "--resume", save_}));
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);  // to the bit
}

TEST_F(RunCommand, ResumeFromAnotherModelIsRefused) {
  if (!hasZoo()) GTEST_SKIP() << "needs the models of shared/zoo beside the checkout";
  losses(arguments("run", "2", "1", {"--save-to", save_}));
  Spscope run({"run", kZoo + "nanogpt.pt2", "--sp", "2", "--dtype", "float64", "--resume", save_});
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.json()["refusals"][0]["code"], "resume-mismatch");
}

TEST_F(RunCommand, ResumeWithAnotherOptimizerIsRefused) {
  losses(arguments("run", "2", "1", {"--save-to", save_}));
  Spscope run(arguments("run", "2", "1", {"--resume", save_, "--optimizer", "sgd"}));
  EXPECT_EQ(run.wait(), 3) << run.text();
  EXPECT_EQ(run.json()["refusals"][0]["code"], "optimizer-state");
  EXPECT_THAT(run.json()["refusals"][0]["message"].get<std::string>(), HasSubstr("belongs to AdamW, this run uses SGD"));
}

TEST_F(RunCommand, NegativeSeedsAreNotUnderstood) {
  Spscope run(arguments("run", "2", "1", {"--seed", "-1"}));
  EXPECT_EQ(run.wait(), 2) << run.text();
}

TEST_F(RunCommand, ReportsMemoryNearThePrediction) {
  Spscope run(arguments("run", "2", "2"));
  EXPECT_EQ(run.wait(), 0) << run.text();
  const Json json = run.json();
  ASSERT_EQ(json["peak_bytes"].size(), 2u);
  for (int r = 0; r < 2; ++r)
    EXPECT_NEAR(json["peak_bytes"][r].get<double>() / json["predicted_peak_bytes"][r].get<double>(), 1.0, 0.03);
  EXPECT_GT(json["comm_ns"].get<std::int64_t>(), 0);
  EXPECT_GT(json["comm_bytes"].get<std::int64_t>(), 0);
}

// Exchanges that run again, one by one and started early, on ranks of unequal shares: the same bits, more sent, the memory foreseen.
TEST_F(RunCommand, LayersThatAreMadeAgainExchangeAgainAndChangeNothing) {
  std::vector<Json> results;
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--save", "sac"}, {"--save", "layer-inputs"}, {"--save", "layer-inputs", "--communication", "plain"}}) {
    Spscope run(arguments("run", "3", "2", more));
    ASSERT_EQ(run.wait(), 0) << run.text();
    results.push_back(run.json());
  }
  for (std::size_t i : {1, 2}) {
    EXPECT_EQ(results[i]["losses"], results[0]["losses"]);
    EXPECT_GT(results[i]["comm_bytes"].get<std::int64_t>(), results[0]["comm_bytes"].get<std::int64_t>());
    for (int r = 0; r < 3; ++r)
      EXPECT_NEAR(results[i]["peak_bytes"][r].get<double>() / results[i]["predicted_peak_bytes"][r].get<double>(), 1.0, 0.03);
  }
}

TEST_F(RunCommand, KilledRankEndsTheRunWithItsName) {
  Spscope run(arguments("run", "2", "100000"));
  run.awaitStep(2);
  const auto ranks = run.children();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(run.wait(), 4) << run.text();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::duration<double>(kEndsWithin));
  for (const int pid : ranks) EXPECT_FALSE(isRunning(pid));
  const Json json = run.json();
  EXPECT_EQ(json["failure"]["rank"], 1);
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("SIGKILL"));
  EXPECT_FALSE(json["failure"]["node"].get<std::string>().empty());
  EXPECT_GE(json["losses"].size(), 3u);  // what was done is still reported
}

TEST_F(RunCommand, StoppedRankIsNamedAfterTheDeadline) {
  Spscope run(arguments("run", "2", "100000", {"--timeout", "2"}));
  run.awaitStep(2);
  const auto ranks = run.children();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGSTOP);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(run.wait(), 4) << run.text();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::duration<double>(2 + kEndsWithin));
  for (const int pid : ranks) EXPECT_FALSE(isRunning(pid));
  EXPECT_EQ(run.json()["failure"]["rank"], 1) << run.text();
}

TEST_F(RunCommand, KilledCommandLeavesNoRank) {
  Spscope run(arguments("run", "2", "100000"));
  run.awaitStep(1);
  const auto ranks = run.children();
  ASSERT_EQ(ranks.size(), 2u);
  kill(run.pid(), SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  while ((isRunning(ranks[0]) || isRunning(ranks[1])) && std::chrono::steady_clock::now() - began < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::duration<double>(kEndsWithin));
  EXPECT_EQ(run.wait(), -SIGKILL);
}

TEST_F(RunCommand, InterruptSavesTheLastWholeStep) {
  Spscope run(arguments("run", "2", "100000", {"--save-to", save_}));
  run.awaitStep(2);
  kill(run.pid(), SIGINT);
  EXPECT_EQ(run.wait(), 1) << run.text();
  EXPECT_TRUE(run.json()["cancelled"].get<bool>());
  EXPECT_TRUE(fs::exists(save_ + "/latest")) << run.text();
  EXPECT_THAT(run.json()["error"]["remedy"].get<std::string>(), HasSubstr("--resume " + save_)) << "work was saved: say so";
  EXPECT_EQ(losses(arguments("run", "2", "1", {"--resume", save_})).size(), 1u);
}

TEST_F(RunCommand, AClosedTerminalStopsItAsCtrlCDoes) {
  Spscope run(arguments("run", "2", "100000", {"--save-to", save_}));
  run.awaitStep(1);
  kill(run.pid(), SIGHUP);
  EXPECT_EQ(run.wait(), 1) << run.text();
  EXPECT_TRUE(run.json()["cancelled"].get<bool>());
  EXPECT_TRUE(fs::exists(save_ + "/latest")) << run.text();
}

TEST_F(RunCommand, BatchOfAnotherShapeIsRefusedNotFailed) {
  // The sample's batch is 4096 tokens long.
  Spscope run({"run", kSample, "--seq", "64", "--sp", "2", "--inputs", SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.inputs.safetensors"});
  EXPECT_EQ(run.wait(), 3) << run.text();
  EXPECT_FALSE(run.json()["refusals"].empty());
}

TEST_F(RunCommand, NcclWithoutAGpuIsRefusedWithTheReason) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there may be a GPU here";
  Spscope run(arguments("run", "2", "1", {"--ranks", "nccl"}));
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.json()["refusals"][0]["code"], "nccl-unavailable");
}

TEST_F(RunCommand, LaunchedWithoutALauncherSaysSo) {
  Spscope run(arguments("run", "2", "1", {"--launched"}));
  EXPECT_EQ(run.wait(), 2);
  EXPECT_EQ(run.json()["error"]["code"], "launch-env");
}

}  // namespace
}  // namespace spscope::dist
