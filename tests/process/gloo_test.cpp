// SPDX-License-Identifier: Apache-2.0
// The arithmetic and the errors of the Gloo collectives: every rank a thread of this process, meeting at a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "tests/support/gloo_ranks.h"

namespace spscope::dist {
namespace {

using ir::DType;
using testing::HasSubstr;

void expectAllFine(const std::vector<Status>& results) {
  for (const Status& s : results) EXPECT_TRUE(s) << s.error().format();
}

class Gloo : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Gloo, testing::Values(1, 2, 3, 4));

TEST_P(Gloo, AllReduceSumsInRankOrderToTheBit) {
  for (const std::int64_t count : {0, 1, 2, 7, 5000, 100'003}) {
    expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
      std::vector<double> data(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = valueAt(group.rank(), i);
      SP_TRY(group.allReduceSum({data.data(), count, DType::kF64}));
      for (std::int64_t i = 0; i < count; ++i) {
        double want = valueAt(0, i);
        for (int r = 1; r < group.size(); ++r) want += valueAt(r, i);
        if (data[static_cast<std::size_t>(i)] != want) return makeError("internal", strf("element %ld of %ld", i, count));
      }
      return {};
    }));
  }
}

float fromBf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
std::uint16_t toBf16(float f) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(f) >> 16); }

TEST_P(Gloo, HalfPrecisionSumsAreRoundedOnce) {
  // 256 + 1 + 1 + 1: in bfloat16 each addition of 1 would be lost; in float32 they count and are rounded at the end.
  expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
    std::vector<std::uint16_t> data(9000, toBf16(group.rank() == 0 ? 256.0f : 1.0f));
    SP_TRY(group.allReduceSum({data.data(), 9000, DType::kBF16}));
    const float want = group.size() < 3 ? 256.0f : group.size() == 3 ? 258.0f : 260.0f;
    for (const std::uint16_t v : data)
      if (fromBf16(v) != want) return makeError("internal", strf("%g, not %g", fromBf16(v), want));
    return {};
  }));
}

TEST_P(Gloo, SumsEveryIntegerTypeAndBool) {
  expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
    const int p = group.size();
    std::vector<std::int64_t> i64{-1, std::int64_t{1} << 40};
    std::vector<std::int32_t> i32{-7};
    std::vector<std::int16_t> i16{-300};
    std::vector<std::int8_t> i8{-2};
    std::vector<std::uint8_t> flags{0, static_cast<std::uint8_t>(group.rank() == 0), 1};
    SP_TRY(group.allReduceSum({i64.data(), 2, DType::kI64}));
    SP_TRY(group.allReduceSum({i32.data(), 1, DType::kI32}));
    SP_TRY(group.allReduceSum({i16.data(), 1, DType::kI16}));
    SP_TRY(group.allReduceSum({i8.data(), 1, DType::kI8}));
    SP_TRY(group.allReduceSum({flags.data(), 3, DType::kBool}));
    EXPECT_EQ(i64, (std::vector<std::int64_t>{-p, p * (std::int64_t{1} << 40)}));
    EXPECT_EQ(i32[0], -7 * p);
    EXPECT_EQ(i16[0], -300 * p);
    EXPECT_EQ(i8[0], -2 * p);
    EXPECT_EQ(flags, (std::vector<std::uint8_t>{0, 1, 1}));  // "any", not a count
    const Status refused = group.allReduceSum({flags.data(), 1, DType::kF8E4M3FN});
    EXPECT_EQ(refused ? "" : refused.error().code, "collective-dtype");
    return {};
  }));
}

TEST_P(Gloo, AllToAllMovesUnevenAndEmptyBlocks) {
  expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
    // Rank r sends (r + 2·to) mod 4 elements to each rank; some of them none.
    const auto count = [](int from, int to) { return std::int64_t{(from + 2 * to) % 4} * 1000; };
    std::vector<std::int64_t> out, in;
    std::vector<std::int32_t> send, want;
    for (int r = 0; r < group.size(); ++r) {
      out.push_back(count(group.rank(), r));
      in.push_back(count(r, group.rank()));
      for (std::int64_t i = 0; i < out.back(); ++i) send.push_back(static_cast<std::int32_t>(group.rank() * 100'000 + r * 10'000 + i));
      for (std::int64_t i = 0; i < in.back(); ++i) want.push_back(static_cast<std::int32_t>(r * 100'000 + group.rank() * 10'000 + i));
    }
    std::vector<std::int32_t> recv(want.size(), -1);
    SP_TRY(group.allToAll({send.data(), static_cast<std::int64_t>(send.size()), DType::kI32}, out,
                          {recv.data(), static_cast<std::int64_t>(recv.size()), DType::kI32}, in));
    EXPECT_EQ(recv, want);
    return {};
  }));
}

TEST_P(Gloo, AllEmptyMessagesWork) {
  expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
    const std::vector<std::int64_t> none(static_cast<std::size_t>(group.size()), 0);
    SP_TRY(group.allToAll({nullptr, 0, DType::kF32}, none, {nullptr, 0, DType::kF32}, none));
    SP_TRY(group.allGather({nullptr, 0, DType::kF32}, {nullptr, 0, DType::kF32}, none));
    SP_TRY(group.reduceScatterSum({nullptr, 0, DType::kF32}, {nullptr, 0, DType::kF32}, none));
    SP_TRY(group.allReduceSum({nullptr, 0, DType::kF32}));
    return group.barrier();
  }));
}

TEST_P(Gloo, AllGatherAndReduceScatterOfUnevenBlocks) {
  expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
    std::vector<std::int64_t> counts;
    for (int r = 0; r < group.size(); ++r) counts.push_back(r == 1 ? 0 : 3000 * r + 5);
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const std::int64_t own = counts[static_cast<std::size_t>(group.rank())];
    std::vector<float> block(static_cast<std::size_t>(own), static_cast<float>(group.rank() + 1)), whole(static_cast<std::size_t>(total));
    SP_TRY(group.allGather({block.data(), own, DType::kF32}, {whole.data(), total, DType::kF32}, counts));
    std::vector<float> want;
    for (int r = 0; r < group.size(); ++r) want.insert(want.end(), static_cast<std::size_t>(counts[static_cast<std::size_t>(r)]), static_cast<float>(r + 1));
    EXPECT_EQ(whole, want);

    for (std::int64_t i = 0; i < total; ++i) whole[static_cast<std::size_t>(i)] = static_cast<float>(i * (group.rank() + 1));
    SP_TRY(group.reduceScatterSum({whole.data(), total, DType::kF32}, {block.data(), own, DType::kF32}, counts));
    const std::int64_t begin = std::accumulate(counts.begin(), counts.begin() + group.rank(), std::int64_t{0});
    const int factor = group.size() * (group.size() + 1) / 2;
    for (std::int64_t i = 0; i < own; ++i)
      if (block[static_cast<std::size_t>(i)] != static_cast<float>((begin + i) * factor)) return makeError("internal", strf("element %ld", i));
    return {};
  }));
}

TEST_P(Gloo, GathersTextsOfAnyLength) {
  expectAllFine(onRanks(ranks(), [&](Collectives& group) -> Status {
    const auto textOf = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 40'000, static_cast<char>('a' + rank)); };
    SP_ASSIGN(const auto texts, group.allGatherText(textOf(group.rank())));
    for (int r = 0; r < group.size(); ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], textOf(r));
    return {};
  }));
}

TEST(GlooErrors, NamesADifferenceInSizeBeforeAnythingIsSent) {
  const auto results = onRanks(3, [](Collectives& group) -> Status {
    SP_TRY(group.barrier());
    std::vector<float> data(group.rank() == 2 ? 65 : 64);
    return group.allReduceSum({data.data(), static_cast<std::int64_t>(data.size()), DType::kF32});
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, "collective-mismatch");
  EXPECT_THAT(results[0].error().message, HasSubstr("all_reduce #2: rank 2 has 65 elements, this rank 64"));
}

TEST(GlooErrors, NamesADifferenceInOrder) {
  const auto results = onRanks(2, [](Collectives& group) -> Status {
    std::vector<float> data(8);
    const std::vector<std::int64_t> four{4, 4};
    if (group.rank() == 1) return group.reduceScatterSum({data.data(), 8, DType::kF32}, {data.data(), 4, DType::kF32}, four);
    return group.allReduceSum({data.data(), 8, DType::kF32});
  });
  ASSERT_FALSE(results[0]);
  EXPECT_THAT(results[0].error().message, HasSubstr("all_reduce #1: rank 1 does reduce_scatter"));
  ASSERT_FALSE(results[1]);
  EXPECT_THAT(results[1].error().message, HasSubstr("reduce_scatter #1: rank 0 does all_reduce"));
}

TEST(GlooErrors, TimesOutAndNamesTheRankThatStaysAway) {
  Rendezvous base;
  base.timeout = std::chrono::milliseconds(400);
  std::atomic<int> waiting{2};
  const auto results = onRanks(3, [&](Collectives& group) -> Status {
    SP_TRY(group.barrier());
    if (group.rank() == 1) {
      while (waiting > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return {};
    }
    const Status first = group.barrier();
    const Status again = group.barrier();  // must answer at once
    EXPECT_FALSE(again);
    --waiting;
    return first;
  }, base);
  for (const int r : {0, 2}) {
    ASSERT_FALSE(results[static_cast<std::size_t>(r)]);
    // The other waiting rank may give up first, which closes its connection: then it is named as lost.
    EXPECT_THAT(results[static_cast<std::size_t>(r)].error().message, HasSubstr("barrier #2"));
  }
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), [](const Status& s) {
    return !s && s.error().code == "collective-timeout" && s.error().message.find("1") != std::string::npos;
  }));
}

TEST(GlooErrors, SaysWhoseConnectionWasLost) {
  const auto results = onRanks(2, [](Collectives& group) -> Status {
    SP_TRY(group.barrier());
    if (group.rank() == 1) return {};  // leaves: its end of the connection is closed
    return group.barrier();
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, "peer-lost");
  EXPECT_THAT(results[0].error().message, HasSubstr("rank 1"));
}

TEST(GlooErrors, NamesTheRanksThatNeverCame) {
  Rendezvous at;
  at.rank = 1;
  at.size = 4;
  at.file = testing::TempDir() + "spscope-lonely-" + std::to_string(getpid());
  at.connect_timeout = std::chrono::milliseconds(200);
  const auto group = connectGloo(at);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, "rendezvous-timeout");
  EXPECT_THAT(group.error().message, HasSubstr("ranks 0, 2, 3"));
  std::filesystem::remove(at.file);
}

TEST(Agreement, EqualFactsPass) {
  expectAllFine(onRanks(3, [](Collectives& group) { return agree(group, {{"plan hash", "a1", ""}, {"collectives", "2", "x\ny"}}); }));
}

TEST(Agreement, NamesTheRankThatDiffersAndTheFirstLine) {
  const auto results = onRanks(3, [](Collectives& group) {
    const bool odd = group.rank() == 1;
    return agree(group, {{"plan hash", odd ? "b2" : "a1", ""}, {"collectives", "2", odd ? "all_gather\nall_reduce" : "all_gather\nall_to_all"}});
  });
  for (const Status& s : results) {
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, "ranks-disagree");
    EXPECT_THAT(s.error().message, HasSubstr("rank 1 differs: plan hash: rank 1 'b2', rank 0 'a1'"));
    ASSERT_EQ(s.error().notes.size(), 1u);
    EXPECT_THAT(s.error().notes[0], HasSubstr("entry 2: rank 1 has 'all_reduce', rank 0 'all_to_all'"));
  }
}

}  // namespace
}  // namespace spscope::dist
