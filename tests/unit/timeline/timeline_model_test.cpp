// SPDX-License-Identifier: Apache-2.0
// The timeline without a window: tracks, what is drawn, pointer and keys, selection, search, spans, statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "profiler/analyze/work.h"
#include "tests/support/random_trace.h"
#include "tests/support/trace_builder.h"
#include "ui/model/timeline/timeline_model.h"

namespace spscope::ui {
namespace {

using namespace trace;
using testing::Contains;
using testing::HasSubstr;
using trace::test::TraceBuilder;

struct Opened {
  Trace trace;
  std::vector<Breakdown> breakdown;
  std::vector<MemoryUse> memory;
  std::shared_ptr<const TimelineIndex> index;
  explicit Opened(Trace&& t) : trace(std::move(t)) {
    breakdown = trace::breakdown(trace, classifyWork(trace));
    memory = memoryUse(trace);
    index = *TimelineIndex::build(trace, breakdown, memory, true);
  }
  Opened(const Opened&) = delete;
};

/// Two ranks; rank 1 comes late to the exchange. Times in us.
Trace twoRanks() {
  TraceBuilder b;
  const NodeIndex mm = b.node("%mm_1", "aten.mm.default", "layers.0.mlp"), sdpa = b.node("%sdpa_2", "aten._scaled_dot_product_flash_attention.default", "layers.0.attn");
  for (int r = 0; r < 2; ++r) {
    b.rank(r);
    b.op(r, "aten.mm.default", 0, 10, 1, mm);
    b.exchange(r, 0, r == 0 ? 10 : 30, r == 0 ? 12 : 31, 40, 1 << 20, 2);
    b.op(r, "aten.sdpa", 40, 60, 1, sdpa);
    b.op(r, "aten.mm.default", 60, 62, 1, mm);
    b.memory(r, 1, 4096), b.memory(r, 45, 8192), b.memory(r, 61, -8192);
  }
  return std::move(b.trace);
}

TimelineModel modelOf(const Opened& opened, int width = 1168, int height = 600) {
  TimelineModel model;
  model.show({{opened.index, "A"}});
  model.resize(width, height, 1);
  return model;
}

std::size_t count(const Scene& scene, Paint paint) {
  return static_cast<std::size_t>(std::count_if(scene.quads.begin(), scene.quads.end(), [&](const Quad& q) { return q.paint == paint; }));
}

TEST(Timeline, HasTracksOfEachRankWithOverlapAndMemory) {
  const Opened opened(twoRanks());
  std::vector<std::pair<int, TrackShows>> got;
  for (const TimelineTrack& t : opened.index->tracks()) got.push_back({t.rank, t.shows});
  EXPECT_THAT(got, testing::ElementsAre(std::pair(0, TrackShows::kOverlap), std::pair(0, TrackShows::kEvents), std::pair(0, TrackShows::kMemory),
                                        std::pair(1, TrackShows::kOverlap), std::pair(1, TrackShows::kEvents), std::pair(1, TrackShows::kMemory)));
  EXPECT_EQ(opened.index->waitingNs(), 20'000);
  EXPECT_THAT(opened.index->summary(), HasSubstr("waiting 20.0 us"));
}

TEST(Timeline, EveryEventOfARandomTraceIsRepresentedOnce) {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    const Opened opened(RandomTrace(seed).make(800, seed % 2 == 0));
    const TimelineIndex& index = *opened.index;
    std::vector<bool> seen(opened.trace.events.size());
    for (const TimelineTrack& track : index.tracks()) {
      for (const EventRow& row : track.rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
          if (i > 0) {
            ASSERT_GE(row.start(i), row.end(i - 1)) << "two of one row overlap";
          }
          if (track.shows != TrackShows::kEvents) continue;
          const auto e = static_cast<std::size_t>(row.id(i));
          ASSERT_FALSE(seen[e]);
          seen[e] = true;
          EXPECT_EQ(row.start(i) + index.firstNs(), opened.trace.events.start[e]);
          EXPECT_EQ(row.end(i) + index.firstNs(), opened.trace.events.end[e]);
          EXPECT_EQ(opened.trace.tracks[static_cast<std::size_t>(opened.trace.events.track[e])].rank, track.rank);
        }
      }
    }
    EXPECT_THAT(seen, testing::Not(Contains(false)));
    TimelineModel model = modelOf(opened, 900, 100'000);
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(index.tracks().size()); ++t)
      if (index.tracks()[static_cast<std::size_t>(t)].rows.size() > 4) model.toggle(0, t);
    Scene scene;
    model.scene(scene);
    EXPECT_EQ(scene.events, static_cast<std::int64_t>(opened.trace.events.size())) << seed;
    // Whatever is drawn is found where it is drawn.
    for (EventIndex e = 0; e < static_cast<EventIndex>(opened.trace.events.size()); e += 7) {
      const auto box = model.boxOf(0, e);
      ASSERT_TRUE(box) << e;
      const TimelineHit hit = model.hit((box->x0 + box->x1) / 2, (box->y0 + box->y1) / 2);
      ASSERT_NE(hit.event, kNoIndex);
      const auto length = [&](EventIndex i) { return opened.trace.events.end[static_cast<std::size_t>(i)] - opened.trace.events.start[static_cast<std::size_t>(i)]; };
      EXPECT_GE(length(hit.event), length(e));
    }
  }
}

TEST(Timeline, WaitingAndExposedCommunicationAreShaded) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  Scene scene;
  model.scene(scene);
  EXPECT_EQ(count(scene, Paint::kExposed), 2u);  // one exchange on each rank, nothing under it
  // Rank 0: its wait event, and the part of the exchange that waits for rank 1 (20 of 30 us). Rank 1: its wait event only.
  EXPECT_EQ(count(scene, Paint::kWaiting), 3u);
  EXPECT_TRUE(isHatched(Paint::kWaiting) && isHatched(Paint::kExposed));
  EXPECT_TRUE(scene.paints[static_cast<std::size_t>(Paint::kExposed)]);
  EXPECT_FALSE(scene.paints[static_cast<std::size_t>(Paint::kOverlapped)]);
  EXPECT_TRUE(scene.paints[static_cast<std::size_t>(Paint::kMatmul)] && scene.paints[static_cast<std::size_t>(Paint::kAttention)]);
}

TEST(Timeline, AClickChoosesAndADragMoves) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  const EventIndex sdpa = 3;
  ASSERT_EQ(opened.trace.strings.text(opened.trace.events.name[sdpa]), "aten.sdpa");
  const Box box = *model.boxOf(0, sdpa);
  model.press(box.x0 + 5, box.y0 + 5, false, false);
  model.move(box.x0 + 6, box.y0 + 5);
  const auto hit = model.release(box.x0 + 6, box.y0 + 5);
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->event, sdpa);
  EXPECT_THAT(model.describe(*hit), Contains(HasSubstr("20.0 us at 40.0 us")));
  EXPECT_THAT(model.describe(*hit), Contains("layers.0.attn"));
  model.zoomAt(box.x0, 2);
  const auto before = model.boxOf(0, sdpa);
  ASSERT_TRUE(before);
  const Box closer = *before;
  model.press(300, 100, false, false);
  model.move(350, 100);
  EXPECT_FALSE(model.release(350, 100));
  const auto after = model.boxOf(0, sdpa);
  ASSERT_TRUE(after);
  EXPECT_NEAR(after->x0, closer.x0 + 50, 1.01);
}

TEST(Timeline, WhatMovedLooksLikeWhatIsDrawnFromNothing) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  model.wheel(600, 300, 3, false);
  const TimelineModel zoomed = model;
  double moved = 0;
  Scene seen, fresh;
  for (const double dx : {7.0, -5.0, 0.4, 0.4, 0.4, -33.3, 250.0, -90.25, 3.0}) {
    model.pan(dx, 0);
    model.scene(seen);
    moved += dx;
    TimelineModel other = zoomed;  // has drawn nothing yet
    other.pan(moved, 0);
    other.scene(fresh);
    EXPECT_EQ(model.view().start_ns, other.view().start_ns);
    EXPECT_EQ(seen.events, fresh.events);
    ASSERT_EQ(seen.quads.size(), fresh.quads.size());
    for (std::size_t i = 0; i < seen.quads.size(); ++i) {
      const Quad &a = seen.quads[i], &b = fresh.quads[i];
      ASSERT_TRUE(a.box.x0 == b.box.x0 && a.box.y0 == b.box.y0 && a.box.x1 == b.box.x1 && a.box.y1 == b.box.y1 && a.paint == b.paint && a.density == b.density) << i << " after " << dx;
    }
  }
  EXPECT_NEAR(zoomed.view().start_ns - moved * zoomed.view().ns_per_px, model.view().start_ns, 0.5 * zoomed.view().ns_per_px) << "parts of pixels add up";
}

TEST(Timeline, ZoomKeepsTheInstantUnderTheCursorDownToNanoseconds) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  const double x = 500, at = model.view().timeOf(x - model.gutterWidth());
  for (int i = 0; i < 200; ++i) {
    model.wheel(x, 300, 1, false);
    EXPECT_NEAR(model.view().timeOf(x - model.gutterWidth()), at, 1e-6 * at);
  }
  EXPECT_DOUBLE_EQ(model.view().ns_per_px, 0.01);
  for (int i = 0; i < 200; ++i) model.wheel(x, 300, -1, false);
  EXPECT_LE(model.view().ns_per_px * 1000, 62'000 * 1.5 + 1);
  model.key(TimelineKey::kFit);
  EXPECT_LE(model.view().start_ns, 0);
  EXPECT_GE(model.view().end_ns(), 62'000);
}

TEST(Timeline, ShiftDragMeasuresAndSumsTheSpan) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  const auto xOf = [&](double ns) { return model.view().xOf(ns) + model.gutterWidth(); };
  const double from = xOf(5'000), to = xOf(50'000);
  model.press(to, 300, true, false);  // backwards is as good
  model.move(from, 300);
  EXPECT_FALSE(model.release(from, 300));
  ASSERT_TRUE(model.measured());
  EXPECT_NEAR(model.measured()->begin_ns, 5'000, 1);
  EXPECT_NEAR(model.measured()->end_ns, 50'000, 1);
  std::vector<std::string> said;
  for (const PanelRow& row : model.panel().rows) said.push_back(row.left + "=" + row.right);
  EXPECT_THAT(said, Contains("aten.mm.default ×2=10.0 us"));   // 5 us of each of two
  EXPECT_THAT(said, Contains("aten.sdpa ×2=20.0 us"));
  EXPECT_THAT(said, Contains("span of 45.0 us=8 events"));
  model.key(TimelineKey::kEscape);
  EXPECT_FALSE(model.measured());
  EXPECT_TRUE(model.panel().empty());
}

TEST(Timeline, SumsOfASpanAreThoseOfBruteForce) {
  for (std::uint64_t seed = 1; seed < 12; ++seed) {
    const Opened opened(RandomTrace(seed).make(600));
    const std::int64_t base = opened.index->firstNs(), begin = 100'000, end = 450'000;
    std::map<std::pair<Category, std::string>, std::pair<std::int64_t, std::int64_t>> names;
    std::int64_t events = 0;
    for (std::size_t e = 0; e < opened.trace.events.size(); ++e) {
      const std::int64_t s = opened.trace.events.start[e] - base, f = opened.trace.events.end[e] - base;
      if (s >= end || (f <= begin && !(s == f && s >= begin))) continue;
      auto& sum = names[{opened.trace.events.category[e], std::string(opened.trace.strings.text(opened.trace.events.name[e]))}];
      sum.first += std::min(f, end) - std::max(s, begin), ++sum.second, ++events;
    }
    const SpanSums sums = sumsOf(*opened.index, begin, end);
    EXPECT_EQ(sums.events, events);
    std::map<std::pair<Category, std::string>, std::pair<std::int64_t, std::int64_t>> got;
    for (const SumRow& row : sums.by_name) got[{row.category, row.name}] = {row.total_ns, row.count};
    EXPECT_EQ(got, names);
    std::int64_t by_category = 0, by_name = 0;
    for (const SumRow& row : sums.by_category) by_category += row.total_ns;
    for (const SumRow& row : sums.by_name) by_name += row.total_ns;
    EXPECT_EQ(by_category, by_name);
  }
}

TEST(Timeline, CtrlDragZoomsIntoTheBox) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  const double a = model.view().timeOf(200), b = model.view().timeOf(400);
  model.press(200 + model.gutterWidth(), 100, false, true);
  model.move(400 + model.gutterWidth(), 160);
  Scene scene;
  model.scene(scene);
  EXPECT_TRUE(std::any_of(scene.above.begin(), scene.above.end(), [](const Mark& m) { return m.kind == Mark::kTint; }));
  model.release(400 + model.gutterWidth(), 160);
  EXPECT_NEAR(model.view().start_ns, a, 1e-3);
  EXPECT_NEAR(model.view().end_ns(), b, 1e-3);
}

TEST(Timeline, ACollectiveIsFollowedAcrossRanks) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  model.choose({0, 1});
  ASSERT_EQ(opened.trace.events.category[1], Category::kCollective);
  Scene scene;
  model.scene(scene);
  const auto marks = [&](Mark::Kind kind) { return std::count_if(scene.above.begin(), scene.above.end(), [&](const Mark& m) { return m.ink == Ink::kFollowed && m.kind == kind; }); };
  EXPECT_EQ(marks(Mark::kLine), 2);        // from starts to starts, from ends to ends
  EXPECT_EQ(marks(Mark::kOutline), 3);     // both parts, and the chosen one's own border
  std::vector<std::string> said;
  for (const PanelRow& row : model.panel().rows) said.push_back(row.left + "=" + row.right);
  EXPECT_THAT(said, Contains("rank 0 waits=20.0 us"));
  EXPECT_THAT(said, Contains("rank 1 waits=0 ns"));
  EXPECT_THAT(said, Contains("all_to_all on all ranks=1.00 MiB"));
}

TEST(Timeline, ANodeHasABorderOnAllItsEvents) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  model.choose({.source = 0, .event = kNoIndex, .node = 0});
  Scene scene;
  model.scene(scene);
  EXPECT_EQ(std::count_if(scene.above.begin(), scene.above.end(), [](const Mark& m) { return m.ink == Ink::kSelected; }), 4);
  model.choose({.source = 0, .event = 0});
  EXPECT_EQ(model.chosen().node, 0);  // the event brings its node along
  std::vector<std::string> said;
  for (const PanelRow& row : model.panel().rows) said.push_back(row.left + "=" + row.right);
  EXPECT_THAT(said, Contains("of this name=4"));
  EXPECT_THAT(said, Contains("together=24.0 us"));
  EXPECT_THAT(said, Contains("least / most=2.0 us / 10.0 us"));
}

TEST(Timeline, SearchGoesRoundInTheOrderOfTime) {
  const Opened opened(twoRanks());
  TimelineModel model = modelOf(opened);
  model.search("LAYERS.0.mlp");  // a module, in any case
  EXPECT_EQ(model.matchText(), "4 matches");
  std::vector<EventIndex> found;
  for (int i = 0; i < 5; ++i) found.push_back(model.step(1)->event);
  EXPECT_EQ(found[4], found[0]);
  EXPECT_EQ(model.matchText(), "1 of 4");
  const Events& e = opened.trace.events;
  for (int i = 0; i < 3; ++i) EXPECT_LE(e.start[static_cast<std::size_t>(found[static_cast<std::size_t>(i)])], e.start[static_cast<std::size_t>(found[static_cast<std::size_t>(i) + 1])]);
  EXPECT_EQ(model.step(-1)->event, found[3]);
  EXPECT_TRUE(model.boxOf(0, found[3])) << "what was found is in sight";
  model.search("no such thing");
  EXPECT_EQ(model.matchText(), "no match");
  EXPECT_FALSE(model.step(1));
  model.search("");
  EXPECT_EQ(model.matchText(), "");
}

TEST(Timeline, TwoTracesStandOneAboveTheOther) {
  const Opened a(twoRanks()), b(twoRanks());
  TimelineModel model;
  model.show({{a.index, "before"}, {b.index, "after"}});
  model.resize(1168, 900, 1);
  const Box above = *model.boxOf(0, 3), below = *model.boxOf(1, 3);
  EXPECT_EQ(above.x0, below.x0) << "each from its own first event on";
  EXPECT_GT(below.y0, model.boxOf(0, static_cast<EventIndex>(a.trace.events.size()) - 1)->y1);
  EXPECT_EQ(model.hit(below.x0 + 3, below.y0 + 3).source, 1);
  model.choose({.source = 1, .event = 3});
  Scene scene;
  model.scene(scene);
  EXPECT_EQ(scene.events, 2 * static_cast<std::int64_t>(a.trace.events.size()));
  EXPECT_THAT(model.summary(), HasSubstr("after: 2 ranks"));
  model.show({{a.index, "before"}});
  EXPECT_EQ(model.chosen().event, kNoIndex) << "the second trace took its selection along";
}

TEST(Timeline, DeepTracksOpenAndClose) {
  TraceBuilder b;
  b.rank(0);
  for (int d = 0; d < 9; ++d) b.op(0, "f", d, 100 - d);
  const Opened opened(std::move(b.trace));
  TimelineModel model = modelOf(opened);
  EXPECT_FALSE(model.boxOf(0, 8));
  Scene scene;
  model.scene(scene);
  EXPECT_EQ(scene.events, 4);
  EXPECT_TRUE(std::any_of(scene.texts.begin(), scene.texts.end(), [](const Text& t) { return t.text.ends_with(" +5"); }));
  model.toggle(0, 0);
  EXPECT_TRUE(model.boxOf(0, 8));
  model.toggle(0, 0);
  model.reveal(0, 8);
  EXPECT_TRUE(model.boxOf(0, 8)) << "what is looked for opens its track";
}

TEST(Timeline, AnEmptyTraceSaysSo) {
  const Opened opened{Trace{}};
  EXPECT_THAT(opened.index->summary(), HasSubstr("no events"));
  TimelineModel model = modelOf(opened);
  Scene scene;
  model.scene(scene);
  EXPECT_TRUE(scene.quads.empty());
  EXPECT_TRUE(model.describe(model.hit(400, 100)).empty());
  TimelineModel nothing;
  nothing.resize(800, 300, 2);
  nothing.key(TimelineKey::kFit), nothing.wheel(300, 100, 1, false);
  nothing.scene(scene);
  EXPECT_TRUE(nothing.empty());
}

TEST(Timeline, BuildingCanBeCancelled) {
  const Trace t = twoRanks();
  const CancelToken cancel;
  cancel.cancel();
  const auto index = TimelineIndex::build(t, {}, {}, true, cancel);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, "cancelled");
}

TEST(Timeline, AHistogramCountsEveryValueOnce) {
  std::vector<std::int64_t> values{0, 1, 1, 3, 900, 1000, 1000};
  const auto bins = histogramOf(values, 10);
  ASSERT_EQ(bins.size(), 10u);
  std::int64_t sum = 0;
  for (const HistogramBin& b : bins) sum += b.count;
  EXPECT_EQ(sum, 7);
  EXPECT_EQ(bins.front().count, 3);
  EXPECT_EQ(bins.back().count, 3);
  EXPECT_EQ(histogramOf({5, 5, 5}, 10).size(), 1u);
  EXPECT_TRUE(histogramOf({}, 10).empty());
}

}  // namespace
}  // namespace spscope::ui
