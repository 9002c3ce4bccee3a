// SPDX-License-Identifier: Apache-2.0
// Machines that are full, slow, or killing: whatever is taken away from a run, it ends in time with one clear error.
// SPSCOPE_REPEAT=N in the environment repeats the random one N times (5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <random>

#include "tests/support/probe_run.h"

namespace spscope::dist {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

const std::string kSample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";
std::vector<std::string> run(const char* steps, std::vector<std::string> more = {}) {
  std::vector<std::string> out{"run", kSample, "--seq", "64", "--sp", "2", "--steps", steps};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}
/// The same, started by a shell that changes something first; "$@" in `script` is the command.
std::vector<std::string> under(const std::string& script, std::vector<std::string> command) {
  command.insert(command.begin(), {"-c", script, "sh", SPSCOPE_PROGRAM});
  return command;
}

TEST(Hardship, RanksKilledAtRandomMomentsAreNamed) {
  const char* variable = std::getenv("SPSCOPE_REPEAT");
  const int repeats = variable != nullptr ? std::atoi(variable) : 5;
  std::mt19937 random(7);
  double longest = 0;
  for (int i = 0; i < repeats; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 3), victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const auto moment = std::chrono::milliseconds(random() % 400);
    Process launcher(SPSCOPE_RANK_PROBE, {"launch", std::to_string(ranks), "ok", "--steps", "100000"});
    // From the very beginning: while they are loaded, meet, or step.
    std::vector<int> pids;
    for (int wait = 0; wait < 3000 && pids.size() < static_cast<std::size_t>(ranks); ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pids = launcher.children();
    }
    ASSERT_EQ(pids.size(), static_cast<std::size_t>(ranks));
    std::this_thread::sleep_for(moment);
    kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(launcher.wait(), 4) << launcher.text();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    longest = std::max(longest, seconds);
    EXPECT_LT(seconds, kEndsWithin) << launcher.text();
    EXPECT_THAT(launcher.text(), HasSubstr(strf("error[rank-died]: rank %d: killed by signal 9 (SIGKILL)", victim)));
    for (const int pid : pids) EXPECT_FALSE(isRunning(pid));
  }
  RecordProperty("longest_seconds", strf("%.2f", longest));
  std::printf("%d ranks killed; the longest run lived %.2f s longer\n", repeats, longest);
}

/// A file system of this many KiB; skips where it cannot be made.
class SmallDisk : public testing::Test {
 protected:
  void make(int kib) {
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
    if (mount("none", path_.c_str(), "tmpfs", 0, strf("size=%dk", kib).c_str()) != 0)
      GTEST_SKIP() << "no file system can be mounted here: " << std::strerror(errno);
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path_ = testing::TempDir() + "spscope-disk-XXXXXX";
  bool mounted_ = false;
};

TEST_F(SmallDisk, TooSmallForTheRunsDirectoryIsRefused) {
  make(8);
  Spscope command(run("1"), {{"TMPDIR", path_}});
  EXPECT_EQ(command.wait(), 3) << command.text();
  const auto refusal = command.json()["refusals"][0];
  EXPECT_EQ(refusal["code"], "run-directory");
  EXPECT_THAT(refusal["message"].get<std::string>(), HasSubstr("No space left on device"));
  EXPECT_THAT(refusal["remedy"].get<std::string>(), HasSubstr("TMPDIR"));
}

TEST_F(SmallDisk, TooSmallForTheWeightsEndsTheRunWithThatReason) {
  make(64);
  Spscope command(run("1", {"--save-to", path_}));
  EXPECT_EQ(command.wait(), 4) << command.text();
  EXPECT_EQ(command.json()["failure"]["code"], "file-unwritable") << command.text();
  EXPECT_THAT(command.json()["failure"]["message"].get<std::string>(), HasSubstr("No space left on device"));
  EXPECT_EQ(command.json()["losses"].size(), 1u);
}

TEST(Hardship, FolderThatMayNotBeWrittenIsRefusedWithTheRemedy) {
  Spscope command(run("1"), {{"TMPDIR", "/proc"}});  // not even root may
  EXPECT_EQ(command.wait(), 3) << command.text();
  EXPECT_EQ(command.json()["refusals"][0]["code"], "run-directory");
  EXPECT_THAT(command.json()["refusals"][0]["remedy"].get<std::string>(), HasSubstr("TMPDIR"));
}

TEST(Hardship, AReaderThatHasSeenEnoughDoesNotEndTheRun) {
  // Closed altogether: neither a file nor a line to a rank takes the number of a standard stream.
  for (const char* script : {"exec \"$@\" >&-", "exec \"$@\" <&- >&- 2>&-"}) {
    Spscope closed(under(script, run("3")), {}, "/bin/sh");
    EXPECT_EQ(closed.wait(), 0) << script << closed.text();
    EXPECT_EQ(closed.json()["losses"].size(), 3u) << script;
  }
  Spscope piped(under("\"$@\" 2>&1 | head -c 1", run("2")), {}, "/bin/sh");
  EXPECT_EQ(piped.wait(), 0);
  EXPECT_EQ(piped.json()["losses"].size(), 2u);
  // What the reader did not want is no error, nor is anything said of it.
  Process shown("/bin/bash", {"-c", "exec 5> >(:); wait $!; \"$0\" \"$@\" >&5; echo \"code $?\" >&2", SPSCOPE_PROGRAM, "inspect", kSample, "--json", "-"});
  EXPECT_EQ(shown.wait(), 0);
  EXPECT_THAT(shown.text(), testing::EndsWith("code 0"));
  EXPECT_THAT(shown.text(), testing::Not(HasSubstr("error")));
}

TEST(Hardship, AFullStandardOutputIsAnError) {
  Process full("/bin/sh", {"-c", "exec \"$@\" >/dev/full", "sh", SPSCOPE_PROGRAM, "inspect", kSample, "--json", "-"});
  EXPECT_EQ(full.wait(), 1);
  EXPECT_THAT(full.text(), HasSubstr("error[file-unwritable]: standard output: No space left on device"));
}

TEST(Hardship, TooFewFilesIsAnErrorThatSaysSo) {
  // Enough for the command, not for the sockets of eight ranks.
  Spscope command(under("ulimit -n 14; exec \"$@\"", {"run", kSample, "--seq", "64", "--sp", "8", "--steps", "1", "--allow-replicated"}), {}, "/bin/sh");
  EXPECT_EQ(command.wait(), 4) << command.text();
  EXPECT_EQ(command.json()["failure"]["code"], "rank-start");
  EXPECT_THAT(command.json()["failure"]["remedy"].get<std::string>(), HasSubstr("ulimit -n"));
}

TEST(Hardship, TooFewProcessesIsAnErrorThatSaysSo) {
  // The limit does not hold for root: as somebody else, of whom no other process runs.
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without processes";
  Spscope command(under("chmod 777 {folder}; exec setpriv --reuid=64123 --clear-groups prlimit --nproc=3 \"$@\"", run("1")), {}, "/bin/sh");
  const int code = command.wait();
  if (code == 126 || code == 127) GTEST_SKIP() << "another user cannot start the program here: " << command.text();
  EXPECT_EQ(code, 4) << command.text();
  EXPECT_THAT(command.json()["failure"]["remedy"].get<std::string>(), HasSubstr("ulimit -u")) << command.text();
}

/// The process has come as far as to hold back Ctrl+C, or to have a handler for it.
bool takesInterrupts(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:") || line.starts_with("SigCgt:"))
      if (std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1) return true;
  return false;
}

TEST(Hardship, CtrlCInTheFirstMomentsIsAnsweredToo) {
  for (const int ms : {0, 20, 100, 300}) {
    Spscope command(run("100000"));
    while (isRunning(command.pid()) && !takesInterrupts(command.pid())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    kill(command.pid(), SIGINT);
    EXPECT_EQ(command.wait(), 1) << ms << " ms: " << command.text();
    EXPECT_EQ(command.json()["error"]["code"], "cancelled") << ms << " ms";
  }
}

}  // namespace
}  // namespace spscope::dist
