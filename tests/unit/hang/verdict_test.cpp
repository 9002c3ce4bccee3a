// SPDX-License-Identifier: Apache-2.0
// The verdicts: kept dumps of ways to hang, recorded (Gloo) and written as NCCL's recorder does, and cases built here.
#include "core/hang/verdict.h"

#include <gtest/gtest.h>

#include "core/base/codes.h"
#include "tests/support/hang_dumps.h"

namespace spscope::hang {
namespace {

using testing::dumpOf;
using testing::hangFolder;
using testing::recorded;

struct Scenario {
  const char* folder;
  const char* code;
  std::vector<int> culprits;
};

void PrintTo(const Scenario& s, std::ostream* out) { *out << s.folder; }

class Hangs : public ::testing::TestWithParam<Scenario> {};

TEST_P(Hangs, the_culprit_is_named) {
  const auto dumps = io::readFlightRecorders({hangFolder(GetParam().folder)}, "");
  ASSERT_TRUE(dumps) << dumps.error().format();
  const Finding found = analyse(*dumps);
  EXPECT_EQ(found.verdict.code, GetParam().code) << found.verdict.why;
  EXPECT_EQ(found.verdict.culprits, GetParam().culprits) << found.verdict.why;
  EXPECT_TRUE(findCode(found.verdict.code));
  EXPECT_FALSE(found.verdict.why.empty());
  ASSERT_TRUE(found.verdict.where);
  const auto* frame = userFrame(*found.verdict.where);
  if (!found.verdict.where->frames.empty()) {
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->file, "/srv/train/train.py");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kept, Hangs,
    ::testing::Values(Scenario{"nccl/missing_rank", "hang-absent-rank", {2}}, Scenario{"nccl/wrong_order", "hang-order", {1}},
                      Scenario{"nccl/wrong_size", "collective-mismatch", {3}}, Scenario{"nccl/wrong_dtype", "collective-mismatch", {2}},
                      Scenario{"nccl/wrong_group", "hang-group", {1}}, Scenario{"nccl/dead_rank", "hang-no-dump", {3}},
                      Scenario{"nccl/slow_rank", "hang-slow-rank", {2}}, Scenario{"nccl/uneven_all_to_all", "collective-mismatch", {1}},
                      Scenario{"nccl/double_collective", "hang-extra-collective", {0}}, Scenario{"nccl/send_without_recv", "hang-unpaired", {1}},
                      Scenario{"gloo/missing_rank", "hang-absent-rank", {2}}, Scenario{"gloo/missing_rank.json", "hang-absent-rank", {2}},
                      Scenario{"gloo/wrong_order", "hang-order", {1}}, Scenario{"gloo/wrong_size", "collective-mismatch", {3}},
                      Scenario{"gloo/wrong_dtype", "collective-mismatch", {2}}, Scenario{"gloo/wrong_group", "hang-group", {1}},
                      Scenario{"gloo/dead_rank", "hang-no-dump", {3}}, Scenario{"gloo/slow_rank", "hang-slow-rank", {2}},
                      Scenario{"gloo/uneven_all_to_all", "collective-mismatch", {1}}, Scenario{"gloo/double_collective", "hang-extra-collective", {0}}),
    [](const auto& scenario) {
      std::string name = scenario.param.folder;
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST(HangVerdict, nothing_is_said_of_ranks_that_did_the_same_and_are_done) {
  std::vector<io::RecorderDump> dumps;
  for (int r = 0; r < 3; ++r) dumps.push_back(dumpOf(r, {recorded(1, "all_reduce", true), recorded(2, "broadcast", true), recorded(3, "all_gather", true)}, {0, 1, 2}));
  EXPECT_EQ(analyse(dumps).verdict.code, "");
}

TEST(HangVerdict, with_as_many_on_either_side_nobody_is_accused) {
  const std::vector<io::RecorderDump> dumps{dumpOf(0, {recorded(1, "all_reduce", false)}, {0, 1}), dumpOf(1, {recorded(1, "all_reduce", false, {9})}, {0, 1})};
  const Verdict v = analyse(dumps).verdict;
  EXPECT_EQ(v.code, "collective-mismatch");
  EXPECT_TRUE(v.culprits.empty());
  EXPECT_EQ(v.certainty, Certainty::kPossible);
}

TEST(HangVerdict, an_all_gather_of_uneven_parts_is_no_mismatch) {
  std::vector<io::RecorderDump> dumps;
  for (int r = 0; r < 2; ++r) {
    auto op = recorded(1, "all_gather", false, {r + 3});
    op.output_sizes = {{3}, {4}};
    dumps.push_back(dumpOf(r, {op}, {0, 1}));
  }
  EXPECT_EQ(analyse(dumps).verdict.code, "hang-inside");
}

TEST(HangVerdict, where_all_came_and_the_others_are_through_the_one_that_is_not_is_named) {
  std::vector<io::RecorderDump> dumps;
  for (int r = 0; r < 3; ++r) {
    std::vector<io::RecordedOp> ops{recorded(1, "all_reduce", r != 1)};
    if (r != 1) ops.push_back(recorded(2, "all_reduce", false));
    dumps.push_back(dumpOf(r, ops, {0, 1, 2}));
  }
  const Verdict v = analyse(dumps).verdict;
  EXPECT_EQ(v.code, "hang-inside");
  EXPECT_EQ(v.culprits, (std::vector<int>{1}));
  EXPECT_EQ(v.certainty, Certainty::kLikely);
  EXPECT_EQ(v.why, "all came to all_reduce #1 with the same sizes and the others have finished it; rank 1 has not");
}

TEST(HangVerdict, where_all_came_the_rank_whose_kernel_has_not_begun_is_named) {
  std::vector<io::RecorderDump> dumps;
  for (int r = 0; r < 3; ++r) {
    auto op = recorded(1, "all_reduce", false);
    if (r == 1) op.state = "scheduled";
    dumps.push_back(dumpOf(r, {op}, {0, 1, 2}));
  }
  const Verdict v = analyse(dumps).verdict;
  EXPECT_EQ(v.code, "hang-inside");
  EXPECT_EQ(v.culprits, std::vector<int>{1});
}

TEST(HangVerdict, gloos_ops_that_ended_while_a_rank_was_missing_have_failed) {
  std::vector<io::RecorderDump> dumps;
  for (int r = 0; r < 3; ++r) {
    auto op = recorded(2, "all_reduce", true);
    op.backend = "gloo", op.state = "scheduled", op.retired = true;
    dumps.push_back(dumpOf(r, r == 1 ? std::vector{recorded(1, "all_reduce", true)} : std::vector{recorded(1, "all_reduce", true), op}, {0, 1, 2}));
  }
  const Verdict v = analyse(dumps).verdict;
  EXPECT_EQ(v.code, "hang-absent-rank");
  EXPECT_EQ(v.culprits, std::vector<int>{1});
}

TEST(HangVerdict, a_skipped_collective_is_told_from_another_order) {
  std::vector<io::RecorderDump> dumps;
  for (int r = 0; r < 3; ++r) {
    if (r == 2) dumps.push_back(dumpOf(r, {recorded(1, "broadcast", false), recorded(2, "all_gather", false)}, {0, 1, 2}));
    else dumps.push_back(dumpOf(r, {recorded(1, "all_reduce", false), recorded(2, "broadcast", false), recorded(3, "all_gather", false)}, {0, 1, 2}));
  }
  const Verdict v = analyse(dumps).verdict;
  EXPECT_EQ(v.code, "hang-skipped-collective");
  EXPECT_EQ(v.culprits, std::vector<int>{2});
}

TEST(HangVerdict, what_was_overwritten_is_not_taken_for_missing) {
  auto late = recorded(7, "all_reduce", true);
  late.record = 7;
  const std::vector<io::RecorderDump> dumps{dumpOf(0, {recorded(0, "all_reduce", true), late}, {0, 1}), dumpOf(1, {late}, {0, 1})};
  const Finding found = analyse(dumps);
  EXPECT_EQ(found.verdict.code, "");
  ASSERT_EQ(found.unknown.size(), 1u);
  EXPECT_NE(found.unknown.front().find("overwritten"), std::string::npos);
}

TEST(HangVerdict, a_sent_tensor_that_does_not_fit_the_recv_is_a_mismatch) {
  auto send = recorded(1, "send", false, {8}), recv = recorded(1, "recv", false, {7});
  send.is_p2p = recv.is_p2p = true;
  send.source = recv.source = 0, send.target = recv.target = 1;
  const std::vector<io::RecorderDump> dumps{dumpOf(0, {send}, {0, 1}), dumpOf(1, {recv}, {0, 1})};
  EXPECT_EQ(analyse(dumps).verdict.code, "collective-mismatch");
  recv.output_sizes = {{2, 4}};
  EXPECT_EQ(analyse({dumpOf(0, {send}, {0, 1}), dumpOf(1, {recv}, {0, 1})}).verdict.code, "") << "the same elements in another shape";
}

}  // namespace
}  // namespace spscope::hang
