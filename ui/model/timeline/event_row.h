// SPDX-License-Identifier: Apache-2.0
// One row of a timeline: events that do not overlap, with summaries of 8, 64, 512 ... neighbours, so that what is drawn
// depends on the pixels and not on the events. Nothing is lost: each pixel that holds a part of an event is covered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ui/model/timeline/paint.h"

namespace spscope::ui {

/// What is seen: from start_ns on, width_px pixels. Times are relative to the trace's first.
struct Viewport {
  double start_ns = 0;
  double ns_per_px = 1;
  int width_px = 0;
  double xOf(double ns) const { return (ns - start_ns) * (1 / ns_per_px); }
  double timeOf(double x) const { return start_ns + x * ns_per_px; }
  double end_ns() const { return timeOf(width_px); }
  /// The last whole instant that is drawn left of x, by xOf() itself: what is compared with it need not be converted.
  std::int64_t lastBefore(double x) const;
};

/// Pixels x0 up to, not including, x1.
struct RowSpan {
  int x0 = 0, x1 = 0;
  Paint paint = Paint::kOther;   ///< of what takes most of its time
  std::uint8_t density = 4;      ///< in fourths, at least 1: how much of the time in these pixels something ran
  std::int32_t item = 0;         ///< the longest of those shown here
  std::int32_t count = 0;        ///< how many events show here first
  bool gathered = false;         ///< of events that lie within a pixel each; otherwise one event (and what hides at its edge)
};

/// What a row shows in one pixel. Depends on where the pixel lies in time and on nothing else that is seen: a view that
/// moves by whole pixels shows the same columns elsewhere.
struct RowColumn {
  enum Kind : std::uint8_t { kEmpty, kGathered, kBegins, kGoesOn } kind = kEmpty;  ///< the last two: of an event wider than a pixel
  Paint paint = Paint::kOther;
  std::uint8_t density = 4;      ///< as RowSpan's
  std::int32_t item = 0, count = 0;
  std::int64_t longest = 0;      ///< of kGathered: ns of `item`
};

/// Pixels [first, first + of.size()) of `view`, kept while what is seen moves by whole pixels; T as columns() fills it.
template <typename T>
struct ColumnCache {
  Viewport view;
  std::int64_t first = 0;
  std::vector<T> of;
  /// Makes it hold [from, from + count); compute(a, b, T*) is asked only for what is new.
  template <typename Compute>
  void update(const Viewport& now, std::int64_t from, std::size_t count, Compute&& compute) {
    const auto end = from + static_cast<std::int64_t>(count), had_end = first + static_cast<std::int64_t>(of.size());
    std::vector<T> next(count);
    const std::int64_t kept_from = std::max(from, first), kept_end = now.start_ns == view.start_ns && now.ns_per_px == view.ns_per_px ? std::min(end, had_end) : kept_from;
    if (kept_from < kept_end) {
      std::copy(of.begin() + (kept_from - first), of.begin() + (kept_end - first), next.begin() + (kept_from - from));
      if (from < kept_from) compute(from, kept_from, next.data());
      if (kept_end < end) compute(kept_end, end, next.data() + (kept_end - from));
    } else {
      compute(from, end, next.data());
    }
    view = now, first = from, of.swap(next);
  }
};

class EventRow {
 public:
  /// In the order of start, ends in the same order: the caller's rows do not overlap. `id` is the caller's.
  void add(std::int64_t start, std::int64_t end, std::int32_t id, Paint paint);
  /// After the last add().
  void finish();

  std::size_t size() const { return start_.size(); }
  std::int64_t start(std::size_t item) const { return start_[item]; }
  std::int64_t end(std::size_t item) const { return end_[item]; }
  std::int32_t id(std::size_t item) const { return id_[item]; }
  Paint paint(std::size_t item) const { return paint_[item]; }

  /// Items that are seen, [first, last): they end after the first instant and start before the end; an event without
  /// length is as long as a pixel.
  std::pair<std::size_t, std::size_t> visible(const Viewport& view) const;
  /// Items that lie in [begin, end) at least in part, one without length where its start does.
  std::pair<std::size_t, std::size_t> between(std::int64_t begin, std::int64_t end) const;
  /// Spans from left to right, none overlapping; appended to `out`. O(pixels · log events).
  void draw(const Viewport& view, std::vector<RowSpan>& out) const;
  /// The same in two steps. Fills `out` with the view's pixels [from, to), which may lie outside its width.
  void columns(const Viewport& view, std::int64_t from, std::int64_t to, RowColumn* out) const;
  static void join(const std::vector<RowColumn>& columns, std::vector<RowSpan>& out);
  /// The item that is drawn at pixel x: of several, the longest. size(): none.
  std::size_t at(const Viewport& view, double x) const;

 private:
  struct Block {
    std::int64_t end, busy, longest_ns;
    std::int32_t longest;
    Paint paint;
  };
  static constexpr std::size_t kFanOut = 8, kFanOutBits = 3;
  std::vector<std::int64_t> start_, end_;
  std::vector<std::int32_t> id_;
  std::vector<Paint> paint_;
  std::vector<std::vector<Block>> levels_;  ///< levels_[k] summarises 8^(k+1) items each
};

/// Live bytes over time as columns.
class MemoryCurve {
 public:
  /// In the order of time.
  void add(std::int64_t time, std::int64_t live);
  void finish();
  std::size_t size() const { return time_.size(); }
  std::int64_t peak() const { return peak_; }
  std::int64_t peakTime() const { return peak_time_; }
  /// Live at this instant; 0 before the first point.
  std::int64_t at(std::int64_t time) const;
  /// For each pixel the most that was live in it. O(pixels · log points).
  void draw(const Viewport& view, std::vector<std::int64_t>& out) const;
  /// The view's pixels [from, to), which may lie outside its width.
  void columns(const Viewport& view, std::int64_t from, std::int64_t to, std::int64_t* out) const;

 private:
  std::int64_t most(std::size_t first, std::size_t last) const;
  std::vector<std::int64_t> time_, live_;
  std::vector<std::vector<std::int64_t>> levels_;
  std::int64_t peak_ = 0, peak_time_ = 0;
};

}  // namespace spscope::ui
