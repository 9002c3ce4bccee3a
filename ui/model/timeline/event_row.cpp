// SPDX-License-Identifier: Apache-2.0
#include "ui/model/timeline/event_row.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace spscope::ui {

void EventRow::add(std::int64_t start, std::int64_t end, std::int32_t id, Paint paint) {
  start_.push_back(start), end_.push_back(end), id_.push_back(id), paint_.push_back(paint);
}

void EventRow::finish() {
  levels_.clear();
  std::vector<std::array<std::int64_t, kPaints>> times, above;  // by block, to know what takes most
  for (std::size_t below = size(); below > 1;) {
    std::vector<Block> level;
    above.clear();
    for (std::size_t first = 0; first < below; first += kFanOut) {
      const std::size_t last = std::min(below, first + kFanOut);
      Block b{};
      std::array<std::int64_t, kPaints> time{};
      for (std::size_t i = first; i < last; ++i) {
        if (levels_.empty()) {
          const std::int64_t length = end_[i] - start_[i];
          if (i == first) b = {start_[i], end_[i], 0, static_cast<std::int32_t>(i), paint_[i]};
          b.end = std::max(b.end, end_[i]), b.busy += length;
          if (length > end_[static_cast<std::size_t>(b.longest)] - start_[static_cast<std::size_t>(b.longest)]) b.longest = static_cast<std::int32_t>(i);
          time[static_cast<std::size_t>(paint_[i])] += length + 1;  // events without length count, too
        } else {
          const Block& c = levels_.back()[i];
          const auto length = [&](std::int32_t item) { return end_[static_cast<std::size_t>(item)] - start_[static_cast<std::size_t>(item)]; };
          if (i == first) b = c, b.busy = 0;
          b.end = std::max(b.end, c.end), b.busy += c.busy;
          if (length(c.longest) > length(b.longest)) b.longest = c.longest;
          for (std::size_t p = 0; p < time.size(); ++p) time[p] += times[i][p];
        }
      }
      b.paint = static_cast<Paint>(std::max_element(time.begin(), time.end()) - time.begin());
      level.push_back(b);
      above.push_back(time);
    }
    below = level.size();
    levels_.push_back(std::move(level));
    times.swap(above);
  }
}

std::pair<std::size_t, std::size_t> EventRow::visible(const Viewport& view) const {
  // By pixels, so that it agrees with what draw() covers.
  const auto seen_from = std::partition_point(end_.begin(), end_.end(), [&](std::int64_t end) {
    return view.xOf(static_cast<double>(end)) <= 0;
  });
  auto first = static_cast<std::size_t>(seen_from - end_.begin());
  while (first > 0 && view.xOf(static_cast<double>(start_[first - 1])) >= 0) --first;  // without length, at the edge itself
  const auto last = std::partition_point(start_.begin() + static_cast<std::ptrdiff_t>(first), start_.end(), [&](std::int64_t start) {
    return view.xOf(static_cast<double>(start)) < view.width_px;
  });
  return {first, static_cast<std::size_t>(last - start_.begin())};
}

std::pair<std::size_t, std::size_t> EventRow::between(std::int64_t begin, std::int64_t end) const {
  auto first = static_cast<std::size_t>(std::upper_bound(end_.begin(), end_.end(), begin) - end_.begin());
  while (first > 0 && start_[first - 1] >= begin) --first;
  const auto last = static_cast<std::size_t>(std::lower_bound(start_.begin(), start_.end(), end) - start_.begin());
  return {first, std::max(first, last)};
}

void EventRow::draw(const Viewport& view, std::vector<RowSpan>& out) const {
  const auto [first, last] = visible(view);
  const std::size_t begin = out.size();
  // As Viewport::xOf, with what it divides by at hand.
  const auto xOf = [start = view.start_ns, times = 1 / view.ns_per_px](std::int64_t ns) { return (static_cast<double>(ns) - start) * times; };
  const double fourths = 4 / view.ns_per_px;
  // The pixel that is being gathered.
  struct {
    int x = -1;
    double busy = 0;
    std::int64_t longest = -1, best = -1;
    Paint paint = Paint::kOther;
    std::int32_t item = 0, count = 0;
  } cell;
  int covered = 0;  // pixels left of this one are drawn
  const auto flush = [&] {
    if (cell.count == 0) return;
    const auto density = static_cast<std::uint8_t>(std::clamp(static_cast<int>(cell.busy * fourths + 0.999), 1, 4));
    RowSpan* before = out.size() > begin ? &out.back() : nullptr;
    if (before && before->x1 == cell.x && before->gathered && before->paint == cell.paint && (isHatched(cell.paint) || std::abs(before->density - density) <= 1)) {
      if (cell.longest > end_[static_cast<std::size_t>(before->item)] - start_[static_cast<std::size_t>(before->item)]) before->item = cell.item;
      ++before->x1, before->count += cell.count;
    } else {
      out.push_back({cell.x, cell.x + 1, cell.paint, density, cell.item, cell.count, true});
    }
    covered = cell.x + 1;
    cell = {};
  };
  // Something that lies within one pixel.
  const auto gather = [&](int x, std::int64_t busy, std::int32_t longest, Paint paint, std::size_t count) {
    if (x < covered) {  // the end of a wide event fills this pixel
      if (out.size() > begin) out.back().count += static_cast<std::int32_t>(count);
      return;
    }
    if (cell.count > 0 && cell.x != x) flush();
    cell.x = x, cell.busy += static_cast<double>(busy), cell.count += static_cast<std::int32_t>(count);
    if (busy > cell.best) cell.best = busy, cell.paint = paint;
    const std::int64_t length = end_[static_cast<std::size_t>(longest)] - start_[static_cast<std::size_t>(longest)];
    if (length > cell.longest) cell.longest = length, cell.item = longest;
  };
  for (std::size_t i = first; i < last;) {
    // The largest block that begins here and lies within a pixel.
    std::size_t level = 0, span = 1;
    while (level < levels_.size() && i % (span * kFanOut) == 0 && i + span * kFanOut <= last) {
      const Block& b = levels_[level][i / (span * kFanOut)];
      // Cut towards 0: what begins left of the view is seen from its first pixel on.
      if (xOf(b.end) > static_cast<double>(static_cast<std::int64_t>(xOf(b.start))) + 1) break;
      ++level, span *= kFanOut;
    }
    if (level > 0) {
      const Block& b = levels_[level - 1][i / span];
      gather(static_cast<int>(xOf(b.start)), b.busy, b.longest, b.paint, span);
      i += span;
      continue;
    }
    const double from = xOf(start_[i]), to = xOf(end_[i]);
    const int x0 = static_cast<int>(std::max(0.0, from));
    const int x1 = static_cast<int>(std::min<double>(view.width_px, std::ceil(to)));
    if (x1 <= x0 + 1) {
      gather(x0, end_[i] - start_[i], static_cast<std::int32_t>(i), paint_[i], 1);
    } else {
      flush();
      const int at = std::max(x0, covered);
      if (x1 > at) out.push_back({at, x1, paint_[i], 4, static_cast<std::int32_t>(i), 1}), covered = x1;
      else ++out.back().count;
    }
    ++i;
  }
  flush();
}

std::size_t EventRow::at(const Viewport& view, double x) const {
  if (x < 0 || x >= view.width_px) return size();
  // What lies in the pixel, an event that ends in it included.
  const double from = std::floor(x);
  const Viewport pixel{view.start_ns + from * view.ns_per_px, view.ns_per_px, 1};
  const auto [first, last] = visible(pixel);
  std::size_t found = size();
  for (std::size_t i = first; i < last; ++i)
    if (found == size() || end_[i] - start_[i] > end_[found] - start_[found]) found = i;
  return found;
}

void MemoryCurve::add(std::int64_t time, std::int64_t live) {
  if (time_.empty() || live > peak_) peak_ = live, peak_time_ = time;
  time_.push_back(time), live_.push_back(live);
}

void MemoryCurve::finish() {
  levels_.clear();
  for (const std::vector<std::int64_t>* below = &live_; below->size() > 1; below = &levels_.back()) {
    std::vector<std::int64_t> level;
    for (std::size_t i = 0; i < below->size(); i += 8)
      level.push_back(*std::max_element(below->begin() + static_cast<std::ptrdiff_t>(i), below->begin() + static_cast<std::ptrdiff_t>(std::min(below->size(), i + 8))));
    levels_.push_back(std::move(level));
  }
}

std::int64_t MemoryCurve::most(std::size_t first, std::size_t last) const {
  std::int64_t most = 0;
  while (first < last) {
    std::size_t level = 0, span = 1;
    while (level < levels_.size() && first % (span * 8) == 0 && first + span * 8 <= last) ++level, span *= 8;
    most = std::max(most, level == 0 ? live_[first] : levels_[level - 1][first / span]);
    first += span;
  }
  return most;
}

std::int64_t MemoryCurve::at(std::int64_t time) const {
  const auto after = std::upper_bound(time_.begin(), time_.end(), time);
  return after == time_.begin() ? 0 : live_[static_cast<std::size_t>(after - time_.begin()) - 1];
}

void MemoryCurve::draw(const Viewport& view, std::vector<std::int64_t>& out) const {
  out.assign(static_cast<std::size_t>(std::max(0, view.width_px)), 0);
  const auto from = [&](double x) {  // the first point that is not left of x
    return static_cast<std::size_t>(std::partition_point(time_.begin(), time_.end(), [&](std::int64_t t) { return view.xOf(static_cast<double>(t)) < x; }) - time_.begin());
  };
  std::size_t next = from(0);
  for (int x = 0; x < view.width_px; ++x) {
    std::size_t end = next;
    if (end < time_.size() && view.xOf(static_cast<double>(time_[end])) < x + 1) end = from(x + 1);
    const std::int64_t before = next == 0 ? 0 : live_[next - 1];
    out[static_cast<std::size_t>(x)] = std::max(before, most(next, end));
    next = end;
  }
}

}  // namespace spscope::ui
