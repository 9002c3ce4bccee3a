// SPDX-License-Identifier: Apache-2.0
// Started collectives over Gloo: several operands at once, many under way, and who is named when a rank goes wrong while the
// others' collectives are pending. Every rank a thread of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "tests/support/gloo_ranks.h"

namespace spscope::dist {
namespace {

using ir::DType;
using testing::HasSubstr;

class GlooAsync : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GlooAsync, testing::Values(1, 2, 3, 4));

/// Buckets of tensors that are empty, tiny, joined, and larger than what is summed at once.
TEST_P(GlooAsync, ABucketIsSummedInRankOrderToTheBit) {
  const std::vector<std::int64_t> counts{3, 0, 1, 200'000, 5, 700'001, 40'000, 130'000, 2};
  for (const Status& s : onAsyncRanks(GetParam(), [&](Collectives& group) -> Status {
         std::vector<std::vector<double>> data;
         std::vector<CollectivePart> parts;
         for (std::size_t p = 0; p < counts.size(); ++p) {
           data.emplace_back(static_cast<std::size_t>(counts[p]));
           for (std::int64_t i = 0; i < counts[p]; ++i) data.back()[static_cast<std::size_t>(i)] = valueAt(group.rank(), i + static_cast<std::int64_t>(p));
         }
         for (auto& d : data) parts.push_back({{}, {d.data(), static_cast<std::int64_t>(d.size()), DType::kF64}, {}, {}});
         SP_ASSIGN(const std::int64_t ticket, group.start(CollectiveKind::kAllReduce, parts, nullptr));
         SP_ASSIGN(const CollectiveTimes times, group.wait(ticket));
         if (times.end_ns < times.begin_ns) return makeError("internal", "ends before it begins");
         for (std::size_t p = 0; p < counts.size(); ++p)
           for (std::int64_t i = 0; i < counts[p]; ++i) {
             double want = valueAt(0, i + static_cast<std::int64_t>(p));
             for (int r = 1; r < group.size(); ++r) want += valueAt(r, i + static_cast<std::int64_t>(p));
             if (data[p][static_cast<std::size_t>(i)] != want) return makeError("internal", strf("element %ld of tensor %zu", i, p));
           }
         return {};
       }))
    EXPECT_TRUE(s) << s.error().format();
}

/// Uneven and empty blocks, several operands of different sizes, two starts under way, waited for in the other order.
TEST_P(GlooAsync, SeveralExchangesAreUnderWayAtOnce) {
  for (const Status& s : onAsyncRanks(GetParam(), [&](Collectives& group) -> Status {
         const int size = group.size(), me = group.rank();
         std::vector<std::vector<float>> sends, receives;
         std::vector<std::int64_t> tickets;
         for (int start = 0; start < 2; ++start) {
           std::vector<CollectivePart> parts;
           for (int operand = 0; operand < 3; ++operand) {
             const auto count = [&](int from, int to) { return std::int64_t{(from * 2 + to + operand + start) % 3}; };
             CollectivePart part;
             std::vector<float> send, receive;
             for (int r = 0; r < size; ++r) {
               part.send_counts.push_back(count(me, r));
               part.recv_counts.push_back(count(r, me));
               for (std::int64_t i = 0; i < count(me, r); ++i) send.push_back(static_cast<float>(1000 * start + 100 * operand + 10 * me + r));
               receive.resize(receive.size() + static_cast<std::size_t>(count(r, me)));
             }
             sends.push_back(std::move(send));
             receives.push_back(std::move(receive));
             part.send = {sends.back().data(), static_cast<std::int64_t>(sends.back().size()), DType::kF32};
             part.recv = {receives.back().data(), static_cast<std::int64_t>(receives.back().size()), DType::kF32};
             parts.push_back(std::move(part));
           }
           SP_ASSIGN(const std::int64_t ticket, group.start(CollectiveKind::kAllToAll, std::move(parts), nullptr));
           tickets.push_back(ticket);
         }
         SP_TRY(group.wait(tickets[1]));
         SP_TRY(group.wait(tickets[0]));
         for (int start = 0; start < 2; ++start)
           for (int operand = 0; operand < 3; ++operand) {
             std::vector<float> want;
             for (int r = 0; r < size; ++r)
               for (std::int64_t i = 0; i < (r * 2 + me + operand + start) % 3; ++i) want.push_back(static_cast<float>(1000 * start + 100 * operand + 10 * r + me));
             if (receives[static_cast<std::size_t>(3 * start + operand)] != want) return makeError("internal", strf("start %d, operand %d", start, operand));
           }
         return group.barrier();
       }))
    EXPECT_TRUE(s) << s.error().format();
}

/// One float more for each call, started.
Result<std::int64_t> startSum(Collectives& group, std::vector<float>& data) {
  return group.start(CollectiveKind::kAllReduce, {{{}, {data.data(), static_cast<std::int64_t>(data.size()), DType::kF32}, {}, {}}}, nullptr);
}

TEST(GlooPending, TimesOutAndNamesTheRankNumberAndOp) {
  Rendezvous base;
  base.timeout = std::chrono::milliseconds(1500);
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::vector<std::string> notices;  // of rank 0
  base.on_collective = [&](std::string_view op, std::int64_t number, bool inside) {
    const std::lock_guard lock(mutex);
    notices.push_back(strf("%.*s %lld %d", static_cast<int>(op.size()), op.data(), static_cast<long long>(number), inside));
  };
  const auto results = onAsyncRanks(2, [&](Collectives& group) -> Status {
    static std::vector<float> first[2]{std::vector<float>(9, 1.0F), std::vector<float>(9, 1.0F)};
    static std::vector<float> second(9, 1.0F);
    SP_ASSIGN(const std::int64_t one, startSum(group, first[group.rank()]));
    if (group.rank() == 1) {
      SP_TRY(group.wait(one));
      while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return {};
    }
    SP_ASSIGN(const std::int64_t two, startSum(group, second));
    SP_TRY(group.wait(one));
    const Status waited = [&]() -> Status {
      SP_TRY(group.wait(two));
      return {};
    }();
    done = true;
    return waited;
  }, base);
  EXPECT_TRUE(results[1]) << results[1].error().format();
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, "collective-timeout");
  EXPECT_THAT(results[0].error().message, HasSubstr("rank 0, all_reduce #2"));
  EXPECT_THAT(results[0].error().message, HasSubstr("rank 1"));
  EXPECT_THAT(notices, testing::Contains("all_reduce 2 1"));        // the table of ranks says that it is inside ...
  EXPECT_THAT(notices, testing::Not(testing::Contains("all_reduce 2 0")));  // ... and has not come out
}

TEST(GlooPending, NamesADifferenceInSize) {
  Rendezvous base;
  base.timeout = std::chrono::milliseconds(4000);
  const auto results = onAsyncRanks(2, [&](Collectives& group) -> Status {
    static std::vector<float> data[2]{std::vector<float>(9, 1.0F), std::vector<float>(8, 1.0F)};
    SP_ASSIGN(const std::int64_t ticket, startSum(group, data[group.rank()]));
    SP_TRY(group.wait(ticket));
    return {};
  }, base);
  int named = 0;
  for (const Status& s : results) {
    ASSERT_FALSE(s);
    named += s.error().code == "collective-mismatch";
    if (s.error().code == "collective-mismatch") EXPECT_THAT(s.error().message, HasSubstr("all_reduce #1"));
  }
  EXPECT_GE(named, 1);
}

}  // namespace
}  // namespace spscope::dist
