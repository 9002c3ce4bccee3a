// SPDX-License-Identifier: Apache-2.0
#include "core/dist/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace spscope::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

EnvLookup of(std::map<std::string, std::string> variables) {
  return [v = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto it = v.find(name);
    return it == v.end() || it->second.empty() ? std::nullopt : std::optional(it->second);
  };
}
const std::map<std::string, std::string> kTorchrun{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"},
                                                   {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29501"}};
std::map<std::string, std::string> with(std::map<std::string, std::string> base, std::map<std::string, std::string> more) {
  for (auto& [k, v] : more) base[k] = v;
  return base;
}
std::string messageOf(const Result<LaunchedRank>& r) { return r ? "" : r.error().code + ": " + r.error().message; }

TEST(Environment, Torchrun) {
  const auto at = launchedRank(of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}})));
  ASSERT_TRUE(at) << at.error().format();
  EXPECT_EQ(at->launcher, "torchrun");
  EXPECT_EQ(at->rank, 3);
  EXPECT_EQ(at->size, 8);
  EXPECT_EQ(at->local_rank, 1);
  EXPECT_EQ(at->master_addr, "node7");
  EXPECT_EQ(at->master_port, 29501);
  EXPECT_TRUE(at->store_exists);
  EXPECT_EQ(at->prefix, "/2");
}

TEST(Environment, SlurmMeetsOnTheStepsFirstHost) {
  const std::map<std::string, std::string> v{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "8"},
                                             {"SLURM_LOCALID", "1"}, {"SLURM_STEP_NODELIST", "gpu[08-09,12]"}, {"SLURM_NNODES", "2"},
                                             {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}};
  const auto at = launchedRank(of(v));
  ASSERT_TRUE(at) << at.error().format();
  EXPECT_EQ(at->launcher, "slurm");
  EXPECT_EQ(at->rank, 5);
  EXPECT_EQ(at->size, 8);
  EXPECT_EQ(at->master_addr, "gpu08");
  EXPECT_GE(at->master_port, 20000);
  EXPECT_LT(at->master_port, 40000);
  const auto other = launchedRank(of(with(v, {{"SLURM_JOB_ID", "78"}})));
  EXPECT_NE(at->master_port, other->master_port);  // two jobs that share a node
  const auto same = launchedRank(of(with(v, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}})));
  EXPECT_EQ(at->master_port, same->master_port);
  EXPECT_EQ(launchedRank(of(with(v, {{"MASTER_ADDR", "x"}, {"MASTER_PORT", "5"}})))->master_port, 5);
}

TEST(Environment, OpenMpi) {
  const std::map<std::string, std::string> v{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                             {"SLURM_PROCID", "0"}};  // mpirun inside a batch job
  const auto at = launchedRank(of(v));
  ASSERT_TRUE(at) << at.error().format();
  EXPECT_EQ(at->launcher, "open-mpi");
  EXPECT_EQ(at->master_addr, "127.0.0.1");
  EXPECT_THAT(messageOf(launchedRank(of(with(v, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})))), HasSubstr("MASTER_ADDR is not set"));
}

TEST(Environment, HalfSetOrWrongVariablesAreNamed) {
  EXPECT_THAT(messageOf(launchedRank(of({}))), HasSubstr("launch-env: no launcher's variables are set"));
  EXPECT_THAT(messageOf(launchedRank(of({{"RANK", "0"}}))), HasSubstr("torchrun's variables are set by half: WORLD_SIZE, LOCAL_RANK missing"));
  EXPECT_THAT(messageOf(launchedRank(of({{"WORLD_SIZE", "2"}}))), HasSubstr("RANK, LOCAL_RANK missing"));
  EXPECT_THAT(messageOf(launchedRank(of({{"SLURM_PROCID", "0"}}))), HasSubstr("SLURM_NTASKS, SLURM_LOCALID missing"));
  EXPECT_THAT(messageOf(launchedRank(of(with(kTorchrun, {{"RANK", "8"}})))), HasSubstr("RANK is 8, but WORLD_SIZE is only 8"));
  EXPECT_THAT(messageOf(launchedRank(of(with(kTorchrun, {{"RANK", "1x"}})))), HasSubstr("RANK is '1x', not a number"));
  EXPECT_THAT(messageOf(launchedRank(of(with(kTorchrun, {{"RANK", "-1"}})))), HasSubstr("RANK is '-1'"));
  EXPECT_THAT(messageOf(launchedRank(of(with(kTorchrun, {{"MASTER_ADDR", ""}})))), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(messageOf(launchedRank(of(with(kTorchrun, {{"MASTER_PORT", ""}})))), HasSubstr("MASTER_PORT is not"));
  EXPECT_THAT(messageOf(launchedRank(of(with(kTorchrun, {{"MASTER_PORT", "70000"}})))), HasSubstr("65535"));
}

TEST(Environment, LeftoverRankThatContradictsTheRealLauncherIsNamed) {
  const auto v = with(kTorchrun, {{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  EXPECT_THAT(messageOf(launchedRank(of(v))), HasSubstr("RANK says rank 3, but OMPI_COMM_WORLD_RANK says rank 4 of the same 8"));
  // srun that starts one torchrun per node: different sizes, nothing wrong.
  EXPECT_TRUE(launchedRank(of(with(kTorchrun, {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}))));
}

TEST(Environment, WorldMustBeSpTimesDp) {
  EXPECT_TRUE(checkWorld(2, 3, 6));
  const Status s = checkWorld(4, 1, 6);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, "launch-world");
  EXPECT_EQ(s.error().legal, "--sp 1 --dp 6; --sp 2 --dp 3; --sp 3 --dp 2; --sp 6 --dp 1");
}

TEST(Environment, SlurmHostLists) {
  EXPECT_THAT(expandHostList("login"), ElementsAre("login"));
  EXPECT_THAT(expandHostList("n[01-03,7],login,g[9-10]-ib"), ElementsAre("n01", "n02", "n03", "n7", "login", "g9-ib", "g10-ib"));
  for (const char* bad : {"", "n[1-", "n[a-b]", "n[]", "[1-2]x[3-4]", ",a"}) EXPECT_TRUE(expandHostList(bad).empty()) << bad;
}

TEST(Environment, ChildOfOurOwnLauncher) {
  const std::map<std::string, std::string> v{{"SPSCOPE_RANK", "1"}, {"SPSCOPE_WORLD", "2"}, {"SPSCOPE_FD", "3"}, {"SPSCOPE_RUN_DIR", "/r"}};
  ASSERT_TRUE(childEnvironment(of(v)));
  EXPECT_EQ(childEnvironment(of(v))->directory, "/r");
  for (const auto& [name, value] : v) EXPECT_FALSE(childEnvironment(of(with(v, {{name, ""}})))) << name;
  EXPECT_FALSE(childEnvironment(of(with(v, {{"SPSCOPE_RANK", "2"}}))));
}

}  // namespace
}  // namespace spscope::dist
