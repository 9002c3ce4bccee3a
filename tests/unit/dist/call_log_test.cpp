// SPDX-License-Identifier: Apache-2.0
// What a rank remembers of its collectives, and the dump that is made of it.
#include "core/dist/call_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/dist/call_dump.h"

namespace spscope::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CallNotice allReduce(std::int64_t sequence, std::int64_t count = 100) {
  return {.op = "all_reduce", .group = {}, .members = {}, .sequence = sequence, .dtype = ir::DType::kF32, .sent = count, .received = count};
}

TEST(CallLog, RemembersTheLastOnesAndWhichHaveEnded) {
  const auto log = std::make_unique<CallLog>();
  EXPECT_TRUE(log->read().empty());
  const auto most = static_cast<std::int64_t>(CallLog::kCalls);
  for (std::int64_t i = 1; i <= most + 3; ++i) {
    log->begin(allReduce(i), "%node_" + std::to_string(i), i / 10);
    if (i != most + 2) log->end("", i);
  }
  const std::vector<RecordedCall> calls = log->read();
  ASSERT_EQ(calls.size(), CallLog::kCalls);
  EXPECT_EQ(calls.front().sequence, 4);
  EXPECT_EQ(calls.front().record, 4);
  EXPECT_EQ(calls.back().sequence, most + 3);
  EXPECT_EQ(calls.back().node, "%node_" + std::to_string(most + 3));
  EXPECT_EQ(calls.back().step, (most + 3) / 10);
  EXPECT_EQ(calls.back().sent, 100);
  EXPECT_EQ(calls.back().dtype, ir::DType::kF32);
  for (const RecordedCall& c : calls) {
    EXPECT_EQ(c.end_ns > 0, c.sequence != most + 2) << c.sequence;
    EXPECT_TRUE(c.end_ns == 0 || c.end_ns >= c.begin_ns);
  }
}

TEST(CallLog, KeepsGroupsApartAndCutsWhatIsTooLong) {
  const auto log = std::make_unique<CallLog>();
  const std::vector<int> row{0, 2, 4};
  CallNotice in_row = allReduce(1);
  in_row.group = "sp0";
  in_row.members = row;
  log->begin(allReduce(1), std::string(500, 'x'), 0);
  log->begin(in_row, "", 0);
  log->end("sp0", 1);
  const std::vector<RecordedCall> calls = log->read();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].group, "");
  EXPECT_TRUE(calls[0].members.empty());
  EXPECT_EQ(calls[0].end_ns, 0);
  EXPECT_EQ(calls[0].node, std::string(103, 'x'));
  EXPECT_EQ(calls[1].group, "sp0");
  EXPECT_THAT(calls[1].members, ElementsAre(0, 2, 4));
  EXPECT_GT(calls[1].end_ns, 0);
}

TEST(CallDump, IsAFlightRecordersDump) {
  RankRecord rank;
  rank.rank = 2;
  RecordedCall call;
  call.record = 1;
  call.op = "all_gather";
  call.node = "%gather \"x\"";
  call.sequence = 7;
  call.step = 3;
  call.dtype = ir::DType::kBF16;
  call.sent = 8;
  call.received = 24;
  call.even = false;
  call.begin_ns = 1000;
  rank.calls = {call};
  const std::string text = callDump(rank, 3);
  EXPECT_THAT(text, HasSubstr("\"rank\": 2"));
  EXPECT_THAT(text, HasSubstr("\"ranks\": \"[0, 1, 2]\""));
  EXPECT_THAT(text, HasSubstr("\"profiling_name\": \"gloo:all_gather_v\""));  // blocks of several sizes
  EXPECT_THAT(text, HasSubstr("\"collective_seq_id\": 7"));
  EXPECT_THAT(text, HasSubstr("\"state\": \"started\""));
  EXPECT_THAT(text, HasSubstr("\"input_sizes\": [[8]], \"input_dtypes\": [\"BFloat16\"], \"output_sizes\": [[24]]"));
  EXPECT_THAT(text, HasSubstr("\"name\": \"%gather \\\"x\\\"\", \"filename\": \"step\", \"line\": 3"));
  EXPECT_THAT(callDump(RankRecord{}, 1), HasSubstr("\"entries\": [\n\n]"));
}

}  // namespace
}  // namespace spscope::dist
