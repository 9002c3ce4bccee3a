// SPDX-License-Identifier: Apache-2.0
// Ranks of an existing launch: told by torchrun's variables, meeting at MASTER_ADDR:MASTER_PORT.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/strings.h"
#include "core/dist/c10d/gloo.h"
#include "core/dist/run_directory.h"
#include "core/dist/spawn.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Addresses (hex, as /proc/net/tcp has them) on which some process listens on this port.
std::vector<std::string> listenersOn(int port) {
  std::vector<std::string> out;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      char address[40], state[8];
      unsigned found = 0;
      if (std::sscanf(line.c_str(), " %*d: %39[0-9A-F]:%x %*s %7s", address, &found, state) == 3 &&
          static_cast<int>(found) == port && std::string_view(state) == "0A")
        out.push_back(address);
    }
  }
  return out;
}

TEST(Tcp, RanksOfAnExistingLaunchMeetAtMasterAddr) {
  const TempFolder folder;
  const int port = Listener().port;  // free again
  std::vector<Child> children;
  for (int r = 0; r < 3; ++r) {
    auto child = spawn({SPSCOPE_RANK_PROBE, {"ok", "--steps", "3"},
                        {{"RANK", std::to_string(r)}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", std::to_string(r)},
                         {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}},
                        logFile(folder.path(), r)});
    ASSERT_TRUE(child) << child.error().format();
    children.push_back(*child);
  }
  for (int r = 0; r < 3; ++r) {
    int status = 0;
    waitpid(children[static_cast<std::size_t>(r)].pid, &status, 0);
    EXPECT_EQ(status, 0) << join(lastLines(logFile(folder.path(), r), 20), "\n");
    EXPECT_THAT(lastLines(logFile(folder.path(), r), 1), Contains(strf("rank %d done", r)));
    close(children[static_cast<std::size_t>(r)].fd);
  }
}

TEST(Tcp, StoreListensOnTheGivenAddressOnly) {
  const int port = Listener().port;
  std::vector<std::string> seen;
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Rendezvous at;
      at.rank = r;
      at.size = 2;
      at.host = "127.0.0.1";
      at.port = port;
      auto group = connectGloo(at);
      ASSERT_TRUE(group) << group.error().format();
      EXPECT_TRUE((*group)->barrier());
      if (r == 0) seen = listenersOn(port);
      EXPECT_TRUE((*group)->barrier());
    });
  for (std::thread& t : ranks) t.join();
  EXPECT_THAT(seen, testing::ElementsAre("0100007F"));
}

TEST(Tcp, PortThatIsTakenIsNamedWithItsHolder) {
  const Listener taken;
  Rendezvous at;
  at.rank = 0;
  at.size = 2;
  at.host = "127.0.0.1";
  at.port = taken.port;
  const auto group = connectGloo(at);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, "rendezvous-failed");
  EXPECT_THAT(group.error().message, HasSubstr(strf("127.0.0.1:%d: Address already in use; held by pid %d (test_dist)", taken.port, getpid())));
}

TEST(Tcp, StoreThatNeverAnswersIsAnErrorInTime) {
  const Listener silent;  // takes connections and says nothing: a host that has gone away, a stopped process
  Rendezvous at;
  at.rank = 1;
  at.size = 2;
  at.host = "127.0.0.1";
  at.port = silent.port;
  at.connect_timeout = std::chrono::milliseconds(1000);
  const auto began = std::chrono::steady_clock::now();
  const auto group = connectGloo(at);
  ASSERT_FALSE(group);
  EXPECT_THAT(group.error().code, testing::StartsWith("rendezvous-"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(Tcp, StoreThatIsNotThereIsAnErrorInTime) {
  const int port = Listener().port;
  Rendezvous at;
  at.rank = 1;
  at.size = 2;
  at.host = "127.0.0.1";
  at.port = port;
  at.connect_timeout = std::chrono::milliseconds(500);
  const auto began = std::chrono::steady_clock::now();
  const auto group = connectGloo(at);
  ASSERT_FALSE(group);
  // Refused again and again until the time is over; on a busy machine our own deadline may come before the store's last word.
  EXPECT_THAT(group.error().code, testing::AnyOf("rendezvous-failed", "rendezvous-timeout"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

}  // namespace
}  // namespace spscope::dist
