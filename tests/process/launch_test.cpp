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

namespace spscope::dist {
namespace {

using std::chrono::milliseconds;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

constexpr double kEndsWithin = 5.0;

/// False also for a zombie that nobody has reaped yet.
bool isRunning(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  const auto end = line.rfind(')');
  return end != std::string::npos && end + 2 < line.size() && line[end + 2] != 'Z' && line[end + 2] != 'X';
}

struct ProbeRun {
  RunOutcome outcome;
  double seconds_after_fault = 0;
  std::vector<std::pair<int, Message>> messages;
};

ProbeRun runProbe(int ranks, std::vector<std::string> arguments, LaunchSpec spec = {}) {
  spec.program = SPSCOPE_RANK_PROBE;
  spec.arguments = std::move(arguments);
  spec.ranks = ranks;
  ProbeRun run;
  auto fault = std::chrono::steady_clock::now();
  auto out = launch(spec, [&](int rank, const Message& m) {
    run.messages.emplace_back(rank, m);
    if (m.kind == "fault") fault = std::chrono::steady_clock::now();
  });
  EXPECT_TRUE(out) << out.error().format();
  if (!out) return run;
  run.seconds_after_fault = std::chrono::duration<double>(std::chrono::steady_clock::now() - fault).count();
  run.outcome = std::move(*out);
  for (const RankRecord& r : run.outcome.ranks) EXPECT_FALSE(isRunning(r.pid)) << "rank " << r.rank << " is still there";
  return run;
}

/// The run failed, by rank 1, in time; its directory (kept for its logs) is removed.
void expectFailure(const ProbeRun& run, double deadline = 0) {
  ASSERT_TRUE(run.outcome.failure.has_value());
  EXPECT_EQ(run.outcome.failure->rank, 1) << formatTable(run.outcome.ranks);
  EXPECT_EQ(run.outcome.failure->node, "%linear_2");
  EXPECT_LT(run.seconds_after_fault, deadline + kEndsWithin) << formatTable(run.outcome.ranks);
  EXPECT_TRUE(std::filesystem::exists(run.outcome.failure->log));
  std::filesystem::remove_all(run.outcome.directory);
}

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
  std::filesystem::remove_all(run.outcome.directory);
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

TEST(Launch, ExceptionOfOneRankIsReportedAsItsError) {
  const ProbeRun run = runProbe(3, {"throw"});
  expectFailure(run);
  EXPECT_EQ(run.outcome.failure->error.message, "exception: the probe throws on purpose");
  EXPECT_THAT(run.outcome.failure->last_lines, Contains(HasSubstr("the probe throws on purpose")));
  const std::string text = run.outcome.failure->toError(run.outcome.ranks).format();
  EXPECT_THAT(text, HasSubstr("rank 1 failed first"));
  EXPECT_THAT(text, HasSubstr("all_reduce #3 (inside)"));  // where the others were
}

TEST(Launch, ExitCodeAndLastWordsAreShown) {
  const ProbeRun run = runProbe(2, {"exit"});
  expectFailure(run);
  EXPECT_EQ(run.outcome.failure->exit_code, 3);
  EXPECT_THAT(run.outcome.failure->last_lines, Contains("last words of the probe"));
}

TEST(Launch, ExitBeforeTheEndIsAFailureEvenWithCodeZero) {
  const ProbeRun run = runProbe(2, {"early"});
  expectFailure(run);
  EXPECT_THAT(run.outcome.failure->error.message, HasSubstr("exited with code 0 before it was done"));
}

TEST(Launch, SleeperIsNamedNotTheRanksThatWaitForIt) {
  const ProbeRun run = runProbe(3, {"sleep", "--timeout-ms", "1500"});
  expectFailure(run, 1.5);
  EXPECT_EQ(run.outcome.failure->error.code, "rank-stalled");
}

TEST(Launch, SleeperIsNoticedWithoutACollectivesDeadline) {
  LaunchSpec spec;
  spec.stall_timeout = milliseconds(1500);
  const ProbeRun run = runProbe(2, {"sleep"}, spec);
  expectFailure(run, 1.5);
}

TEST(Launch, EndlessLoopIsNoticed) {
  LaunchSpec spec;
  spec.stall_timeout = milliseconds(1500);
  expectFailure(runProbe(2, {"spin"}, spec), 1.5);
}

TEST(Launch, RankThatIgnoresSigtermIsKilled) {
  LaunchSpec spec;
  spec.stall_timeout = milliseconds(1500);
  const ProbeRun run = runProbe(2, {"stubborn"}, spec);
  ASSERT_TRUE(run.outcome.failure.has_value());
  EXPECT_EQ(run.outcome.failure->rank, 1);
  EXPECT_EQ(run.outcome.ranks[1].signal, SIGKILL);
  std::filesystem::remove_all(run.outcome.directory);
}

TEST(Launch, DifferentSizesAreNamedBeforeTheyHang) {
  for (const char* mode : {"size", "order"}) {
    const ProbeRun run = runProbe(3, {mode});
    ASSERT_TRUE(run.outcome.failure.has_value());
    EXPECT_EQ(run.outcome.failure->error.code, "collective-mismatch");
    EXPECT_THAT(run.outcome.failure->error.message, HasSubstr(" #3: rank "));
    EXPECT_LT(run.seconds_after_fault, kEndsWithin);
    std::filesystem::remove_all(run.outcome.directory);
  }
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

TEST(Launch, TwoRunsAtOnceDoNotMeet) {
  std::vector<ProbeRun> runs(2);
  {
    std::jthread one([&] { runs[0] = runProbe(2, {"ok", "--steps", "20"}); });
    std::jthread two([&] { runs[1] = runProbe(3, {"ok", "--steps", "20"}); });
  }
  EXPECT_TRUE(runs[0].outcome.ok());
  EXPECT_TRUE(runs[1].outcome.ok());
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
    directory_ = testing::TempDir() + "spscope-launcher-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    auto child = spawn({SPSCOPE_RANK_PROBE, {"launch", "2", "ok", "--steps", "100000"}, {{"TMPDIR", directory_}}, log()});
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
  ~LauncherProcess() {
    close(child_.fd);
    std::filesystem::remove_all(directory_);
  }
  std::string log() const { return directory_ + "/launcher.log"; }
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
  std::string directory_;
  Child child_;
  std::vector<int> ranks_;
};

TEST(Launcher, KilledLauncherLeavesNoRank) {
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
