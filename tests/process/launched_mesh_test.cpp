// SPDX-License-Identifier: Apache-2.0
// A mesh whose ranks somebody else started (torchrun's variables, one TCP store): the groups of rows and columns meet in the same
// store, and the training is that of one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "tests/support/probe_run.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

using testing::HasSubstr;

const std::string kModel = SPSCOPE_SOURCE_DIR "/tests/data/zoo/llama_causal_gqa_pos.pt2";

std::vector<std::string> command(int dp, int sp, int zero, const std::vector<std::string>& more) {
  std::vector<std::string> out{"run", kModel, "--dtype", "float64", "--batch", "4", "--steps", "3", "--clip", "0.5", "--threads", "1",
                               "--dp", std::to_string(dp), "--sp", std::to_string(sp), "--zero", std::to_string(zero)};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::vector<double> losses(const Spscope& run) { return run.json()["losses"].get<std::vector<double>>(); }

std::vector<std::unique_ptr<Spscope>> launch(int size, const std::vector<std::string>& arguments) {
  const std::string port = std::to_string(Listener().port);  // free again
  std::vector<std::unique_ptr<Spscope>> ranks;
  for (int r = size - 1; r >= 0; --r)  // the one that serves the store comes last
    ranks.insert(ranks.begin(), std::make_unique<Spscope>(arguments, std::map<std::string, std::string>{
        {"RANK", std::to_string(r)}, {"WORLD_SIZE", std::to_string(size)}, {"LOCAL_RANK", std::to_string(r)}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}));
  return ranks;
}

TEST(LaunchedMesh, TwoByTwoTrainsAsOneRank) {
  Spscope one(command(1, 1, 0, {"--ranks", "virtual"}));
  ASSERT_EQ(one.wait(), 0) << one.text();
  const std::vector<double> want = losses(one);
  ASSERT_EQ(want.size(), 3u);
  for (const int zero : {0, 1}) {
    const TempFolder folder;
    const auto ranks = launch(4, command(2, 2, zero, {"--launched", "--timeout", "100", "--save-to", folder.path()}));
    for (const auto& rank : ranks) ASSERT_EQ(rank->wait(), 0) << rank->text();
    const std::vector<double> got = losses(*ranks[0]);
    ASSERT_EQ(got.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(std::abs(got[i] - want[i]), 1e-8 * want[i]) << "zero " << zero << " step " << i;
    EXPECT_LT(got[2], got[0]);
    ASSERT_EQ(ranks[0]->json()["peak_bytes"].size(), 4u);
    for (std::size_t r = 1; r < 4; ++r) EXPECT_TRUE(ranks[r]->json().is_discarded()) << "the report is rank 0's";
    EXPECT_TRUE(std::filesystem::exists(folder.path("step-000003/optimizer.safetensors")));
  }
}

TEST(VerifyOnProcesses, AnAccumulatedStepIsHeldAgainstOneBatch) {
  Spscope proof({"verify", kModel, "--dtype", "float64", "--batch", "2", "--accumulate", "3", "--sp", "2", "--ranks", "gloo", "--threads", "1"});
  EXPECT_EQ(proof.wait(), 0) << proof.text();
  EXPECT_EQ(proof.json()["verdict"], "equal");
  EXPECT_EQ(proof.json()["reference"], "one unsharded batch of 6 rows");
}

TEST(LaunchedMesh, AWorldOfAnotherSizeIsRefusedByEveryRank) {
  const auto ranks = launch(2, command(2, 2, 0, {"--launched", "--timeout", "30"}));
  for (const auto& rank : ranks) {
    EXPECT_NE(rank->wait(), 0);
    EXPECT_THAT(rank->text(), HasSubstr("launch-world"));
  }
}

}  // namespace
}  // namespace spscope::dist
