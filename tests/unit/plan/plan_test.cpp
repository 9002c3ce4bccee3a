// SPDX-License-Identifier: Apache-2.0
// The planner against the pipeline: its bytes are those of a compile, its answers fit and the next step does not.
#include "core/session/plan/peak_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/support/made_up_device.h"

namespace spscope::session {
namespace {

std::string sample() { return std::string(SPSCOPE_SOURCE_DIR) + "/resources/samples/llama_gqa.pt2"; }
std::string zoo(const std::string& name) { return std::string(SPSCOPE_SOURCE_DIR) + "/tests/data/zoo/" + name + ".pt2"; }

class PlanTest : public ::testing::Test {
 protected:
  PlanRequest ask(const std::string& path, double capacity, int gpus) {
    PlanRequest what;
    what.open.path = path;
    what.profile = madeUpDevice(capacity);
    what.space.gpus = gpus;
    what.settings.threads = 1;
    what.settings.device = "cpu";
    what.headroom = 0;
    return what;
  }
  PlanOutcome planned(const PlanRequest& what) {
    Result<PlanOutcome> out = plan(what, request());
    EXPECT_TRUE(out) << out.error().format();
    return out ? std::move(*out) : PlanOutcome{};
  }
  Request request() {
    Request r;
    r.diagnostics = &diagnostics_;
    return r;
  }
  /// What `spscope compile` says of a configuration: all checks on, nothing shared.
  std::int64_t compiledPeak(const PlanRequest& what, const Configuration& c, std::int64_t seq, passes::ClassBytes* classes = nullptr) {
    OpenRequest open_what = what.open;
    open_what.seq = seq;
    open_what.batch = c.batch;
    const auto model = open(open_what, request());
    EXPECT_TRUE(model) << model.error().format();
    if (!model) return -1;
    CompileRequest compile_what;
    compile_what.settings = settingsOf(c, what.settings, seq);
    const auto outcome = compile(**model, compile_what, request());
    EXPECT_TRUE(outcome) << outcome.error().format();
    if (!outcome) return -1;
    if (classes != nullptr) *classes = outcome->figures.memory.at_peak;
    return outcome->figures.memory.peak;
  }
  DiagnosticSink diagnostics_;
};

TEST_F(PlanTest, BytesAreThoseOfACompileAtThatLength) {
  // Twenty configurations drawn from models, meshes, policies, batches and lengths.
  std::mt19937 random(20261130);
  const std::vector<std::string> models{sample(), zoo("gpt2_dyn_pos"), zoo("llama_gqa_dyn_pos"), zoo("qwen2_pos"), zoo("gemma_pos")};
  const std::vector<std::string> saves{"all", "sac", "min-cut", "layer-inputs", "budget=0.5"};
  const auto pick = [&](auto n) { return static_cast<std::size_t>(random() % static_cast<unsigned>(n)); };
  int checked = 0;
  for (int i = 0; i < 20; ++i) {
    PlanRequest what = ask(models[pick(models.size())], 1e12, 4);
    what.want = PlanWant::kTable;
    what.open.seq = 16 * (2 + static_cast<std::int64_t>(pick(3)));
    const std::vector<std::pair<int, int>> meshes{{1, 1}, {2, 1}, {4, 1}, {2, 2}, {1, 2}};
    const auto [sp, dp] = meshes[pick(meshes.size())];
    what.space.sp = {sp};
    what.space.dp = {dp};
    what.space.zero = {0, 1};
    what.space.save = {saves[pick(saves.size())], "sac"};
    what.space.tile_loss = {pick(2) == 1};
    what.space.batch = {dp * (1 + static_cast<std::int64_t>(pick(2)))};
    const auto outcome = plan(what, request());
    if (!outcome) {
      EXPECT_EQ(outcome.error().code, "plan-empty") << outcome.error().format();
      continue;
    }
    const PlanRow& row = outcome->rows[pick(outcome->rows.size())];
    if (row.illegal) continue;
    passes::ClassBytes classes{};
    EXPECT_EQ(row.footprint.compiled_peak, compiledPeak(what, row.configuration, what.open.seq, &classes)) << what.open.path << " " << row.configuration.text();
    EXPECT_EQ(row.footprint.classes, classes);
    EXPECT_EQ(row.footprint.peak_high, row.footprint.compiled_peak);
    ++checked;
  }
  EXPECT_GE(checked, 15) << "too many of the configurations were not legal";
}

TEST_F(PlanTest, TheLongestFitsToTheByteAndTheNextStepDoesNot) {
  const double capacity = 60e6;
  PlanRequest what = ask(sample(), capacity, 2);
  what.space.save = {"all", "sac"};
  what.space.dp = {1};
  const PlanOutcome outcome = planned(what);
  ASSERT_EQ(outcome.rows.size(), 16U) << "2 meshes x 2 losses x 2 policies x 2";
  int found = 0;
  for (const PlanRow& row : outcome.rows) {
    if (row.configuration.ranks() == 1 && row.configuration.zero == 1) {
      EXPECT_EQ(row.illegal->code, "plan-illegal");
      continue;
    }
    ASSERT_FALSE(row.illegal) << row.configuration.text() << ": " << row.illegal->message;
    if (row.max_seq == 0) continue;
    ++found;
    EXPECT_EQ(row.verdict, Verdict::kFits);
    EXPECT_EQ(row.footprint.seq, row.max_seq);
    EXPECT_EQ(row.max_seq % row.configuration.sp, 0);
    EXPECT_EQ(row.footprint.compiled_peak, compiledPeak(what, row.configuration, row.max_seq)) << row.configuration.text();
    EXPECT_LE(static_cast<double>(row.footprint.peak_high), capacity);
    EXPECT_GT(static_cast<double>(row.next_peak), capacity) << row.configuration.text();
    // Compiled or foretold: it is what a compile there gives.
    EXPECT_NEAR(static_cast<double>(row.next_peak), static_cast<double>(compiledPeak(what, row.configuration, row.max_seq + (outcome.file_seq >= 1024 ? 1024 : 16))), 16) << row.configuration.text();
    EXPECT_EQ(row.possible_seq, row.max_seq) << "no interval in this profile";
  }
  EXPECT_EQ(found, 12);
  // The best first, and the set of those that nothing beats.
  for (std::size_t i = 1; i < 12; ++i) EXPECT_GE(outcome.rows[i - 1].max_seq, outcome.rows[i].max_seq);
  ASSERT_FALSE(outcome.pareto.empty());
  for (const std::size_t i : outcome.pareto)
    for (const PlanRow& row : outcome.rows) EXPECT_FALSE(!row.illegal && row.max_seq > outcome.rows[i].max_seq && row.work_per_token <= outcome.rows[i].work_per_token);
}

TEST_F(PlanTest, OnAGpuWhatTheAllocatorReservesIsTheBadEnd) {
  PlanRequest what = ask(sample(), 400e6, 2);
  what.profile = madeUpDevice(400e6, "cuda");
  what.settings.device = "cuda";
  what.space.sp = {2};
  what.space.save = {"all", "sac"};
  const PlanOutcome outcome = planned(what);
  ASSERT_EQ(outcome.rows.size(), 8U);
  for (const PlanRow& row : outcome.rows) {
    ASSERT_FALSE(row.illegal) << row.illegal->message;
    const Footprint& f = row.footprint;
    ASSERT_TRUE(f.reserved);
    EXPECT_EQ(f.compiled_peak, compiledPeak(what, row.configuration, f.seq));
    EXPECT_EQ(f.peak_low, f.compiled_peak) << "an allocator that gave back all that it does not need";
    EXPECT_GE(f.peak_high, f.reserved->least);
    EXPECT_EQ(static_cast<double>(f.peak_high), std::ceil(row.fit.highEnd(static_cast<double>(f.compiled_peak)))) << "the worst of all lengths that were compiled";
    EXPECT_LE(f.reserved->least, f.reserved->reserved);
    EXPECT_EQ(f.reserved->requested, f.compiled_peak);
    EXPECT_GT(f.reserved->reserved, f.reserved->allocated);
    EXPECT_EQ(f.reserved->reserved % (2 << 20), 0) << "segments are multiples of 2 MiB";
    EXPECT_GE(f.reserved->least, f.compiled_peak);
    EXPECT_GT(row.max_seq, 0);
    EXPECT_LE(static_cast<double>(f.peak_high), 400e6);
    EXPECT_GT(static_cast<double>(row.next_peak), 400e6);
    EXPECT_GE(row.possible_seq, row.max_seq);
  }
}

TEST_F(PlanTest, OnAGpuTheScratchMemoryIsThatOfItsKernels) {
  PlanRequest what = ask(sample(), 1e12, 2);
  what.want = PlanWant::kTable;
  what.open.seq = 256;
  what.space.sp = {2};
  what.space.save = {"all"};
  what.space.zero = {0};
  what.space.tile_loss = {false};
  const auto workspace = [&](const std::string& kind) {
    what.profile = madeUpDevice(1e12, kind);
    what.settings.device = kind;
    const PlanOutcome outcome = planned(what);
    passes::ClassBytes classes{};
    EXPECT_EQ(outcome.rows.at(0).footprint.compiled_peak, compiledPeak(what, outcome.rows.at(0).configuration, 256, &classes)) << kind;
    EXPECT_EQ(outcome.rows.at(0).footprint.classes, classes) << "compile --device " << kind << " and plan agree";
    return classes;
  };
  const passes::ClassBytes cpu = workspace("cpu"), cuda = workspace("cuda");
  EXPECT_NE(cpu, cuda);
}

TEST_F(PlanTest, PagesThatExpandAreReplayedAsSuch) {
  PlanRequest what = ask(sample(), 400e6, 2);
  what.profile = madeUpDevice(400e6, "cuda");
  what.settings.device = "cuda";
  what.want = PlanWant::kTable;
  what.open.seq = 2048;
  what.space.sp = {2};
  what.space.save = {"sac"};
  what.space.zero = {1};
  what.space.tile_loss = {false};
  const Footprint segments = planned(what).rows.at(0).footprint;
  what.expandable_segments = true;
  const Footprint pages = planned(what).rows.at(0).footprint;
  EXPECT_EQ(pages.compiled_peak, segments.compiled_peak);
  EXPECT_EQ(pages.peak_low, segments.peak_low);
  EXPECT_EQ(pages.peak_high, pages.reserved->least);
  EXPECT_EQ(pages.reserved->segments, 2) << "one of small blocks and one of large ones";
  EXPECT_GT(segments.reserved->segments, 2);
}

TEST_F(PlanTest, PeaksRiseWithTheLengthAndLengthsWithTheCapacity) {
  PlanRequest what = ask(sample(), 1e12, 2);
  what.want = PlanWant::kTable;
  what.space.sp = {2};
  what.space.tile_loss = {false};
  std::map<std::string, std::int64_t> last;
  for (const std::int64_t seq : {512, 1024, 2048, 4096}) {
    what.open.seq = seq;
    for (const PlanRow& row : planned(what).rows) {
      EXPECT_GT(row.footprint.peak_high, last[row.configuration.text()]) << row.configuration.text() << " at " << seq;
      last[row.configuration.text()] = row.footprint.peak_high;
    }
  }
  what.want = PlanWant::kMaxSeq;
  what.open.seq = 1024;
  what.space.save = {"sac"};
  what.space.zero = {1};
  std::int64_t longest = 0;
  for (const double capacity : {40e6, 60e6, 120e6}) {
    what.profile = madeUpDevice(capacity);
    what.headroom = 0;
    const std::int64_t without = planned(what).rows[0].max_seq;
    EXPECT_GT(without, longest);
    longest = without;
    what.headroom = 0.2;
    EXPECT_LT(planned(what).rows[0].max_seq, without) << "headroom is room";
  }
}

TEST_F(PlanTest, MoreBudgetNeverTakesLessMemoryNorGoesFurther) {
  PlanRequest what = ask(sample(), 1e12, 2);
  what.open.seq = 1024;
  what.space.sp = {2};
  what.space.zero = {1};
  what.space.tile_loss = {false};
  const std::vector<std::string> rising{"budget=0", "budget=0.1", "budget=0.25", "budget=0.5", "budget=0.75", "budget=1"};
  what.space.save = rising;
  std::map<std::string, PlanRow> at_length, longest;
  what.want = PlanWant::kTable;
  for (const PlanRow& row : planned(what).rows) at_length.emplace(row.configuration.save, row);
  what.want = PlanWant::kMaxSeq;
  what.profile = madeUpDevice(60e6);
  for (const PlanRow& row : planned(what).rows) longest.emplace(row.configuration.save, row);
  ASSERT_EQ(at_length.size(), rising.size());
  ASSERT_EQ(longest.size(), rising.size());
  for (std::size_t i = 1; i < rising.size(); ++i) {
    const PlanRow &less = at_length.at(rising[i - 1]), &more = at_length.at(rising[i]);
    EXPECT_LE(less.footprint.peak_high, more.footprint.peak_high) << rising[i];
    EXPECT_GE(longest.at(rising[i - 1]).max_seq, longest.at(rising[i]).max_seq) << rising[i];
  }
  EXPECT_LT(at_length.at("budget=0").footprint.peak_high, at_length.at("budget=1").footprint.peak_high);
}

TEST_F(PlanTest, VerdictsFollowTheProfilesIntervals) {
  PlanRequest what = ask(sample(), 1e12, 2);
  what.want = PlanWant::kFits;
  what.open.seq = 1024;
  what.space.sp = {2};
  what.space.save = {"all"};
  what.space.zero = {0};
  what.space.tile_loss = {false};
  const double peak = static_cast<double>(planned(what).rows[0].footprint.peak_high);
  what.profile = madeUpDevice(peak + 100);
  const auto verdict = [&](double outside_low, double outside_high) {
    what.profile.outside = {outside_low, outside_high, "made up"};
    const PlanRow row = planned(what).rows[0];
    EXPECT_DOUBLE_EQ(row.need_low, peak + outside_low);
    EXPECT_DOUBLE_EQ(row.need_high, peak + outside_high);
    return row.verdict;
  };
  EXPECT_EQ(verdict(0, 100), Verdict::kFits);
  EXPECT_EQ(verdict(0, 101), Verdict::kUncertain);
  EXPECT_EQ(verdict(101, 200), Verdict::kDoesNotFit);
}

TEST_F(PlanTest, Zero2And3AreModelledFromTheProgramOfZero1) {
  PlanRequest what = ask(sample(), 1e12, 2);
  what.want = PlanWant::kTable;
  what.open.seq = 1024;
  what.space.sp = {2};
  what.space.save = {"sac"};
  what.space.tile_loss = {false};
  what.space.zero = {1, 2, 3};
  const PlanOutcome outcome = planned(what);
  ASSERT_EQ(outcome.rows.size(), 3U);
  EXPECT_EQ(outcome.compiles, 1) << "one program";
  const auto row = [&](int zero) { return *std::find_if(outcome.rows.begin(), outcome.rows.end(), [&](const PlanRow& r) { return r.configuration.zero == zero; }); };
  EXPECT_TRUE(row(1).footprint.modelled.empty());
  EXPECT_EQ(row(2).footprint.peak_high, row(1).footprint.peak_high);
  EXPECT_EQ(row(2).footprint.modelled.size(), 1U);
  // By hand: four layers, embedding and head; half of everything is kept, then one layer, or two and the rest, are gathered.
  OpenRequest open_what = what.open;
  const auto model = open(open_what, request());
  ASSERT_TRUE(model);
  std::int64_t all = 0, layer = 0, rest = 0;
  for (const ir::Input& input : (*model)->graph->inputs) {
    if (!input.trainable) continue;
    const std::int64_t bytes = (*model)->graph->value(input.value).localBytes();
    all += bytes;
    if (input.name.find("layers.0.") != std::string::npos) layer += bytes;
    else if (input.name.find("layers.") == std::string::npos) rest += bytes;
  }
  ASSERT_GT(layer, 0);
  EXPECT_EQ(row(3).footprint.peak_low, row(1).footprint.peak_low - all / 2 + layer);
  EXPECT_EQ(row(3).footprint.peak_high, row(1).footprint.peak_high - all / 2 + std::min(all, 2 * layer + rest) + all) << "all gradients are less than a bucket holds";
  EXPECT_EQ(row(3).footprint.compiled_peak, row(1).footprint.compiled_peak);
}

TEST_F(PlanTest, WhatThePipelineRefusesIsARowWithItsReason) {
  PlanRequest what = ask(zoo("llama_gqa_dyn_pos"), 1e12, 8);
  what.want = PlanWant::kTable;
  what.space.sp = {1, 2};
  what.space.dp = {1, 8};
  what.space.save = {"sac", "keep-it"};
  what.space.zero = {0};
  what.space.batch = {2};
  const PlanOutcome outcome = planned(what);
  std::map<std::string, int> codes;
  for (const PlanRow& row : outcome.rows)
    if (row.illegal) {
      ++codes[row.illegal->code];
      EXPECT_FALSE(row.illegal->legal.empty()) << row.illegal->message;
    }
  EXPECT_EQ(codes["setting-save"], 4) << "the policy, on the two meshes that are legal, with and without tiles";
  EXPECT_EQ(codes["plan-illegal"], 8) << "8 replicas do not divide 2 rows, and 16 ranks are too many";
  EXPECT_FALSE(outcome.rows.front().illegal);
  what.space.save = {"keep-it"};
  const auto none = plan(what, request());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, "plan-empty");
  EXPECT_EQ(none.error().notes.size(), 3U);
}

TEST_F(PlanTest, CurvesAreThoseOfTheRowsPoliciesAndMeetTheLineWhereTheyEnd) {
  PlanRequest what = ask(sample(), 60e6, 2);
  const PlanOutcome outcome = planned(what);
  const PlanRow& row = outcome.rows[0];
  const PeakCurves picture = peakCurves(outcome, 0);
  EXPECT_EQ(picture.room.sure, row.room.sure);
  ASSERT_EQ(picture.curves.size(), 4U) << "all, layer-inputs, min-cut, sac";
  EXPECT_EQ(picture.curves[0].row, 0U);
  EXPECT_EQ(picture.curves[0].name, row.configuration.save);
  for (const PeakCurve& curve : picture.curves) {
    const PlanRow& r = outcome.rows[curve.row];
    EXPECT_EQ(r.configuration.sp, row.configuration.sp);
    EXPECT_EQ(r.configuration.tile_loss, row.configuration.tile_loss);
    EXPECT_EQ(curve.longest, r.max_seq);
    ASSERT_GE(curve.points.size(), 2U);
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
      EXPECT_GT(curve.points[i].seq, curve.points[i - 1].seq);
      EXPECT_GE(curve.points[i].bytes, curve.points[i - 1].bytes);
    }
    EXPECT_LT(curve.points.front().bytes, picture.room.sure);
    EXPECT_GT(curve.points.back().bytes, picture.room.sure) << curve.name;
  }
  what.want = PlanWant::kTable;
  EXPECT_TRUE(peakCurves(planned(what), 0).curves.empty()) << "one length is no curve";
}

TEST_F(PlanTest, LeversChangeOneThingAndTheCheapestComesFirst) {
  PlanRequest what = ask(sample(), 60e6, 2);
  what.step = 16;
  what.space.sp = {2};
  const PlanOutcome outcome = planned(what);
  const auto plain = std::find_if(outcome.rows.begin(), outcome.rows.end(), [](const PlanRow& r) { return r.configuration == Configuration{.sp = 2, .dp = 1, .zero = 0, .save = "all", .tile_loss = false, .batch = r.configuration.batch}; });
  ASSERT_NE(plain, outcome.rows.end());
  const std::size_t from = static_cast<std::size_t>(plain - outcome.rows.begin());
  const auto levers = leversOf(outcome, from, PlanWant::kMaxSeq);
  ASSERT_GE(levers.size(), 2U);
  std::vector<std::string> changes;
  for (std::size_t i = 0; i < levers.size(); ++i) {
    changes.push_back(levers[i].change);
    EXPECT_GT(levers[i].more_tokens, 0);
    EXPECT_EQ(levers[i].more_tokens, outcome.rows[levers[i].row].max_seq - plain->max_seq);
    EXPECT_GE(levers[i].work_ratio, levers[i > 0 ? i - 1 : 0].work_ratio);
  }
  EXPECT_THAT(changes, ::testing::IsSupersetOf({"zero 0 -> zero 1", "save all -> sac"}));
  EXPECT_TRUE(leversOf(outcome, 0, PlanWant::kMaxSeq).empty()) << "nothing is longer than the longest";
}

TEST_F(PlanTest, RivalsAreCompiledOrModelledOnOneGraph) {
  PlanRequest what = ask(sample(), 1e12, 2);
  what.want = PlanWant::kTable;
  what.open.seq = 512;
  what.rivals = true;
  what.space.tile_loss = {false};
  what.profile.host_link = {1, 2, "made up"};
  const PlanOutcome outcome = planned(what);
  ASSERT_EQ(outcome.rows.size(), 10U) << "five ways, with and without offload";
  const auto row = [&](const std::string& way, bool offload) {
    return *std::find_if(outcome.rows.begin(), outcome.rows.end(), [&](const PlanRow& r) { return r.configuration.rival == way && r.configuration.offload.checkpoints == offload; });
  };
  for (const char* way : {"unsharded", "ulysses", "autosp"}) {
    const PlanRow r = row(way, false);
    ASSERT_FALSE(r.illegal) << way << ": " << r.illegal->message;
    EXPECT_TRUE(r.footprint.modelled.empty()) << way;
    EXPECT_EQ(r.footprint.peak_high, r.footprint.compiled_peak);
    EXPECT_EQ(r.footprint.compiled_peak, compiledPeak(what, r.configuration.compiledPart(), 512)) << way;
  }
  for (const char* way : {"zero-3", "ring"}) EXPECT_FALSE(row(way, false).footprint.modelled.empty()) << way;
  EXPECT_LT(row("zero-3", false).footprint.peak_low, row("unsharded", false).footprint.peak_high) << "optimizer and gradients in shares";
  const PlanRow ring = row("ring", false), exchanged = row("ulysses", false);
  EXPECT_EQ(ring.footprint.compiled_peak, exchanged.footprint.compiled_peak);
  EXPECT_LE(ring.footprint.peak_low, ring.footprint.peak_high);
  EXPECT_GE(ring.footprint.peak_high, exchanged.footprint.peak_high) << "with the buffers of both";
  for (const char* way : {"unsharded", "zero-3", "ulysses", "ring", "autosp"}) {
    const PlanRow without = row(way, false), with = row(way, true);
    ASSERT_FALSE(with.illegal) << with.illegal->message;
    EXPECT_LE(with.footprint.peak_high, without.footprint.peak_high) << way;
    EXPECT_GT(with.footprint.host.low, 0) << way;
    EXPECT_GE(with.footprint.time.middle, without.footprint.time.middle * 0.999) << way << ": copies are never for nothing";
  }
  what.profile.host_link = {};
  what.rivals = false;
  what.space.sp = {2};
  what.space.offload = {{.checkpoints = true}};
  const auto none = plan(what, request());
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().notes.front(), ::testing::HasSubstr("no link to a host"));
}

TEST_F(PlanTest, AGridEndsWhereNothingFits) {
  PlanRequest what = ask(sample(), 60e6, 2);
  what.want = PlanWant::kTable;
  what.open.seq = 256;
  what.space.sp = {2};
  what.space.save = {"sac"};
  what.space.zero = {1};
  what.grid = true;
  for (const PlanRow& row : planned(what).rows) {
    ASSERT_GE(row.grid.size(), 2U);
    for (std::size_t i = 0; i < row.grid.size(); ++i) {
      EXPECT_EQ(row.grid[i].seq, 256 << i);
      EXPECT_EQ(row.grid[i].verdict == Verdict::kDoesNotFit, i + 1 == row.grid.size()) << row.grid[i].seq;
      EXPECT_EQ(row.grid[i].peak_high, compiledPeak(what, row.configuration, row.grid[i].seq));
      EXPECT_GT(row.grid[i].time.middle, 0);
    }
  }
}

TEST_F(PlanTest, AModelWithoutASequenceIsPlannedAsItIs) {
  PlanRequest what = ask(zoo("vit"), 1e12, 2);
  what.space.save = {"all"};
  what.space.zero = {0};
  what.space.tile_loss = {false};
  const PlanOutcome outcome = planned(what);
  EXPECT_FALSE(outcome.has_sequence);
  ASSERT_FALSE(outcome.rows.empty());
  EXPECT_FALSE(outcome.rows.front().illegal);
  EXPECT_GT(outcome.rows.front().footprint.peak_high, 0);
  EXPECT_TRUE(std::any_of(diagnostics_.all().begin(), diagnostics_.all().end(), [](const Diagnostic& d) { return d.code == "plan-no-sequence"; }));
}

TEST_F(PlanTest, LengthsEndWithTheTableOfPositionsAndWithWhatIsAskedFor) {
  PlanRequest what = ask(zoo("gpt2_pos"), 1e12, 1);
  what.space.save = {"all"};
  what.space.tile_loss = {false};
  what.space.zero = {0};
  const PlanOutcome outcome = planned(what);
  ASSERT_FALSE(outcome.rows.front().illegal);
  ASSERT_TRUE(outcome.rows.front().limit) << "longest " << outcome.rows.front().max_seq;
  EXPECT_EQ(outcome.rows.front().possible_seq, outcome.rows.front().max_seq);
  what.open.path = zoo("gpt2_dyn_pos");  // any length can be bound here
  const PlanOutcome dynamic = planned(what);
  ASSERT_FALSE(dynamic.rows.front().illegal);
  EXPECT_EQ(dynamic.rows.front().max_seq, 128) << "the table's rows";
  ASSERT_TRUE(dynamic.rows.front().limit);
  EXPECT_EQ(dynamic.rows.front().limit->code, "position-table-short");
  what.open.seq = 0;
  what.step = 64;
  what.most = 63;
  const auto none = plan(what, request());
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().notes.front(), ::testing::HasSubstr("--longest 64 or more"));
}

TEST_F(PlanTest, CancellingEndsIt) {
  Request r = request();
  int steps = 0;
  r.progress = [&](const Progress& p) {
    if (p.what == "configurations" && ++steps == 2) r.cancel.cancel();
  };
  PlanRequest what = ask(sample(), 60e6, 4);
  what.threads = 1;
  const auto out = plan(what, r);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, "cancelled");
  EXPECT_EQ(steps, 2) << "and soon";
}

}  // namespace
}  // namespace spscope::session
