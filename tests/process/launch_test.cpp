// SPDX-License-Identifier: Apache-2.0
// What happens to a run when one of its processes fails: it ends in time, names the rank, leaves no process.
// Times are counted from the fault itself, so that a busy machine that starts processes slowly does not fail these tests.
#include "core/dist/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/strings.h"
#include "core/dist/run_directory.h"
#include "core/dist/spawn.h"
#include "tests/support/probe_run.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

using std::chrono::milliseconds;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

TEST(Launch, AGoodRunEndsWithEveryRanksResults) {
  const ProbeRun run = runProbe(3, {"ok"});
  EXPECT_TRUE(run.outcome.ok());
  int sums = 0;
  for (const auto& [rank, m] : run.messages)
    if (m.kind == "step" && m.at("step") == "4") sums += std::stoi(m.at("sum"));
  EXPECT_EQ(sums, 3 * 6);  // each of three ranks saw 1 + 2 + 3
  EXPECT_EQ(run.outcome.directory, "");
  for (const RankRecord& r : run.outcome.ranks) {
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_EQ(r.last.step, 4);
    EXPECT_EQ(r.last.collective, "barrier");
    EXPECT_EQ(r.last.sequence, 6);
    EXPECT_FALSE(r.last.inside_collective);
  }
}

TEST(Launch, RanksGetThreadsAndKeepTheirOutput) {
  LaunchSpec spec;
  spec.threads = 3;
  spec.keep_directory = true;
  const ProbeRun run = runProbe(2, {"ok"}, spec);
  ASSERT_TRUE(run.outcome.ok());
  EXPECT_THAT(lastLines(run.outcome.ranks[1].log, 9), testing::ElementsAre("rank_probe ok, OMP_NUM_THREADS=3", "rank 1 done"));
  const auto mode = std::filesystem::status(run.outcome.directory).permissions();
  EXPECT_EQ(mode & std::filesystem::perms::mask, std::filesystem::perms::owner_all);
}

TEST(Launch, KilledRankIsNamedWithItsLastNode) {
  const ProbeRun run = runProbe(3, {"kill"});
  expectFailure(run);
  EXPECT_EQ(run.outcome.failure->signal, SIGKILL);
  EXPECT_EQ(run.outcome.failure->error.code, "rank-died");
  EXPECT_THAT(run.outcome.failure->error.message, HasSubstr("killed by signal 9 (SIGKILL)"));
}

TEST(Launch, CrashedRankIsNamed) {
  const ProbeRun run = runProbe(2, {"segv"});
  expectFailure(run);
  EXPECT_THAT(run.outcome.failure->error.message, HasSubstr("SIGSEGV"));
}

TEST(Launch, ExitBeforeTheEndIsAFailureEvenWithCodeZero) {
  const ProbeRun run = runProbe(2, {"early"});
  expectFailure(run);
  EXPECT_THAT(run.outcome.failure->error.message, HasSubstr("exited with code 0 before it was done"));
}

TEST(Launch, ABrokenConnectionEndsNoRank) {
  const ProbeRun run = runProbe(2, {"pipe", "-1"});
  EXPECT_TRUE(run.outcome.ok()) << formatTable(run.outcome.ranks);
}

TEST(Launch, SleeperIsNamedNotTheRanksThatWaitForIt) {
  const ProbeRun run = runProbe(3, {"sleep", "--timeout-ms", "1500"});
  expectFailure(run, 1.5);
  EXPECT_EQ(run.outcome.failure->error.code, "rank-stalled");
}

TEST(Launch, SleeperIsNoticedWithoutACollectivesDeadline) {
  LaunchSpec spec;
  spec.stall_timeout = milliseconds(3000);
  const ProbeRun run = runProbe(2, {"sleep"}, spec);
  expectFailure(run, 3);
}

TEST(Launch, EndlessLoopIsNoticed) {
  LaunchSpec spec;
  spec.stall_timeout = milliseconds(3000);
  expectFailure(runProbe(2, {"spin"}, spec), 3);
}

TEST(Launch, RankThatIgnoresSigtermIsKilled) {
  LaunchSpec spec;
  spec.stall_timeout = milliseconds(3000);
  const ProbeRun run = runProbe(2, {"stubborn"}, spec);
  ASSERT_TRUE(run.outcome.failure.has_value());
  EXPECT_EQ(run.outcome.failure->rank, 1);
  EXPECT_EQ(run.outcome.ranks[1].signal, SIGKILL);
}

TEST(Launch, CancellationEndsARunCleanly) {
  LaunchSpec spec;
  std::jthread asker([token = spec.cancel] {
    std::this_thread::sleep_for(milliseconds(1000));
    token.cancel();
  });
  const auto began = std::chrono::steady_clock::now();
  const ProbeRun run = runProbe(2, {"ok", "--steps", "100000"}, spec);
  EXPECT_TRUE(run.outcome.cancelled);
  EXPECT_FALSE(run.outcome.failure.has_value());
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), 1 + kEndsWithin);
  EXPECT_EQ(run.outcome.directory, "");
}

TEST(Launch, ProgramThatIsNotThereIsRefused) {
  LaunchSpec spec;
  spec.program = "/nowhere/spscope";
  spec.ranks = 2;
  const auto out = launch(spec);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, "rank-start");
}

/// Starts the probe as a launcher of two endless ranks and waits until both step. Its pid, and theirs.
class LauncherProcess {
 public:
  LauncherProcess() {
    auto child = spawn({SPSCOPE_RANK_PROBE, {"launch", "2", "ok", "--steps", "100000"}, {{"TMPDIR", folder_.path()}}, log()});
    EXPECT_TRUE(child);
    child_ = *child;
    for (int i = 0; i < 3000 && ranks_.size() < 2; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      ranks_.clear();
      std::ifstream in(log());
      for (std::string word; in >> word;)
        if (word == "pid" && in >> word) ranks_.push_back(std::stoi(word));
    }
    EXPECT_EQ(ranks_.size(), 2u);
  }
  ~LauncherProcess() { close(child_.fd); }
  std::string log() const { return folder_.path("launcher.log"); }
  int pid() const { return child_.pid; }
  /// Seconds until neither launcher nor ranks are there; a large number after 20 s.
  double secondsUntilGone() {
    const auto began = std::chrono::steady_clock::now();
    for (;;) {
      const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      waitpid(child_.pid, nullptr, WNOHANG);
      bool any = isRunning(child_.pid);
      for (const int pid : ranks_) any |= isRunning(pid);
      if (!any) return s;
      if (s > 20) return 1e9;
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

 private:
  const TempFolder folder_;
  Child child_;
  std::vector<int> ranks_;
};

TEST(FieldCases, LA_01_a_killed_launcher_leaves_no_rank) {
  LauncherProcess launcher;
  kill(launcher.pid(), SIGKILL);
  EXPECT_LT(launcher.secondsUntilGone(), kEndsWithin);
}

TEST(Launcher, InterruptStopsCleanly) {
  LauncherProcess launcher;
  kill(launcher.pid(), SIGINT);
  EXPECT_LT(launcher.secondsUntilGone(), kEndsWithin);
  EXPECT_THAT(lastLines(launcher.log(), 1), testing::ElementsAre("cancelled"));
}

}  // namespace
}  // namespace spscope::dist
