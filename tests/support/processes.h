// SPDX-License-Identifier: Apache-2.0
// Processes in tests: whether one runs, and the command spscope as a person starts it. SPSCOPE_PROGRAM is its path.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "core/dist/run_directory.h"
#include "core/dist/spawn.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {

/// Within how many seconds of a fault (or of the deadline that shows it) a run must have ended, all its processes gone.
constexpr double kEndsWithin = 5;

/// False also for a zombie that nobody has reaped yet.
inline bool isRunning(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  const auto end = line.rfind(')');
  return end != std::string::npos && end + 2 < line.size() && line[end + 2] != 'Z' && line[end + 2] != 'X';
}

/// A socket that listens on a free loopback port.
struct Listener {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port = 0;
  Listener() {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof a;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&a), n), 0);
    EXPECT_EQ(listen(fd, 4), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n), 0);
    port = ntohs(a.sin_port);
  }
  ~Listener() { close(fd); }
};

/// A process with a temporary folder of its own, which is also its TMPDIR; {folder} in an argument stands for it. Killed at
/// the end where it still runs.
class Process {
 public:
  explicit Process(const std::string& program, std::vector<std::string> arguments, std::map<std::string, std::string> environment = {}) {
    environment.try_emplace("TMPDIR", folder());
    for (std::string& a : arguments)
      if (const auto at = a.find("{folder}"); at != std::string::npos) a.replace(at, 8, folder());
    auto child = spawn({program, std::move(arguments), std::move(environment), log()});
    EXPECT_TRUE(child) << child.error().format();
    if (child) child_ = *child;
  }
  ~Process() {
    if (!reaped_ && child_.pid > 0) {
      kill(child_.pid, SIGKILL);
      waitpid(child_.pid, nullptr, 0);
    }
    if (child_.fd >= 0) close(child_.fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& folder() const { return folder_.path(); }
  std::string log() const { return folder_.path("command.log"); }
  std::string text() const { return join(lastLines(log(), 80), "\n"); }
  int pid() const { return child_.pid; }
  /// Its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(child_.pid, &status, 0);
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Process ids of its children: the ranks.
  std::vector<int> children() const {
    std::vector<int> out;  // of whichever of its threads started them
    std::error_code ended;
    for (std::filesystem::directory_iterator it(strf("/proc/%d/task", child_.pid), ended), last; !ended && it != last; it.increment(ended)) {
      std::ifstream in(it->path() / "children");
      for (int pid; in >> pid;) out.push_back(pid);
    }
    return out;
  }
  /// Waits until a line of its output begins so; false where it ends before, or after a minute.
  bool awaitLine(const std::string& beginning) const {
    for (int i = 0; i < 6000; ++i) {
      for (const std::string& line : lastLines(log(), 200))
        if (line.rfind(beginning, 0) == 0) return true;
      if (!isRunning(child_.pid)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  const TempFolder folder_;
  Child child_;
  bool reaped_ = false;
};

/// spscope with these arguments and --json.
class Spscope : public Process {
 public:
  /// `through`: another program that starts it, with `arguments` of its own in front.
  explicit Spscope(std::vector<std::string> arguments, std::map<std::string, std::string> environment = {},
                   const std::string& through = SPSCOPE_PROGRAM)
      : Process(through, withJson(std::move(arguments)), std::move(environment)) {}
  /// Its object; `suffix` ".rank1": that of another rank of a launch.
  nlohmann::json json(const std::string& suffix = "") const {
    return nlohmann::json::parse(std::ifstream(folder() + "/out.json" + suffix), nullptr, false);
  }
  /// Waits until the log says that this step was made.
  void awaitStep(int step) const {
    if (!awaitLine(strf("step %d ", step))) ADD_FAILURE() << "no step " << step << ": " << text();
  }

 private:
  static std::vector<std::string> withJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "{folder}/out.json"});
    return arguments;
  }
};

}  // namespace spscope::dist
