// SPDX-License-Identifier: Apache-2.0
// Runs of ours that hang or do not agree, live: the culprit is named by the same verdict that judges dumps of other people's runs, and the
// dumps that such a run leaves say the same when they are read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hang/verdict.h"
#include "core/session/hang_report.h"
#include "tests/support/probe_run.h"

namespace spscope::session {
namespace {

using dist::ProbeRun;
using testing::ElementsAre;
using testing::HasSubstr;

struct Scenario {
  const char* name;
  const char* mode;
  const char* code;       ///< of the verdict
  const char* says;       ///< in its reason
  bool by_itself = false; ///< the rank fails by itself: its death, too, names it
};

class LiveHangs : public testing::TestWithParam<Scenario> {};

/// What `spscope hang DIRECTORY` would say.
hang::Verdict ofDumps(const std::string& directory, std::vector<io::RecorderDump>& dumps) {
  dumps = io::readFlightRecorders({directory}, "").value();
  return hang::analyse(dumps).verdict;
}

TEST_P(LiveHangs, TheCulpritIsNamedLiveAndByTheDumps) {
  const Scenario& s = GetParam();
  dist::LaunchSpec spec;
  spec.stall_timeout = std::chrono::milliseconds(4000);
  const ProbeRun run = dist::runProbe(3, {s.mode, "1", "2", "--pair", "--timeout-ms", "1200"}, spec);
  ASSERT_TRUE(run.outcome.failure.has_value());
  const RankFailure failure = rankFailure(run.outcome);
  EXPECT_EQ(failure.rank, 1) << failure.error.format();
  ASSERT_TRUE(failure.hang) << failure.error.format();
  EXPECT_EQ(failure.hang->code, s.code) << failure.hang->why;
  EXPECT_THAT(failure.hang->culprits, ElementsAre(1)) << failure.hang->why;
  EXPECT_NE(failure.hang->certainty, "possible");
  EXPECT_THAT(failure.hang->why, HasSubstr(s.says));
  EXPECT_GT(failure.hang->sequence.value_or(0), 0);
  EXPECT_THAT(failure.error.notes, testing::Contains(HasSubstr("at fault: rank 1")));
  EXPECT_THAT(failure.log, HasSubstr("rank1.log"));
  EXPECT_EQ(failure.error.code == "rank-died", s.by_itself) << failure.error.code;
  std::vector<io::RecorderDump> dumps;
  const hang::Verdict again = ofDumps(run.outcome.directory, dumps);
  EXPECT_EQ(again.code, failure.hang->code);
  EXPECT_EQ(again.culprits, failure.hang->culprits);
  EXPECT_EQ(again.why, failure.hang->why);
  ASSERT_EQ(dumps.size(), 3u);
  EXPECT_EQ(dumps[0].ops.front().op, "all_reduce");
  EXPECT_EQ(dumps[0].ops.front().input_sizes, (std::vector<std::vector<std::int64_t>>{{100}}));
  EXPECT_EQ(dumps[0].groups.at("0"), (std::vector<int>{0, 1, 2}));
}

INSTANTIATE_TEST_SUITE_P(Ten, LiveHangs,
                         testing::Values(Scenario{"missing_rank", "sleep", "hang-absent-rank", "rank 1 did not come to all_reduce #7"},
                                         Scenario{"stuck_in_compute", "spin", "hang-absent-rank", "rank 1 did not come to all_reduce #7"},
                                         Scenario{"stopped_process", "stop", "hang-absent-rank", "rank 1 did not come to all_reduce #7"},
                                         Scenario{"slow_rank", "late", "hang-absent-rank", "rank 1 did not come to all_reduce #7"},
                                         Scenario{"dead_rank", "kill", "hang-absent-rank", "rank 1 did not come to all_reduce #7", true},
                                         Scenario{"wrong_order", "swap", "collective-mismatch", "rank 1 does all_gather"},
                                         Scenario{"skipped", "skip", "collective-mismatch", "rank 1 does all_gather"},
                                         Scenario{"once_too_often", "again", "hang-extra-collective", "rank 1 calls all_reduce twice"},
                                         Scenario{"wrong_size", "size", "collective-mismatch", "other sizes: rank 1"},
                                         Scenario{"wrong_dtype", "dtype", "collective-mismatch", "another type: rank 1"},
                                         Scenario{"uneven_all_to_all", "uneven", "collective-mismatch", "the splits do not agree"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LiveHangs, AWrongGroupIsNamed) {
  dist::LaunchSpec spec;
  spec.stall_timeout = std::chrono::milliseconds(4000);
  const ProbeRun run = dist::runProbe(4, {"group", "1", "2", "--mesh", "--timeout-ms", "1200"}, spec);
  ASSERT_TRUE(run.outcome.failure.has_value());
  const RankFailure failure = rankFailure(run.outcome);
  ASSERT_TRUE(failure.hang) << failure.error.format();
  EXPECT_THAT(failure.hang->code, testing::AnyOf("hang-group", "hang-absent-rank")) << failure.hang->why;
  EXPECT_THAT(failure.hang->culprits, testing::Contains(1)) << failure.hang->why;
}

TEST(LiveHangs, ARunThatIsWellHasNoVerdict) {
  const ProbeRun run = dist::runProbe(3, {"ok", "--pair"});
  EXPECT_TRUE(run.outcome.ok());
}

}  // namespace
}  // namespace spscope::session
