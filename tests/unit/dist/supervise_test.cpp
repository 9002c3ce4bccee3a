// SPDX-License-Identifier: Apache-2.0
// Launcher, reporter and asynchronous collectives with several threads on both sides; made for ThreadSanitizer, which ends
// a rank in which it sees a race with an exit code of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/dist/launcher.h"
#include "core/dist/run_directory.h"

namespace spscope::dist {
namespace {

struct Talked {
  RunOutcome outcome;
  int talks = 0, sums = 0;
  std::vector<std::string> texts;
};

Talked talk(int ranks, std::vector<std::string> arguments, LaunchSpec spec = {}) {
  spec.program = SPSCOPE_RANK_TALKER;
  spec.arguments = std::move(arguments);
  spec.ranks = ranks;
  Talked out;
  auto run = launch(spec, [&](int, const Message& m) {
    if (m.kind == "talk") ++out.talks;
    if (m.kind == "sum") out.sums += std::stoi(m.at("value"));
    if (m.kind == "text") out.texts.push_back(m.at("text"));
  });
  EXPECT_TRUE(run) << run.error().format();
  if (run) out.outcome = std::move(*run);
  std::error_code ignored;
  if (!out.outcome.directory.empty()) std::filesystem::remove_all(out.outcome.directory, ignored);
  return out;
}

TEST(Supervise, NoWordOfManyThreadsIsLost) {
  LaunchSpec spec;
  spec.request = std::string("any\nbytes\0", 10);
  const Talked run = talk(3, {"50"}, spec);
  EXPECT_TRUE(run.outcome.ok()) << (run.outcome.failure ? run.outcome.failure->error.format() : "");
  EXPECT_EQ(run.talks, 3 * 3 * 200);
  EXPECT_EQ(run.sums, 3 * 50);
  EXPECT_EQ(run.texts, std::vector<std::string>(3, spec.request));
}

TEST(Supervise, TwoLaunchersInOneProcess) {
  std::vector<Talked> runs(2);
  {
    std::jthread one([&] { runs[0] = talk(2, {"50"}); });
    std::jthread two([&] { runs[1] = talk(2, {"50", "error", "1"}); });
  }
  EXPECT_TRUE(runs[0].outcome.ok());
  ASSERT_TRUE(runs[1].outcome.failure.has_value());
  EXPECT_EQ(runs[1].outcome.failure->error.code, "op-failed");
}

TEST(Supervise, CancelledFromAnotherThread) {
  LaunchSpec spec;
  std::jthread asker([token = spec.cancel] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    token.cancel();
  });
  const Talked run = talk(2, {"1000000"}, spec);
  EXPECT_TRUE(run.outcome.cancelled);
  EXPECT_FALSE(run.outcome.failure.has_value());
}

TEST(Supervise, KilledAndHangingRanks) {
  EXPECT_EQ(talk(2, {"1000000", "kill", "1"}).outcome.failure.value().rank, 1);
  LaunchSpec spec;
  spec.stall_timeout = std::chrono::milliseconds(2000);
  const Talked run = talk(2, {"1000000", "hang", "0"}, spec);
  ASSERT_TRUE(run.outcome.failure.has_value());
  EXPECT_EQ(run.outcome.failure->rank, 0);
  EXPECT_EQ(run.outcome.failure->error.code, "rank-stalled");
  EXPECT_NE(run.outcome.failure->error.remedy.find("rank 0"), std::string::npos) << run.outcome.failure->error.remedy;
}

}  // namespace
}  // namespace spscope::dist
