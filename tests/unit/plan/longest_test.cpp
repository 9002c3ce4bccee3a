// SPDX-License-Identifier: Apache-2.0
// Verdicts, configurations and the search for the longest length, with made-up devices and programs.
#include "core/session/plan/longest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace spscope::session {
namespace {

DeviceProfile device(double capacity, double outside_low = 0, double outside_high = 0, double group_low = 0, double group_high = 0) {
  DeviceProfile p;
  p.capacity = {capacity, capacity, "made up"};
  p.outside = {outside_low, outside_high, "made up"};
  p.per_group = {group_low, group_high, "made up"};
  return p;
}

TEST(PlanRoom, HeadroomOutsideAndEveryCommunicatorAreTakenOff) {
  const DeviceProfile p = device(1000, 10, 30, 5, 20);
  const Room one = roomOn(p, {.sp = 1, .dp = 1}, 1, 0.1);
  EXPECT_DOUBLE_EQ(one.sure, 900 - 30);
  EXPECT_DOUBLE_EQ(one.hopeful, 900 - 10);
  const Room row = roomOn(p, {.sp = 4, .dp = 1}, 4, 0.1);
  EXPECT_DOUBLE_EQ(row.sure, 900 - 30 - 20) << "one group";
  const Room mesh = roomOn(p, {.sp = 4, .dp = 2}, 8, 0.1);
  EXPECT_DOUBLE_EQ(mesh.sure, 900 - 30 - 60) << "a row, a column and all";
  EXPECT_DOUBLE_EQ(mesh.hopeful, 900 - 10 - 15);
}

TEST(PlanRoom, AllToAllBuffersAreThoseOfSequenceRanks) {
  DeviceProfile p = device(1000);
  p.all_to_all = {0, 100, "made up"};
  EXPECT_DOUBLE_EQ(roomOn(p, {.sp = 2, .dp = 1}, 2, 0).sure, 900);
  EXPECT_DOUBLE_EQ(roomOn(p, {.sp = 2, .dp = 1}, 2, 0).hopeful, 1000);
  EXPECT_DOUBLE_EQ(roomOn(p, {.sp = 1, .dp = 2}, 2, 0).sure, 1000);
}

TEST(PlanRoom, RanksShareAMachinesMemory) {
  DeviceProfile p = device(1000, 10, 10);
  p.shared = true;
  EXPECT_DOUBLE_EQ(roomOn(p, {.sp = 4, .dp = 1}, 4, 0).sure, 240);
  EXPECT_DOUBLE_EQ(roomOn(p, {.sp = 4, .dp = 1}, 2, 0).sure, 490) << "two nodes";
}

TEST(PlanRoom, MoreCapacityIsMoreRoomAndMoreHeadroomIsLess) {
  const Configuration c{.sp = 2, .dp = 2};
  double last = -1e300;
  for (const double capacity : {100.0, 200.0, 400.0}) {
    const Room room = roomOn(device(capacity, 1, 2, 3, 4), c, 4, 0.03);
    EXPECT_GT(room.sure, last);
    EXPECT_LT(room.sure, room.hopeful);
    last = room.sure;
  }
  EXPECT_GT(roomOn(device(100), c, 4, 0.0).sure, roomOn(device(100), c, 4, 0.05).sure);
}

TEST(PlanVerdict, StraddlingIsUncertain) {
  const Room room{100, 120};
  const auto verdictOf = [](std::int64_t low, std::int64_t high, const Room& r) {
    Footprint f;
    f.peak_low = low;
    f.peak_high = high;
    return session::verdictOf(f, r);
  };
  EXPECT_EQ(verdictOf(100, 100, room), Verdict::kFits) << "to the byte";
  EXPECT_EQ(verdictOf(101, 101, room), Verdict::kUncertain);
  EXPECT_EQ(verdictOf(120, 120, room), Verdict::kUncertain);
  EXPECT_EQ(verdictOf(121, 121, room), Verdict::kDoesNotFit);
  EXPECT_EQ(verdictOf(90, 130, room), Verdict::kUncertain) << "a modelled peak is an interval, too";
  EXPECT_EQ(verdictOf(1, 1, Room{-5, -1}), Verdict::kDoesNotFit) << "what lies outside alone is too much";
}

TEST(PlanConfigurations, DefaultsUseAllRanksAndNothingOccursTwice) {
  ConfigurationSpace space;
  space.gpus = 4;
  space.nodes = 2;
  const auto all = configurations(space, 2);
  std::set<std::string> seen;
  for (const Configuration& c : all) {
    EXPECT_EQ(c.ranks(), 8);
    EXPECT_TRUE(seen.insert(c.text()).second) << c.text();
    EXPECT_EQ(c.batch % c.dp, 0) << c.text();
    EXPECT_FALSE(reasonAgainst(c, space)) << c.text();
  }
  EXPECT_EQ(all.size(), 4U * 2 * 4 * 2) << "meshes x losses x policies x zero";
  for (std::size_t i = 2; i < all.size(); ++i) {  // one head, one run of rows
    if (all[i].sameHead(all[i - 1])) continue;
    for (std::size_t j = 0; j + 1 < i; ++j) EXPECT_FALSE(all[j].sameHead(all[i]));
  }
  space.zero = {1, 1};
  EXPECT_EQ(configurations(space, 2).size(), 4U * 2 * 4);
}

TEST(PlanConfigurations, IllegalOnesSayWhyAndWhatIsLegal) {
  ConfigurationSpace space;
  space.gpus = 8;
  const auto reason = [&](Configuration c) {
    const auto e = reasonAgainst(c, space);
    return e ? e->code + ": " + e->message + " (" + e->legal + ")" : std::string();
  };
  EXPECT_EQ(reason({.sp = 8, .dp = 1}), "");
  EXPECT_EQ(reason({.sp = 2, .dp = 2, .batch = 2}), "") << "half of the ranks idle: wasteful, not illegal";
  EXPECT_EQ(reason({.sp = 8, .dp = 2, .batch = 2}), "plan-illegal: sp 8 x dp 2 takes 16 ranks, there are 8 (sp x dp up to 8)");
  EXPECT_EQ(reason({.sp = 1, .dp = 1, .zero = 3}), "plan-illegal: zero 3 on one rank: there is nobody to share with (--zero 0)");
  EXPECT_EQ(reason({.sp = 1, .dp = 4, .batch = 6}), "plan-illegal: 4 replicas do not divide a batch of 6 (a batch that is a multiple of 4)");
  EXPECT_EQ(reason({.sp = 0, .dp = 1}), "plan-illegal: sp 0, dp 1: there is no such number of ranks (1 or more)");
}

TEST(PlanRivals, EveryWayOnAllRanksWithAndWithoutTilesAndOffload) {
  ConfigurationSpace space;
  space.gpus = 8;
  const auto all = rivals(space, true);
  std::map<std::string, int> ways;
  std::set<std::string> seen;
  for (const Configuration& c : all) {
    ++ways[c.rival];
    EXPECT_TRUE(seen.insert(c.text() + (c.ring ? "ring" : "")).second) << c.text();
    EXPECT_FALSE(reasonAgainst(c, space)) << c.text();
    EXPECT_EQ(c.ring, c.rival == "ring");
    EXPECT_EQ(c.ranks(), c.rival == "unsharded" ? 1 : 8);
    const Configuration part = c.compiledPart();
    EXPECT_FALSE(part.offload.any() || part.ring || part.zero > 1);
    EXPECT_TRUE(part.sameHead(c));
  }
  EXPECT_EQ(ways, (std::map<std::string, int>{{"autosp", 4}, {"ring", 4}, {"ulysses", 4}, {"unsharded", 4}, {"zero-3", 4}}));
  EXPECT_EQ(rivals(space, false).size(), 10U) << "no link to a host: no offload";
  space.gpus = 1;
  EXPECT_EQ(rivals(space, false).size(), 2U) << "one device: nobody to share with";
  EXPECT_TRUE(reasonAgainst({.sp = 1, .dp = 1, .ring = true}, space)) << "nothing goes round";
}

/// A program of three places, two of which grow with the length.
Footprint program(std::int64_t seq, std::int64_t weights, std::int64_t a, std::int64_t b) {
  Footprint f;
  f.seq = seq;
  f.live = {weights, weights + 1000 + a * seq, weights + b * seq};
  f.peak_low = f.peak_high = f.compiled_peak = *std::max_element(f.live.begin(), f.live.end());
  return f;
}

TEST(PlanFit, ALineForEveryPlaceIsExactAcrossAKink) {
  PeakFit fit;
  fit.add(program(10, 500, 3, 40));
  fit.add(program(20, 500, 3, 40));
  EXPECT_EQ(fit.points(), 2U);
  for (const std::int64_t seq : {1, 5, 15, 1000}) EXPECT_DOUBLE_EQ(fit.predict(seq), static_cast<double>(program(seq, 500, 3, 40).peak_high)) << seq;
}

TEST(PlanFit, TheWorstShareThatNoPlaceShowsIsTakenForAllLengths) {
  constexpr double kMiB = 1 << 20;
  PeakFit fit;
  Footprint a = program(1000, 500, 30000, 400000), b = program(2000, 500, 30000, 400000);  // 381 and 763 MiB
  const double peak_a = static_cast<double>(a.peak_high), peak_b = static_cast<double>(b.peak_high);
  a.peak_high += 40 << 20;
  b.peak_high += 70 << 20;
  fit.add(a);
  EXPECT_DOUBLE_EQ(fit.highEnd(peak_a), peak_a + 40 * kMiB) << "segments: not in proportion to the program";
  EXPECT_DOUBLE_EQ(fit.highEnd(10 * peak_a), 10 * peak_a + 40 * kMiB);
  fit.add(b);
  const auto worst = [&](double peak) { return peak * (1 + 6 * kMiB / peak_b) + 64 * kMiB; };
  EXPECT_NEAR(fit.highEnd(peak_b), peak_b + 70 * kMiB, 1);
  EXPECT_NEAR(fit.predict(1500), worst(static_cast<double>(program(1500, 500, 30000, 400000).peak_high)), 1);
  EXPECT_NEAR(fit.predict(100000), worst(static_cast<double>(program(100000, 500, 30000, 400000).peak_high)), 1) << "across the kink, too";
  EXPECT_EQ(fit.highEnd(b), static_cast<std::int64_t>(std::ceil(worst(peak_b))));
  EXPECT_GE(fit.highEnd(a), a.peak_high) << "at least its own";
}

TEST(PlanFit, ProgramsOfOtherShapesGiveTheLineOfTheirPeaks) {
  PeakFit fit;
  Footprint a = program(10, 500, 3, 40), b = program(20, 500, 3, 40);
  b.live.push_back(0);
  fit.add(a);
  fit.add(b);
  EXPECT_DOUBLE_EQ(fit.predict(30), static_cast<double>(2 * b.peak_high - a.peak_high));
}

TEST(PlanFit, WhereNothingWasMeasuredTheTwoThatAreAlikeSpeak) {
  PeakFit fit;
  Footprint other = program(10, 500000, 0, 90);  // a policy that keeps everything where there is little
  for (int i = 0; i < 20; ++i) other.live.push_back(0);
  fit.add(other);
  fit.add(program(1000, 500000, 0, 40));
  fit.add(program(2000, 500000, 0, 40));
  EXPECT_DOUBLE_EQ(fit.predictAlike(300), static_cast<double>(program(300, 500000, 0, 40).peak_high));
  EXPECT_NE(fit.predict(300), fit.predictAlike(300)) << "between the nearest two another policy begins";
}

TEST(PlanFit, TheHostTakesPowersOfTwoBlockByBlock) {
  const auto at = [](std::int64_t seq) {
    Footprint f = program(seq, 500, 3, 40);
    f.host.add(64 * seq);
    f.host.add(1000);
    f.host.add(100 * seq);
    return f;
  };
  PeakFit fit;
  fit.add(at(10));
  fit.add(at(40));
  for (const std::int64_t seq : {11, 16, 17, 25, 39, 41, 1000, 65536}) {
    EXPECT_EQ(fit.predictHost(seq, true), static_cast<double>(at(seq).host.low)) << seq;
    EXPECT_EQ(fit.predictHost(seq, false), static_cast<double>(at(seq).host.high)) << seq;
  }
}

class PlanLongest : public ::testing::Test {
 protected:
  Result<Longest> find(const std::function<Result<Footprint>(std::int64_t)>& measure) {
    looked_.clear();
    return findLongest(request_, [&](std::int64_t seq) {
      EXPECT_TRUE(looked_.insert(seq).second) << seq << " was compiled twice";
      EXPECT_EQ(seq % request_.step, 0);
      return measure(seq);
    });
  }
  LongestRequest request_{.step = 8, .start = 4, .most = 1 << 20, .room = {1e6, 1.1e6}};
  std::set<std::int64_t> looked_;
};

TEST_F(PlanLongest, TheAnswerWasMeasuredAndTheNextStepDoesNotFit) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t weights = static_cast<std::int64_t>(random() % 900000), a = 1 + static_cast<std::int64_t>(random() % 50), b = 1 + static_cast<std::int64_t>(random() % 50);
    const auto found = find([&](std::int64_t seq) { return Result<Footprint>(program(seq, weights, a, b)); });
    ASSERT_TRUE(found);
    ASSERT_TRUE(found->fits);
    EXPECT_LE(static_cast<double>(found->fits->peak_high), request_.room.sure);
    EXPECT_GT(static_cast<double>(program(found->fits->seq + 8, weights, a, b).peak_high), request_.room.sure);
    EXPECT_NEAR(found->next_peak, static_cast<double>(program(found->fits->seq + 8, weights, a, b).peak_high), 1e-3);
    EXPECT_EQ(found->next_measured, looked_.contains(found->fits->seq + 8));
    EXPECT_GE(found->possible_seq, found->fits->seq);
    EXPECT_LE(static_cast<double>(program(found->possible_seq, weights, a, b).peak_high), request_.room.hopeful);
    EXPECT_LE(looked_.size(), 4U) << "two for the lines, one for the answer, another one where the first two are close to it";
  }
}

TEST_F(PlanLongest, StaircasesAndJumpsEndInTheRightPlaceToo) {
  std::mt19937 random(11);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t stair = 8 + static_cast<std::int64_t>(random() % 500), rise = 1 + static_cast<std::int64_t>(random() % 3000), jump = static_cast<std::int64_t>(random() % 20000);
    const auto peak = [&](std::int64_t seq) { return 100000 + seq / stair * rise + (seq > jump ? 300000 : 0) + seq; };
    const auto found = find([&](std::int64_t seq) {
      Footprint f = program(seq, 0, 0, 0);
      f.live = std::vector<std::int64_t>(static_cast<std::size_t>(1 + seq / stair % 5), peak(seq));
      f.peak_low = f.peak_high = peak(seq);
      return Result<Footprint>(f);
    });
    ASSERT_TRUE(found && found->fits);
    EXPECT_LE(peak(found->fits->seq), 1000000);
    EXPECT_GT(peak(found->fits->seq + 8), 1000000);
    EXPECT_LE(looked_.size(), 60U);
  }
}

TEST_F(PlanLongest, PerhapsIsAtTheGoodEndOfWhatIsModelled) {
  const auto found = find([&](std::int64_t seq) {
    Footprint f = program(seq, 100000, 100, 0);
    f.peak_low -= 50000 + 10 * seq;
    f.peak_high += 20000;
    return Result<Footprint>(f);
  });
  ASSERT_TRUE(found && found->fits);
  EXPECT_EQ(found->fits->seq, (1000000 - 121000) / 100 / 8 * 8);
  EXPECT_EQ(found->possible_seq, (1100000 - 51000) / 90 / 8 * 8) << "from there on it surely does not fit";
}

TEST_F(PlanLongest, AHostThatTakesPowersOfTwoEndsWhereItDoes) {
  request_.room = {1e12, 1e12, 8 << 20, 8 << 20};
  const auto found = find([&](std::int64_t seq) {
    Footprint f = program(seq, 1000, 3, 40);
    for (int layer = 0; layer < 4; ++layer) f.host.add(32 * seq);  // 2 MiB each at 65536
    return Result<Footprint>(f);
  });
  ASSERT_TRUE(found && found->fits);
  EXPECT_EQ(found->fits->seq, 65536);
  EXPECT_TRUE(found->host_ends);
  EXPECT_LE(looked_.size(), 5U);
}

TEST_F(PlanLongest, MoreRoomIsNeverShorter) {
  std::int64_t last = 0;
  for (const double room : {2e5, 4e5, 1e6, 3e6}) {
    request_.room = {room, room};
    const auto found = find([&](std::int64_t seq) { return Result<Footprint>(program(seq, 100000, 7, 11)); });
    ASSERT_TRUE(found && found->fits);
    EXPECT_GT(found->fits->seq, last);
    EXPECT_EQ(found->possible_seq, found->fits->seq) << "no interval, no perhaps";
    last = found->fits->seq;
  }
}

TEST_F(PlanLongest, AnAllocatorsAccidentsDoNotMakeALongerOneFitWhereAShorterOneDoesNot) {
  std::mt19937 random(5);
  request_.room = {1e11, 1.1e11};
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t seed = random();
    // Up to a tenth more than what is asked for, by accident of the length.
    const auto measure = [&](std::int64_t seq) {
      Footprint f = program(seq, 10000000000, 700000, 1100000);
      f.peak_high += f.peak_high / 1000 * static_cast<std::int64_t>((seed ^ static_cast<std::uint32_t>(seq) * 2654435761U) % 100);
      return Result<Footprint>(std::move(f));
    };
    const auto found = find(measure);
    ASSERT_TRUE(found && found->fits);
    EXPECT_LE(static_cast<double>(found->fits->peak_high), request_.room.sure);
    EXPECT_GT(found->next_peak, request_.room.sure);
    for (const std::int64_t seq : looked_) {
      const Footprint f = *measure(seq);
      EXPECT_EQ(found->fit.highEnd(f) <= static_cast<std::int64_t>(request_.room.sure), seq <= found->fits->seq) << seq;
      EXPECT_GE(found->fit.highEnd(f), f.peak_high);
    }
    EXPECT_LE(looked_.size(), 12U);
  }
}

TEST_F(PlanLongest, NothingFitsAndEverythingFits) {
  const auto none = find([&](std::int64_t seq) { return Result<Footprint>(program(seq, 5000000, 1, 1)); });
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->fits);
  EXPECT_EQ(none->possible_seq, 0);
  EXPECT_TRUE(none->next_measured);
  EXPECT_EQ(none->next_peak, static_cast<double>(program(8, 5000000, 1, 1).peak_high)) << "not even one step";
  const auto hopeless = find([&](std::int64_t seq) {
    Footprint f = program(seq, 5000000, 1, 1);
    f.floor = 5000000;
    return Result<Footprint>(f);
  });
  ASSERT_TRUE(hopeless && hopeless->first);
  EXPECT_FALSE(hopeless->fits);
  EXPECT_EQ(looked_.size(), 1U) << "what every length needs is too much: no second one is looked at";
  request_.most = 100;
  const auto all = find([&](std::int64_t seq) { return Result<Footprint>(program(seq, 10, 1, 1)); });
  ASSERT_TRUE(all && all->fits);
  EXPECT_EQ(all->fits->seq, 800);
  EXPECT_EQ(all->next_peak, 0);
  EXPECT_FALSE(all->limit) << "nobody asked for more";
}

TEST_F(PlanLongest, AModelThatEndsIsTheLimitNotAnError) {
  const auto measure = [&](std::int64_t seq) -> Result<Footprint> {
    if (seq > 4000) return makeError("seq-literal", "the position table has 4000 entries");
    return program(seq, 10, 1, 1);
  };
  const auto found = find(measure);
  ASSERT_TRUE(found && found->fits);
  EXPECT_EQ(found->fits->seq, 4000);
  ASSERT_TRUE(found->limit);
  EXPECT_EQ(found->limit->code, "seq-literal");
  EXPECT_EQ(found->possible_seq, 4000);
  const auto stopped = find([](std::int64_t) -> Result<Footprint> { return makeError("cancelled", "cancelled on request", Outcome::kNo); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, "cancelled");
}

}  // namespace
}  // namespace spscope::session
