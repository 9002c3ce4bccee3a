// SPDX-License-Identifier: Apache-2.0
// Two network namespaces as two hosts, joined by a cable (a veth pair): a run under torchrun's variables, and the cable cut.
// Needs the right to make namespaces (root, mostly), and skips with the reason where it is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/processes.h"

namespace spscope::dist {
namespace {

using testing::HasSubstr;

const std::string kSample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";

/// Runs a shell command; what it says is in *text.
bool shell(const std::string& command, std::string* text = nullptr) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return false;
  char buffer[512];
  std::string said;
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) said += buffer;
  if (text != nullptr) *text = said;
  return pclose(pipe) == 0;
}

class TwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    const std::string id = std::to_string(getpid() % 100'000);
    for (int i = 0; i < 2; ++i) names_[i] = "spscope" + id + (i == 0 ? "a" : "b");
    std::string why;
    for (const std::string& name : names_)
      if (!shell("ip netns add " + name, &why)) GTEST_SKIP() << "network namespaces cannot be made here: " << why;
    const std::string a = "sp" + id + "a", b = "sp" + id + "b";
    const bool joined = shell("ip link add " + a + " netns " + names_[0] + " type veth peer name " + b + " netns " + names_[1], &why);
    if (!joined) GTEST_SKIP() << "no veth pair can be made here: " << why;
    for (int i = 0; i < 2; ++i) {
      const std::string in = "ip -n " + names_[i] + " ", device = i == 0 ? a : b;
      ASSERT_TRUE(shell(in + "addr add 10.77.0." + std::to_string(i + 1) + "/24 dev " + device, &why)) << why;
      ASSERT_TRUE(shell(in + "link set " + device + " up && " + in + "link set lo up", &why)) << why;
    }
    cable_ = "ip -n " + names_[1] + " link set " + b;
  }
  void TearDown() override {
    for (const std::string& name : names_) shell("ip netns del " + name);
  }
  /// spscope on host `host` as that rank of two.
  std::unique_ptr<Spscope> start(int host, const char* steps, const char* timeout) {
    const std::vector<std::string> arguments{"ip", "netns", "exec", names_[host], SPSCOPE_PROGRAM, "run", kSample, "--seq", "64", "--sp", "2",
                                             "--dtype", "float64", "--steps", steps, "--timeout", timeout, "--launched"};
    return std::make_unique<Spscope>(arguments,
                                     std::map<std::string, std::string>{{"RANK", std::to_string(host)}, {"WORLD_SIZE", "2"},
                                                                        {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "10.77.0.1"},
                                                                        {"MASTER_PORT", "29500"}},
                                     "/usr/bin/env");
  }
  std::string names_[2], cable_;
};

TEST_F(TwoHosts, TrainAsOneHostDoes) {
  const auto one = start(1, "3", "60"), zero = start(0, "3", "60");
  EXPECT_EQ(zero->wait(), 0) << zero->text();
  EXPECT_EQ(one->wait(), 0) << one->text();
  Spscope local({"run", kSample, "--seq", "64", "--sp", "2", "--dtype", "float64", "--steps", "3"});
  ASSERT_EQ(local.wait(), 0) << local.text();
  EXPECT_EQ(zero->json()["losses"], local.json()["losses"]);  // to the bit
  EXPECT_EQ(zero->json()["predicted_peak_bytes"].size(), 2u);
}

TEST_F(TwoHosts, ACutCableEndsBothWithinTheDeadline) {
  const auto one = start(1, "100000", "5"), zero = start(0, "100000", "5");
  zero->awaitStep(2);
  std::string why;
  ASSERT_TRUE(shell(cable_ + " down", &why)) << why;  // nobody is told: no connection is closed
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(zero->wait(), 4) << zero->text();
  EXPECT_EQ(one->wait(), 4) << one->text();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::duration<double>(5 + kEndsWithin));
  EXPECT_THAT(zero->json()["failure"]["message"].get<std::string>(), HasSubstr("from rank 1 within 5.0 s"));
  EXPECT_THAT(one->text(), HasSubstr("from rank 0 within 5.0 s"));  // only rank 0 writes --json
}

TEST_F(TwoHosts, AHostThatCannotBeReachedIsAnErrorInTime) {
  std::string why;
  ASSERT_TRUE(shell(cable_ + " down", &why)) << why;
  const auto one = start(1, "1", "3");
  EXPECT_EQ(one->wait(), 4) << one->text();
  EXPECT_THAT(one->text(), HasSubstr("error[rendezvous-"));
}

}  // namespace
}  // namespace spscope::dist
