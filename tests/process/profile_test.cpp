// SPDX-License-Identifier: Apache-2.0
// `run --profile` on real ranks, read back and analysed: the sums hold, waiting is told from transfer, the cap is kept, the
// attention kernel that ran is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/session/run.h"
#include "profiler/analyze/analysis.h"
#include "profiler/import/import.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace spscope::dist {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
const std::string kSample = SPSCOPE_SOURCE_DIR "/resources/samples/llama_gqa.pt2";

class Profile : public TempFolderTest {
 protected:
  /// The JSON of a profiled run of the sample, which must end well.
  Json recorded(std::vector<std::string> more) {
    std::vector<std::string> words{"run", kSample, "--threads", "1", "--profile", trace()};
    words.insert(words.end(), more.begin(), more.end());
    return answer(std::move(words));
  }
  Json report() { return answer({"trace", "report", trace()}); }
  Json answer(std::vector<std::string> words) {
    Spscope run(std::move(words));
    EXPECT_EQ(run.wait(), 0) << run.text();
    text_ = run.text();
    return run.json();
  }
  std::string trace() const { return path("run.spt"); }
  std::string text_;
};

std::int64_t number(const Json& row, const char* key) { return row.at(key).get<std::int64_t>(); }

TEST_F(Profile, OnFourRanksEveryNanosecondIsAccountedFor) {
  const Json run = recorded({"--sp", "4", "--steps", "4", "--seq", "256"});
  EXPECT_EQ(run["profile"]["ranks"], 4);
  EXPECT_EQ(run["profile"]["dropped"], 0);
  const Json said = report();
  EXPECT_EQ(said["alignment"]["method"], "same-clock");
  EXPECT_TRUE(said["problems"].empty()) << said["problems"];
  ASSERT_EQ(said["breakdown"].size(), 4u);
  for (const Json& row : said["breakdown"]) {
    EXPECT_EQ(number(row, "idle_ns") + number(row, "compute_ns") + number(row, "exposed_comm_ns") + number(row, "exposed_memory_ns"), number(row, "span_ns"))
        << row;
    EXPECT_GT(number(row, "compute_ns"), 0);
    EXPECT_GT(number(row, "exposed_comm_ns"), 0);
  }
  EXPECT_FALSE(said["collectives"].empty());
  for (const Json& c : said["collectives"]) {
    EXPECT_FALSE(c["wait_ns"].is_null()) << c;
    EXPECT_EQ(number(c, "wait_ns") + number(c, "transfer_ns"), number(c, "duration_ns"));
  }
  EXPECT_EQ(run["profile"]["events"], said["events"]);
  fs::path spools = trace();
  spools += ".ranks";
  EXPECT_FALSE(fs::exists(spools)) << "what the ranks spooled is gone";
}

TEST_F(Profile, TheAttentionKernelThatRanIsNamed) {
  recorded({"--sp", "2", "--steps", "2", "--seq", "64", "--ranks", "virtual"});
  const Json said = report();
  ASSERT_EQ(said["attention"].size(), 8u) << "four layers, forward and backward";
  for (const Json& row : said["attention"]) {
    EXPECT_EQ(row["on"], "host");
    ASSERT_EQ(row["kernels"].size(), 1u) << row;
    EXPECT_THAT(row["kernels"][0]["name"].get<std::string>(), testing::HasSubstr("_scaled_dot_product_flash_attention_for_cpu"));
    EXPECT_EQ(row["kernels"][0]["count"], 2) << "one step on each of two ranks";
  }
  EXPECT_THAT(text_, testing::HasSubstr("Attention: what really ran"));
}

TEST_F(Profile, OfVirtualRanksNothingIsKnownOfCommunication) {
  const Json run = recorded({"--sp", "2", "--steps", "2", "--seq", "64", "--ranks", "virtual"});
  for (const char* field : {"comm_ns", "exposed_comm_ns", "overlap"}) EXPECT_TRUE(run.at(field).is_null()) << field;
  EXPECT_EQ(answer({"trace", "report", trace(), "--report", path("page.md")})["virtual"], true);
  EXPECT_THAT(contents("page.md"), testing::HasSubstr("Virtual ranks: they took turns in one process"));
}

TEST_F(Profile, CostsAreOfThisGraphOrNotTakenForMeasured) {
  recorded({"--sp", "2", "--steps", "3", "--seq", "64", "--ranks", "virtual"});
  const auto compiled = [&](const std::string& file, std::vector<std::string> more) {
    std::vector<std::string> words{"compile", kSample, "--sp", "2", "--threads", "1", "--costs-from", file};
    words.insert(words.end(), more.begin(), more.end());
    return answer(std::move(words));
  };
  const Json same = compiled(trace(), {"--seq", "64"});
  EXPECT_GT(same["costs"]["flops_per_ns"].get<double>(), 0);
  EXPECT_GT(same["costs"]["bytes_per_ns"].get<double>(), 0);
  EXPECT_NEAR(same["costs"]["joined_share"].get<double>(), 1, 1e-9);
  EXPECT_TRUE(same["warnings"].empty()) << same["warnings"];
  EXPECT_TRUE(compiled(trace(), {"--seq", "64", "--save", "all"})["warnings"].empty()) << "the same graph, other settings";

  // Chrome JSON has no flops: they are this program's.
  answer({"trace", "export", trace(), "--to", "chrome", "-o", path("run.json")});
  const Json chrome = compiled(path("run.json"), {"--seq", "64"});
  EXPECT_NEAR(chrome["costs"]["flops_per_ns"].get<double>(), same["costs"]["flops_per_ns"].get<double>(), 0.01 * same["costs"]["flops_per_ns"].get<double>());
  EXPECT_NEAR(chrome["costs"]["bytes_per_ns"].get<double>(), same["costs"]["bytes_per_ns"].get<double>(), 0.01 * same["costs"]["bytes_per_ns"].get<double>());

  // Another length: only what the trace itself says can be a rate.
  const Json longer = compiled(trace(), {"--seq", "128"});
  EXPECT_EQ(longer["warnings"][0]["code"], "costs-other-plan");
  EXPECT_GT(longer["costs"]["flops_per_ns"].get<double>(), 0);
  EXPECT_TRUE(longer["costs"]["bytes_per_ns"].is_null());
  EXPECT_THAT(text_, testing::HasSubstr("GB/s (nominal: the trace does not tell)"));
  const Json neither = compiled(path("run.json"), {"--seq", "128"});
  EXPECT_TRUE(neither["costs"]["flops_per_ns"].is_null());
  EXPECT_TRUE(neither["costs"]["bytes_per_ns"].is_null());

  Spscope other({"compile", SPSCOPE_SOURCE_DIR "/tests/data/zoo/gpt2.pt2", "--sp", "2", "--costs-from", trace()});
  EXPECT_EQ(other.wait(), 3) << other.text();
  EXPECT_EQ(other.json()["refusals"][0]["code"], "costs-other-model");
}

/// Pages of a process in memory, in bytes.
std::int64_t residentBytes(int pid) {
  std::int64_t all = 0, resident = 0;
  std::ifstream(strf("/proc/%d/statm", pid)) >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(Profile, ALongRunAtTheCapKeepsMemoryAndDiskBounded) {
  constexpr std::int64_t kCap = 1 << 20;
  Spscope run({"run", kSample, "--threads", "1", "--sp", "2", "--seq", "16", "--steps", "1000000", "--profile", trace(), "--profile-steps", "0:1000000",
               "--profile-cap", "1"});
  run.awaitStep(60);
  const auto ranks = run.children();
  ASSERT_EQ(ranks.size(), 2u);
  std::string spools;  // a folder of the run's own beside the trace
  for (const auto& entry : fs::directory_iterator(fs::path(trace()).parent_path()))
    if (entry.is_directory() && entry.path().string().starts_with(trace() + ".ranks-")) spools = entry.path().string();
  ASSERT_FALSE(spools.empty());
  const auto look = [&] {
    std::vector<std::int64_t> out;
    for (std::size_t r = 0; r < 2; ++r) {
      out.push_back(static_cast<std::int64_t>(fs::file_size(strf("%s/rank%zu", spools.c_str(), r))));
      out.push_back(residentBytes(ranks[r]));
    }
    return out;
  };
  const auto early = look();
  run.awaitStep(460);
  const auto later = look();
  kill(run.pid(), SIGINT);
  EXPECT_EQ(run.wait(), 1) << run.text();
  for (std::size_t i = 0; i < 4; i += 2) {
    EXPECT_GT(early[i], kCap / 2);
    EXPECT_LE(later[i], kCap) << "the head counts, too";
    EXPECT_EQ(early[i], later[i]) << "once full, it grows no more";
    EXPECT_LT(later[i + 1] - early[i + 1], 8 << 20) << "400 steps of records would be over 30 MB";
  }
  std::printf("spools of %lld and %lld bytes, memory grew by %lld and %lld KiB\n", static_cast<long long>(later[0]), static_cast<long long>(later[2]),
              static_cast<long long>((later[1] - early[1]) >> 10), static_cast<long long>((later[3] - early[3]) >> 10));
  const Json said = run.json();
  EXPECT_GT(said["profile"]["dropped"].get<std::int64_t>(), 400'000);
  EXPECT_TRUE(std::any_of(said["warnings"].begin(), said["warnings"].end(), [](const Json& w) { return w["code"] == "profile-dropped"; })) << said["warnings"];
  const Json read = answer({"trace", "info", trace()});
  EXPECT_EQ(read["problems"]["dropped-records"], said["profile"]["dropped"]) << read["problems"];
}

/// Of each all-to-all of a run of two ranks, by its sequence number: what rank 0 waited, and the transfer.
struct Exchange {
  double wait_ms = 0, transfer_ms = 0;
};
std::map<std::int64_t, Exchange> exchangesOfRank0(const std::string& file, const char* late_ms) {
  std::map<std::int64_t, Exchange> out;
  DiagnosticSink diagnostics;
  session::Request request;
  request.diagnostics = &diagnostics;
  session::RunRequest what;
  what.open.path = kSample;
  what.open.seq = 64;
  what.settings.sp = 2;
  what.settings.threads = 1;
  what.settings.communication = "plain";  // one after another: nothing that hides a delay
  what.steps = 4;
  what.profile.file = file;
  what.program = SPSCOPE_PROFILE_PROBE;
  ::setenv("SPSCOPE_TEST_LATE_MS", late_ms, 1);
  ::setenv("SPSCOPE_TEST_LATE_TO", (file + ".slept").c_str(), 1);
  const auto ran = session::run(what, request);
  ::unsetenv("SPSCOPE_TEST_LATE_MS");
  ::unsetenv("SPSCOPE_TEST_LATE_TO");
  if (!ran || ran->failure) {
    ADD_FAILURE() << (ran ? ran->failure->error : ran.error()).format();
    return out;
  }
  auto trace = trace::importTrace(file);
  if (!trace) {
    ADD_FAILURE() << trace.error().format();
    return out;
  }
  const auto analysis = trace::analyze(*trace);
  if (!analysis) {
    ADD_FAILURE() << analysis.error().format();
    return out;
  }
  for (const trace::MatchedCollective& c : analysis->collectives) {
    if (trace->strings.text(c.kind) != "all_to_all" || c.parts.empty() || c.parts[0].wait_ns == trace::kUnknown) continue;
    out[c.sequence] = {static_cast<double>(c.parts[0].wait_ns) / 1e6, static_cast<double>(c.parts[0].transfer_ns) / 1e6};
  }
  return out;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

TEST_F(Profile, ARankThatComesLateIsWaitedForAndTransfersNoSlower) {
  constexpr int kPairs = 3;
  std::vector<double> grown_wait, grown_transfer, noise_wait, noise_transfer;
  std::map<std::int64_t, Exchange> before;
  for (int i = 0; i < kPairs; ++i) {  // in turns: what else the machine does meets both
    const auto plain = exchangesOfRank0(trace(), "0"), late = exchangesOfRank0(trace(), "20");
    ASSERT_GE(plain.size(), 20u);
    ASSERT_EQ(plain.size(), late.size());
    for (const auto& [sequence, of_plain] : plain) {
      ASSERT_TRUE(late.count(sequence));
      grown_wait.push_back(late.at(sequence).wait_ms - of_plain.wait_ms);
      grown_transfer.push_back(late.at(sequence).transfer_ms - of_plain.transfer_ms);
      if (i == 0) continue;
      noise_wait.push_back(std::abs(of_plain.wait_ms - before.at(sequence).wait_ms));
      noise_transfer.push_back(std::abs(of_plain.transfer_ms - before.at(sequence).transfer_ms));
    }
    before = plain;
  }
  // What the same run differs by from one time to the next, typically; on a quiet machine some hundredths of a millisecond.
  const double spread_wait = median(noise_wait), spread_transfer = median(noise_transfer);
  const double wait = median(grown_wait), transfer = median(grown_transfer);
  std::printf("%zu collectives: waiting grows by %.3f ms (spread %.3f), transfer by %.3f ms (spread %.3f)\n", grown_wait.size(), wait, spread_wait,
              transfer, spread_transfer);
  if (spread_wait > 8 || spread_transfer > 8) GTEST_SKIP() << "the machine is too busy to tell 20 ms from nothing: spread " << spread_wait << " ms";
  // On a busy machine who sleeps 20 ms wakes later: what counts is how long it really slept.
  std::vector<double> slept;
  std::ifstream log(trace() + ".slept");
  for (double ms = 0; log >> ms;) slept.push_back(ms);
  ASSERT_GE(slept.size(), grown_wait.size());
  ASSERT_GE(median(slept), 20);
  EXPECT_NEAR(wait, median(slept), 2 + spread_wait);
  EXPECT_NEAR(transfer, 0, 2 + spread_transfer);
}

}  // namespace
}  // namespace spscope::dist
