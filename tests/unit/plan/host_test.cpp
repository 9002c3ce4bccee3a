// SPDX-License-Identifier: Apache-2.0
// What lies on the host: how it is asked for, what leaves the device, and the host's own memory as a bound.
#include "core/session/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/made_up_device.h"

namespace spscope::session {
namespace {

class PlanHost : public ::testing::Test {
 protected:
  /// The sample on `gpus` devices of `capacity` bytes with a link to their host, one policy, whole loss.
  PlanRequest ask(double capacity, int gpus) {
    PlanRequest what;
    what.open.path = std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2";
    what.profile = madeUpDevice(capacity);
    what.profile.host_link = {1, 1, "made up"};
    what.space.gpus = gpus;
    what.space.sp = {gpus};
    what.space.zero = {gpus > 1 ? 1 : 0};
    what.space.save = {"sac"};
    what.space.tile_loss = {false};
    what.settings.threads = 1;
    what.settings.device = "cpu";
    what.headroom = 0;
    what.want = PlanWant::kTable;
    what.open.seq = 1024;
    return what;
  }
  PlanOutcome planned(const PlanRequest& what) {
    Request request;
    request.diagnostics = &diagnostics_;
    Result<PlanOutcome> out = plan(what, request);
    EXPECT_TRUE(out) << out.error().format();
    return out ? std::move(*out) : PlanOutcome{};
  }
  static const PlanRow& rowOf(const PlanOutcome& outcome, const Offload& offload) {
    return *std::find_if(outcome.rows.begin(), outcome.rows.end(), [&](const PlanRow& r) { return r.configuration.offload == offload; });
  }
  DiagnosticSink diagnostics_;
};

constexpr Offload kNone{}, kCheckpoints{.checkpoints = true}, kOptimizer{.optimizer = true}, kBoth{.checkpoints = true, .optimizer = true};

TEST(PlanOffload, AListOfSets) {
  const auto parsed = [](const std::string& list) {
    const auto out = parseOffloads(list);
    EXPECT_TRUE(out) << list;
    return out ? *out : std::vector<Offload>{};
  };
  EXPECT_EQ(parsed("none,checkpoints"), (std::vector<Offload>{kNone, kCheckpoints}));
  EXPECT_EQ(parsed("checkpoints,optimizer"), (std::vector<Offload>{kCheckpoints, kOptimizer})) << "as in every list: one or the other";
  EXPECT_EQ(parsed("all,optimizer+checkpoints"), std::vector<Offload>{kBoth}) << "the same, once";
  for (const char* bad : {"", "disk", "checkpoints,", "none+optimizer", "model.pt2"}) {
    const auto out = parseOffloads(bad);
    ASSERT_FALSE(out) << bad;
    EXPECT_EQ(out.error().code, "usage");
    EXPECT_THAT(out.error().legal, ::testing::HasSubstr("checkpoints+optimizer"));
  }
}

TEST(PlanOffload, PinnedBlocksArePowersOfTwo) {
  HostBytes host;
  host.add(4096);
  host.add(4097);
  host.add(0);
  EXPECT_EQ(host.low, 8193);
  EXPECT_EQ(host.high, 4096 + 8192);
}

TEST_F(PlanHost, AnOptimizerOnTheHostFreesItsStatesToTheByte) {
  for (const int gpus : {1, 2}) {
    PlanRequest what = ask(1e12, gpus);
    what.space.offload = {kNone, kOptimizer};
    const PlanOutcome outcome = planned(what);
    ASSERT_EQ(outcome.rows.size(), 2U);
    EXPECT_EQ(outcome.compiles, 1) << "one program";
    const Footprint &kept = rowOf(outcome, kNone).footprint, &moved = rowOf(outcome, kOptimizer).footprint;
    // By hand: two float32 moments of every parameter, a rank's block of them.
    std::int64_t states = 0, largest = 0;
    Request request;
    request.diagnostics = &diagnostics_;
    const auto model = open(what.open, request);
    ASSERT_TRUE(model);
    for (const ir::Input& input : (*model)->graph->inputs) {
      if (!input.trainable) continue;
      const std::int64_t one = (*model)->graph->value(input.value).localBytes() / gpus;
      states += 2 * one;
      largest = std::max(largest, one);
    }
    EXPECT_EQ(kept.classes[static_cast<std::size_t>(passes::MemoryClass::kOptimizer)], states);
    EXPECT_EQ(moved.peak_low, kept.peak_low - states);
    EXPECT_GE(moved.peak_high, moved.peak_low);
    EXPECT_LT(moved.peak_high, kept.peak_high) << "the peak is in the step, not in the update";
    EXPECT_EQ(moved.compiled_peak, kept.compiled_peak);
    EXPECT_EQ(moved.host.low, states);
    EXPECT_GE(moved.host.high, states);
    EXPECT_LE(moved.host.high, 2 * states);
    EXPECT_GT(moved.time.middle, kept.time.middle) << "a link of 1 byte a ns is slower than memory";
    ASSERT_EQ(moved.modelled.size(), 1U);
    EXPECT_THAT(moved.modelled[0], ::testing::HasSubstr("optimizer on the host"));
  }
}

TEST_F(PlanHost, WhatPassesDuringTheUpdateIsInTheBadEnd) {
  // At so short a length the update, with gradients and two blocks of states, may be the peak.
  PlanRequest what = ask(1e12, 1);
  what.open.seq = 16;
  what.space.offload = {kNone, kOptimizer};
  const PlanOutcome outcome = planned(what);
  const Footprint &kept = rowOf(outcome, kNone).footprint, &moved = rowOf(outcome, kOptimizer).footprint;
  EXPECT_EQ(kept.peak_low, kept.peak_high);
  EXPECT_EQ(moved.peak_low, kept.peak_low - moved.host.low);
  EXPECT_GT(moved.peak_high, moved.peak_low);
}

TEST_F(PlanHost, AnOptimizerWithoutStatesCannotMove) {
  PlanRequest what = ask(1e12, 2);
  what.settings.optimizer = "sgd";
  what.space.offload = {kNone, kOptimizer};
  const PlanOutcome outcome = planned(what);
  const PlanRow& row = rowOf(outcome, kOptimizer);
  ASSERT_TRUE(row.illegal);
  EXPECT_EQ(row.illegal->code, "plan-illegal");
  EXPECT_THAT(row.illegal->message, ::testing::HasSubstr("sgd keeps nothing"));
  EXPECT_FALSE(rowOf(outcome, kNone).illegal);
}

TEST_F(PlanHost, TheHostsMemoryIsABoundForAllRanksOfANode) {
  PlanRequest what = ask(1e12, 2);
  what.space.offload = {kBoth};
  const PlanRow free = planned(what).rows[0];
  EXPECT_EQ(free.room.host_sure, Room::kUnknown);
  EXPECT_EQ(free.verdict, Verdict::kFits) << "nobody knows what the host has: told, not bounded";
  const double low = 2.0 * static_cast<double>(free.footprint.host.low), high = 2.0 * static_cast<double>(free.footprint.host.high);
  ASSERT_GT(low, 0);
  const auto told = [&](double from, double to) {
    what.profile.host = {from, to, "made up"};
    const PlanRow row = planned(what).rows[0];
    EXPECT_EQ(deviceVerdict(row.footprint, row.room), Verdict::kFits);
    return verdictText(row);
  };
  EXPECT_EQ(told(high, high), "fits");
  EXPECT_EQ(told(high - 2, high), "uncertain: the host");
  EXPECT_EQ(told(0, low), "uncertain: the host");
  EXPECT_EQ(told(0, low - 2), "does not fit: the host");
  what.profile.capacity = {1000, 1000, "made up"};
  what.profile.host = {0, 0, "made up"};
  EXPECT_EQ(verdictText(planned(what).rows[0]), "does not fit: device and host");
}

TEST_F(PlanHost, TheLongestEndsWhereTheHostIsFull) {
  PlanRequest what = ask(1e12, 2);
  what.want = PlanWant::kMaxSeq;
  what.step = 64;
  what.most = 1 << 14;
  what.space.offload = {kNone, kCheckpoints};
  what.profile.host = {3e6, 3e6, "made up"};
  const PlanOutcome outcome = planned(what);
  const PlanRow &moved = rowOf(outcome, kCheckpoints), &kept = rowOf(outcome, kNone);
  EXPECT_EQ(kept.max_seq, 1 << 14);
  EXPECT_FALSE(kept.host_ends);
  ASSERT_GT(moved.max_seq, 0);
  EXPECT_LT(moved.max_seq, kept.max_seq);
  EXPECT_TRUE(moved.host_ends);
  EXPECT_LE(2.0 * static_cast<double>(moved.footprint.host.high), 3e6);
  EXPECT_LE(moved.max_seq, moved.possible_seq);
  // A step further, as a table of that one length says it.
  what.want = PlanWant::kTable;
  what.open.seq = moved.max_seq + 64;
  EXPECT_THAT(verdictText(rowOf(planned(what), kCheckpoints)), ::testing::EndsWith(": the host"));
}

/// Overlapping may take what memory there is below the peak. Where a model lowers that, there is none to be taken.
TEST_F(PlanHost, ALoweredPeakHasNoRoomThatOverlappingTook) {
  for (const bool tiled : {false, true}) {
    PlanRequest what = ask(1e12, 2);
    what.open.seq = 4096;
    what.space.tile_mlp = {tiled};
    what.space.offload = {kCheckpoints};
    const PlanRow moved = planned(what).rows[0];
    what.settings.communication = "fused";
    const PlanRow fused = planned(what).rows[0];
    EXPECT_EQ(moved.footprint.peak_high, fused.footprint.peak_high);
    EXPECT_EQ(moved.footprint.host.low, fused.footprint.host.low);
    EXPECT_LT(moved.footprint.time.middle, fused.footprint.time.middle) << "its time is that of the program with overlap";
  }
}

TEST_F(PlanHost, FromARowThatTheHostDoesNotHoldTheLeverIsToUseLessOfIt) {
  PlanRequest what = ask(1e12, 2);
  what.space.offload = {kNone, kOptimizer, kBoth};
  what.profile.host = {0, 1, "made up"};
  const PlanOutcome outcome = planned(what);
  const auto at = [&](const Offload& offload) { return static_cast<std::size_t>(&rowOf(outcome, offload) - outcome.rows.data()); };
  const auto levers = leversOf(outcome, at(kBoth), PlanWant::kTable);
  ASSERT_EQ(levers.size(), 1U);
  EXPECT_EQ(levers[0].row, at(kOptimizer));
  EXPECT_EQ(levers[0].change, "checkpoints on the device");
  EXPECT_EQ(levers[0].host_bytes_more, outcome.rows[at(kOptimizer)].footprint.host.low - outcome.rows[at(kBoth)].footprint.host.low);
  EXPECT_LT(levers[0].host_bytes_more, 0);
}

}  // namespace
}  // namespace spscope::session
