// SPDX-License-Identifier: Apache-2.0
// What goes wrong for people who start ranks (section I of the list of field cases): a test per case, named after its id.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/dist/c10d/gloo.h"
#include "tests/support/probe_run.h"

namespace spscope::dist {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;

const std::string kSample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";

TEST(FieldCases, LA_01_a_dead_rank_ends_the_run_with_its_exit_code_and_last_words) {
  const ProbeRun run = runProbe(2, {"exit"});
  expectFailure(run);
  EXPECT_EQ(run.outcome.failure->exit_code, 3);
  EXPECT_THAT(run.outcome.failure->last_lines, Contains("last words of the probe"));
}

TEST(FieldCases, LA_03_an_exception_on_rank_0_alone_does_not_deadlock_the_end) {
  const ProbeRun run = runProbe(3, {"throw", "0", "2"});
  expectFailure(run, 0, 0);
  EXPECT_EQ(run.outcome.failure->error.message, "exception: the probe throws on purpose");
}

TEST(FieldCases, LA_04_the_record_of_the_rank_at_fault_is_written_first) {
  const ProbeRun run = runProbe(3, {"throw"});
  expectFailure(run);
  EXPECT_EQ(run.outcome.failure->error.message, "exception: the probe throws on purpose");
  EXPECT_THAT(run.outcome.failure->last_lines, Contains(HasSubstr("the probe throws on purpose")));
  // Rank 1 says what happened before it lets its connections go, of which the others would report the loss.
  const auto first = std::find_if(run.messages.begin(), run.messages.end(), [](const auto& m) { return m.second.kind == "error"; });
  ASSERT_NE(first, run.messages.end());
  EXPECT_EQ(first->first, 1);
  const std::string text = run.outcome.failure->toError(run.outcome.ranks).format();
  EXPECT_THAT(text, HasSubstr("rank 1 failed first"));
  for (const char* other : {"note: 0 ", "note: 2 "}) EXPECT_THAT(text, HasSubstr(other));  // where the others were
  // It stays beside the ranks' output.
  EXPECT_THAT(lastLines(run.outcome.directory + "/failure.log", 99), Contains(HasSubstr("rank 1 failed first")));
  EXPECT_FALSE(std::filesystem::exists(run.outcome.directory + "/request"));
}

TEST(FieldCases, LA_05_every_rank_is_in_the_table_of_last_collectives) {
  const ProbeRun run = runProbe(4, {"sleep", "2", "2", "--timeout-ms", "2000"});
  expectFailure(run, 2, 2);
  ASSERT_EQ(run.outcome.ranks.size(), 4u);
  for (const RankRecord& r : run.outcome.ranks) {
    EXPECT_EQ(r.last.collective, "all_reduce");
    EXPECT_EQ(r.last.sequence, r.rank == 2 ? 2 : 3) << formatTable(run.outcome.ranks);  // the stuck one did not come to #3
    EXPECT_EQ(r.last.inside_collective, r.rank != 2);
  }
  EXPECT_THAT(run.outcome.failure->error.message, HasSubstr("did not come to all_reduce #3"));
}

TEST(FieldCases, LA_06_different_sizes_or_orders_are_named_before_they_hang_at_any_step) {
  for (const char* mode : {"size", "order"})
    for (const char* step : {"0", "2", "4"}) {
      const ProbeRun run = runProbe(3, {mode, "1", step});
      ASSERT_TRUE(run.outcome.failure.has_value());
      const std::string message = run.outcome.failure->error.message;
      EXPECT_EQ(run.outcome.failure->error.code, "collective-mismatch") << message;
      EXPECT_THAT(message, HasSubstr(strf(" #%d: rank ", std::atoi(step) + 1)));
      EXPECT_THAT(message, HasSubstr(std::string_view(mode) == "size" ? "1001" : "barrier"));
      EXPECT_LT(run.seconds_after_fault, kEndsWithin);  // far before the deadline, a minute
      for (const RankRecord& r : run.outcome.ranks) EXPECT_EQ(r.signal, 0) << "rank " << r.rank << " was aborted";
    }
}

TEST(FieldCases, LA_08_a_hang_is_reported_soon_and_by_default) {
  EXPECT_LE(LaunchSpec{}.stall_timeout, milliseconds(120'000));
  EXPECT_LE(Rendezvous{}.timeout, milliseconds(120'000));
  const ProbeRun run = runProbe(3, {"sleep", "1", "3", "--timeout-ms", "2000"});  // nothing else is switched on
  ASSERT_TRUE(run.outcome.failure.has_value());
  EXPECT_LT(run.seconds_after_fault, 2 + kEndsWithin);
  EXPECT_EQ(run.outcome.failure->rank, 1);
  EXPECT_EQ(run.outcome.failure->node, "%linear_3");
  EXPECT_THAT(run.outcome.failure->error.message, HasSubstr("did not come to all_reduce #4"));
}

TEST(FieldCases, LA_09_two_runs_at_once_do_not_meet) {
  std::vector<ProbeRun> runs(2);
  {
    std::jthread one([&] { runs[0] = runProbe(2, {"ok", "--steps", "20"}); });
    std::jthread two([&] { runs[1] = runProbe(3, {"ok", "--steps", "20"}); });
  }
  EXPECT_TRUE(runs[0].outcome.ok());
  EXPECT_TRUE(runs[1].outcome.ok());
}

TEST(FieldCases, LA_10_every_rank_may_say_why_before_it_is_ended) {
  LaunchSpec spec;
  spec.grace = milliseconds(10'000);  // it ends when all have spoken
  const ProbeRun run = runProbe(3, {"throw", "-1", "2"}, spec);
  ASSERT_TRUE(run.outcome.failure.has_value());
  for (const RankRecord& r : run.outcome.ranks) {
    ASSERT_TRUE(r.error.has_value()) << "rank " << r.rank;
    EXPECT_EQ(r.signal, 0);
    EXPECT_THAT(r.last_lines, Contains(HasSubstr("the probe throws on purpose")));
  }
}

TEST(FieldCases, LA_11_a_slow_last_rank_is_waited_for) {
  for (const char* mode : {"slow", "slow-end"}) {
    const ProbeRun run = runProbe(3, {mode});
    EXPECT_TRUE(run.outcome.ok()) << (run.outcome.failure ? run.outcome.failure->error.format() : "");
    for (const RankRecord& r : run.outcome.ranks) {
      EXPECT_EQ(r.exit_code, 0) << mode << " rank " << r.rank;
      EXPECT_EQ(r.signal, 0);
      EXPECT_FALSE(r.asked_to_stop);
    }
  }
}

/// spscope as rank `rank` of two of an existing launch that meet at this port.
std::map<std::string, std::string> launchedRank(int rank, int port) {
  return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", std::to_string(rank)},
          {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}};
}
std::vector<std::string> launchedRun(const std::string& inputs = {}) {
  std::vector<std::string> out{"run", kSample, "--seq", "64", "--sp", "2", "--steps", "3", "--launched", "--timeout", "60"};
  if (!inputs.empty()) out.insert(out.end(), {"--inputs", inputs});
  return out;
}

TEST(FieldCases, LA_09_a_port_that_is_taken_is_named_with_its_holder) {
  const Listener taken;
  Spscope rank(launchedRun(), launchedRank(0, taken.port));
  EXPECT_EQ(rank.wait(), 4) << rank.text();
  EXPECT_THAT(rank.json()["failure"]["message"].get<std::string>(), HasSubstr(strf("held by pid %d (test_dist)", getpid())));
}

/// A batch of one row of 64 tokens of the sample, as a safetensors file.
void writeBatch(const std::string& path, std::int64_t id) {
  const std::string header =
      R"({"input_ids":{"dtype":"I64","shape":[1,64],"data_offsets":[0,512]},"labels":{"dtype":"I64","shape":[1,64],"data_offsets":[512,1024]},)"
      R"("position_ids":{"dtype":"I64","shape":[1,64],"data_offsets":[1024,1536]}})";
  const auto length = static_cast<std::uint64_t>(header.size());
  const std::vector<std::int64_t> ids(64, id), labels(64, 1), positions(64, 0);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << header;
  for (const auto* values : {&ids, &labels, &positions}) out.write(reinterpret_cast<const char*>(values->data()), 512);
}

TEST(FieldCases, LA_03_a_launched_rank_that_fails_alone_ends_and_so_does_the_other) {
  // Rank 0 alone has an id beyond the vocabulary, which it finds out after all have met.
  const std::string good = testing::TempDir() + strf("spscope-good-%d.safetensors", getpid()), bad = good + ".bad";
  writeBatch(good, 1);
  writeBatch(bad, 1'000'000'000);
  const int port = Listener().port;
  Spscope zero(launchedRun(bad), launchedRank(0, port)), one(launchedRun(good), launchedRank(1, port));
  EXPECT_EQ(zero.wait(), 3) << zero.text();
  EXPECT_EQ(zero.json()["refusals"][0]["code"], "input-out-of-range") << zero.text();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(one.wait(), 4) << one.text();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::duration<double>(kEndsWithin));  // the deadline is a minute
  EXPECT_THAT(one.text(), HasSubstr("error[peer-lost]"));
  EXPECT_TRUE(one.json().is_discarded()) << "FILE is rank 0's alone";
  EXPECT_EQ(one.json(".rank1")["rank"], 1);
  EXPECT_EQ(one.json(".rank1")["failure"]["rank"], 1);
  EXPECT_EQ(one.json(".rank1")["failure"]["code"], "peer-lost");
  std::filesystem::remove(good);
  std::filesystem::remove(bad);
}

TEST(Launched, EveryRankThatIsRefusedWritesAnObjectOfItsOwn) {
  std::vector<std::string> command = launchedRun();
  command[1] = "/no/such/model.pt2";
  const int port = Listener().port;
  Spscope zero(command, launchedRank(0, port)), one(command, launchedRank(1, port));
  const int code = one.wait();
  EXPECT_NE(code, 0);
  EXPECT_EQ(zero.wait(), code);
  EXPECT_EQ(zero.json()["rank"], 0);
  EXPECT_EQ(one.json(".rank1")["rank"], 1);
  for (const auto& object : {zero.json(), one.json(".rank1")}) EXPECT_EQ(object["model"], "/no/such/model.pt2");
  EXPECT_TRUE(one.json().is_discarded());

  command.push_back("--no-such-flag");
  Spscope misspelt(command, launchedRank(1, port));
  EXPECT_EQ(misspelt.wait(), 2);
  EXPECT_EQ(misspelt.json(".rank1")["error"]["code"], "usage");
}

TEST(Launched, APlaceThatRankZeroCannotMakeEndsAllAtOnce) {
  for (const char* flag : {"--profile", "--save-to"}) {
    std::vector<std::string> command = launchedRun();
    command.insert(command.end(), {flag, "/proc/none/here"});
    const int port = Listener().port;
    const auto began = std::chrono::steady_clock::now();
    Spscope zero(command, launchedRank(0, port)), one(command, launchedRank(1, port));
    const int code = zero.wait();
    EXPECT_NE(code, 0) << flag;
    EXPECT_EQ(one.wait(), code) << one.text();
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(50)) << "the deadline is a minute";
    EXPECT_THAT(zero.text(), HasSubstr("/proc/none/here")) << flag;
    EXPECT_THAT(one.text(), HasSubstr("rank 0: ")) << flag;
  }
}

TEST(Launched, RankZeroKnowsTheFiguresOfAll) {
  const int port = Listener().port;
  Spscope zero(launchedRun(), launchedRank(0, port)), one(launchedRun(), launchedRank(1, port));
  EXPECT_EQ(one.wait(), 0) << one.text();
  EXPECT_TRUE(one.json(".rank1").is_discarded()) << "only where it fails";
  EXPECT_EQ(zero.wait(), 0) << zero.text();
  for (const auto& figures : {zero.json()["predicted_peak_bytes"], zero.json()["peak_bytes"]}) {
    ASSERT_EQ(figures.size(), 2u);
    for (const auto& bytes : figures) EXPECT_GT(bytes.get<std::int64_t>(), 0);
  }
}

}  // namespace
}  // namespace spscope::dist
