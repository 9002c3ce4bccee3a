// SPDX-License-Identifier: Apache-2.0
// What a row draws against brute force: every pixel that holds a part of an event is covered, no other is, and each event
// is counted once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ui/model/timeline/event_row.h"

namespace spscope::ui {
namespace {

struct Item {
  std::int64_t start, end;
};

/// Events without overlap: dense and sparse stretches, many short ones, some without length, some long.
std::vector<Item> randomItems(std::mt19937_64& random, int count) {
  const auto upTo = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1)); };
  std::vector<Item> out;
  std::int64_t at = upTo(100);
  std::int64_t gap = 1;
  for (int i = 0; i < count; ++i) {
    if (upTo(50) == 0) gap = upTo(3) == 0 ? 20000 : upTo(1) ? 0 : 30;
    const std::int64_t length = upTo(9) == 0 ? 0 : upTo(60) == 0 ? upTo(50000) : upTo(40);
    out.push_back({at, at + length});
    at += length + upTo(gap);
    if (length == 0) ++at;  // two without length at one instant would not be in order
  }
  return out;
}

EventRow rowOf(const std::vector<Item>& items) {
  EventRow row;
  for (std::size_t i = 0; i < items.size(); ++i) row.add(items[i].start, items[i].end, static_cast<std::int32_t>(1000 + i), static_cast<Paint>(i % 5));
  row.finish();
  return row;
}

TEST(EventRow, DrawsWhatBruteForceDrawsAtAnyZoom) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const std::vector<Item> items = randomItems(random, round < 5 ? round : 3000);
    const EventRow row = rowOf(items);
    const double span = items.empty() ? 100 : static_cast<double>(items.back().end + 1);
    for (const double width_ns : {span * 1.2, span, span / 3.7, span / 50, span / 1000, 700.0, 3.3}) {
      Viewport view;
      view.width_px = 300 + static_cast<int>(random() % 400);
      view.ns_per_px = width_ns / view.width_px;
      view.start_ns = (static_cast<double>(random() % 1000) / 1000 * 1.1 - 0.1) * span;
      std::vector<std::int64_t> covered(static_cast<std::size_t>(view.width_px));
      std::int64_t seen = 0;
      for (const Item& item : items) {
        const double from = view.xOf(static_cast<double>(item.start)), to = view.xOf(static_cast<double>(item.end));
        const double x0 = std::floor(from), x1 = std::max(x0 + 1, std::ceil(to));
        const bool visible = from < view.width_px && (to > 0 || (from >= 0 && item.start == item.end));
        if (!visible) continue;
        ++seen;
        for (double x = std::max(0.0, x0); x < std::min<double>(x1, view.width_px); ++x) ++covered[static_cast<std::size_t>(x)];
      }
      std::vector<RowSpan> spans;
      row.draw(view, spans);
      std::int64_t count = 0;
      int last = 0;
      std::vector<bool> drawn(covered.size());
      for (const RowSpan& s : spans) {
        ASSERT_GE(s.x0, last) << "spans overlap";
        ASSERT_GT(s.x1, s.x0);
        ASSERT_LE(s.x1, view.width_px);
        ASSERT_GE(s.count, 1);
        last = s.x1;
        count += s.count;
        for (int x = s.x0; x < s.x1; ++x) drawn[static_cast<std::size_t>(x)] = true;
      }
      EXPECT_EQ(count, seen);
      for (std::size_t x = 0; x < covered.size(); ++x) ASSERT_EQ(drawn[x], covered[x] > 0) << "round " << round << " pixel " << x << " of " << view.width_px << ", " << view.ns_per_px << " ns each";
    }
  }
}

TEST(EventRow, AMovedRowIsTheRowDrawnFromNothing) {
  std::mt19937_64 random(11);
  const auto same = [](const RowColumn& a, const RowColumn& b) {
    return a.kind == b.kind && a.count == b.count && (a.kind == RowColumn::kEmpty || (a.paint == b.paint && a.density == b.density && a.item == b.item && a.longest == b.longest));
  };
  for (int round = 0; round < 30; ++round) {
    const std::vector<Item> items = randomItems(random, 3000);
    const EventRow row = rowOf(items);
    MemoryCurve curve;
    for (const Item& item : items) curve.add(item.start, static_cast<std::int64_t>(random() % 1000));
    curve.finish();
    const auto span = static_cast<double>(items.back().end);
    for (const double scale : {span / 300, span / 9000, 41.0, 0.7}) {
      const Viewport grid{span * 0.3 + 0.123, scale, 0};
      ColumnCache<RowColumn> kept;
      ColumnCache<std::int64_t> kept_memory;
      std::int64_t at = 0;
      for (int move = 0; move < 25; ++move) {
        const std::size_t width = 200 + random() % 60;
        kept.update(grid, at, width, [&](std::int64_t from, std::int64_t to, RowColumn* out) { row.columns(grid, from, to, out); });
        kept_memory.update(grid, at, width, [&](std::int64_t from, std::int64_t to, std::int64_t* out) { curve.columns(grid, from, to, out); });
        std::vector<RowColumn> fresh(width);
        std::vector<std::int64_t> fresh_memory(width);
        row.columns(grid, at, at + static_cast<std::int64_t>(width), fresh.data());
        curve.columns(grid, at, at + static_cast<std::int64_t>(width), fresh_memory.data());
        EXPECT_EQ(kept_memory.of, fresh_memory);
        for (std::size_t x = 0; x < width; ++x) ASSERT_TRUE(same(kept.of[x], fresh[x])) << "round " << round << " scale " << scale << " move " << move << " pixel " << x;
        std::vector<RowSpan> a, b;
        EventRow::join(kept.of, a), EventRow::join(fresh, b);
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i)
          ASSERT_TRUE(a[i].x0 == b[i].x0 && a[i].x1 == b[i].x1 && a[i].paint == b[i].paint && a[i].density == b[i].density && a[i].item == b[i].item && a[i].count == b[i].count && a[i].gathered == b[i].gathered) << i;
        at += static_cast<std::int64_t>(random() % 21) - 10 + (random() % 10 == 0 ? 500 : 0) - (random() % 10 == 0 ? 500 : 0);
      }
    }
  }
}

TEST(EventRow, AMillionEventsAreAFewThousandSpans) {
  EventRow row;
  for (int i = 0; i < 1'000'000; ++i) row.add(i * 10, i * 10 + 7, i, Paint::kMatmul);
  row.finish();
  std::vector<RowSpan> spans;
  row.draw({0, 10'000'000.0 / 1600, 1600}, spans);
  EXPECT_LE(spans.size(), 1600u);
  std::int64_t count = 0;
  for (const RowSpan& s : spans) count += s.count;
  EXPECT_EQ(count, 1'000'000);
}

TEST(EventRow, TheDominantColourWinsAndPaleMeansMostlyIdle) {
  EventRow row;  // 100 ns: 8 x 10 ns of one, 2 x 2 ns of the other
  for (int i = 0; i < 8; ++i) row.add(i * 10, i * 10 + 10, i, Paint::kAttention);
  row.add(80, 82, 8, Paint::kTransfer), row.add(90, 92, 9, Paint::kTransfer);
  for (int i = 0; i < 8; ++i) row.add(1000 + i, 1001 + i, 10 + i, Paint::kTransfer);  // 8 of 100 ns
  row.finish();
  std::vector<RowSpan> spans;
  row.draw({0, 100, 20}, spans);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].paint, Paint::kAttention);
  EXPECT_EQ(spans[0].density, 4);
  EXPECT_EQ(spans[0].count, 10);
  EXPECT_EQ(spans[1].paint, Paint::kTransfer);
  EXPECT_EQ(spans[1].density, 1);
}

TEST(EventRow, APointIsTheEventThatIsThere) {
  std::mt19937_64 random(3);
  const std::vector<Item> items = randomItems(random, 2000);
  const EventRow row = rowOf(items);
  for (int i = 0; i < 2000; ++i) {
    Viewport view;
    view.width_px = 500;
    view.ns_per_px = std::pow(10, static_cast<double>(random() % 5000) / 1000 - 1);
    view.start_ns = static_cast<double>(random() % static_cast<std::uint64_t>(items.back().end));
    const int x = static_cast<int>(random() % 500);
    std::int64_t longest = -1;
    for (const Item& item : items) {
      const double x0 = std::floor(view.xOf(static_cast<double>(item.start))), x1 = std::max(x0 + 1, std::ceil(view.xOf(static_cast<double>(item.end))));
      if (x0 <= x && x < x1) longest = std::max(longest, item.end - item.start);
    }
    const std::size_t at = row.at(view, x + 0.5);
    // A point on the border of a pixel may round either way; the pixel itself may not be empty then.
    if (at == row.size()) EXPECT_EQ(longest, -1) << view.start_ns << " " << view.ns_per_px << " " << x;
    else EXPECT_EQ(row.end(at) - row.start(at), longest) << view.start_ns << " " << view.ns_per_px << " " << x;
  }
}

TEST(EventRow, BetweenIsBruteForce) {
  std::mt19937_64 random(11);
  const std::vector<Item> items = randomItems(random, 500);
  const EventRow row = rowOf(items);
  for (int i = 0; i < 500; ++i) {
    const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(items.back().end)), end = begin + 1 + static_cast<std::int64_t>(random() % 5000);
    std::vector<std::int32_t> expected, got;
    for (std::size_t k = 0; k < items.size(); ++k)
      if (items[k].start < end && (items[k].end > begin || (items[k].start == items[k].end && items[k].start >= begin))) expected.push_back(static_cast<std::int32_t>(1000 + k));
    const auto [first, last] = row.between(begin, end);
    for (std::size_t k = first; k < last; ++k) got.push_back(row.id(k));
    EXPECT_EQ(got, expected);
  }
}

TEST(MemoryCurve, EachPixelHasItsMost) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    MemoryCurve curve;
    std::vector<std::pair<std::int64_t, std::int64_t>> points;
    std::int64_t time = 50;
    for (int i = 0; i < 500 * round; ++i) {
      time += static_cast<std::int64_t>(random() % 30);
      points.push_back({time, static_cast<std::int64_t>(random() % 10000)});
      curve.add(points.back().first, points.back().second);
    }
    curve.finish();
    for (const double nspp : {0.5, 7.0, 200.0}) {
      const Viewport view{static_cast<double>(random() % 3000) - 500, nspp, 333};
      std::vector<std::int64_t> got;
      curve.draw(view, got);
      std::vector<std::int64_t> expected(333, 0);
      for (std::size_t x = 0; x < 333; ++x) {
        std::int64_t before = 0;
        for (const auto& [t, live] : points) {
          const double at = view.xOf(static_cast<double>(t));
          if (at < static_cast<double>(x)) before = live;
          else if (at < static_cast<double>(x) + 1) expected[x] = std::max(expected[x], live);
        }
        expected[x] = std::max(expected[x], before);
      }
      EXPECT_EQ(got, expected);
    }
  }
}

}  // namespace
}  // namespace spscope::ui
