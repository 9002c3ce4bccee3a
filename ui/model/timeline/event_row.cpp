// SPDX-License-Identifier: Apache-2.0
#include "ui/model/timeline/event_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace spscope::ui {

std::int64_t Viewport::lastBefore(double x) const {
  auto at = static_cast<std::int64_t>(std::floor(timeOf(x)));
  while (xOf(static_cast<double>(at)) >= x) --at;  // off by one or two, from rounding
  while (xOf(static_cast<double>(at + 1)) < x) ++at;
  return at;
}

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
          if (i == first) b = {end_[i], 0, length, static_cast<std::int32_t>(i), paint_[i]};
          b.end = std::max(b.end, end_[i]), b.busy += length;
          if (length > b.longest_ns) b.longest_ns = length, b.longest = static_cast<std::int32_t>(i);
          time[static_cast<std::size_t>(paint_[i])] += length + 1;  // events without length count, too
        } else {
          const Block& c = levels_.back()[i];
          if (i == first) b = c, b.busy = 0;
          b.end = std::max(b.end, c.end), b.busy += c.busy;
          if (c.longest_ns > b.longest_ns) b.longest_ns = c.longest_ns, b.longest = c.longest;
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
  std::vector<RowColumn> of(static_cast<std::size_t>(std::max(0, view.width_px)));
  columns(view, 0, view.width_px, of.data());
  join(of, out);
}

void EventRow::columns(const Viewport& view, std::int64_t from, std::int64_t to, RowColumn* out) const {
  std::fill(out, out + (to - from), RowColumn{});
  // The first that ends right of the edge, or lies on it and has no length.
  auto i = static_cast<std::size_t>(std::upper_bound(end_.begin(), end_.end(), view.lastBefore(std::nextafter(static_cast<double>(from), 1e300))) - end_.begin());
  for (const std::int64_t before = view.lastBefore(static_cast<double>(from)); i > 0 && start_[i - 1] > before;) --i;
  const double fourths = 4 / view.ns_per_px;
  std::int64_t x = from - 1;                      // the pixel in which the item starts
  std::int64_t start_within = std::numeric_limits<std::int64_t>::min(), end_within = 0;  // the last that starts, ends in it
  std::int64_t covered = from;                    // pixels left of this one are full
  std::int64_t busy = 0, best = -1;               // of what is gathered in x
  const auto close = [&] {
    if (x < covered) return;
    RowColumn& c = out[x - from];
    if (c.kind == RowColumn::kGathered) c.density = static_cast<std::uint8_t>(std::clamp(static_cast<int>(static_cast<double>(busy) * fourths + 0.999), 1, 4)), covered = x + 1;
  };
  // `count` items from i on that lie in pixel x.
  const auto gather = [&](std::int64_t time, std::int64_t length, std::int32_t longest, Paint paint, std::int32_t count) {
    RowColumn& c = out[x - from];
    c.count += count;
    if (x < covered) return;  // the end of a wide event fills the pixel
    busy += time;
    if (time > best) best = time, c.paint = paint;
    if (c.kind == RowColumn::kEmpty || length > c.longest) c.longest = length, c.item = longest;
    c.kind = RowColumn::kGathered;
  };
  for (; i < size();) {
    if (start_[i] > start_within) {
      close();
      x = static_cast<std::int64_t>(std::floor(view.xOf(static_cast<double>(start_[i]))));
      if (x >= to) break;
      busy = 0, best = -1;
      start_within = view.lastBefore(static_cast<double>(x + 1)), end_within = view.lastBefore(std::nextafter(static_cast<double>(x + 1), 1e300));
    }
    // The largest block that begins here and lies within a pixel.
    std::size_t level = 0;
    for (std::size_t bits = kFanOutBits; level < levels_.size() && (i & ((std::size_t{1} << bits) - 1)) == 0 && i + (std::size_t{1} << bits) <= size(); bits += kFanOutBits) {
      if (levels_[level][i >> bits].end > end_within) break;
      ++level;
    }
    if (level > 0) {
      const Block& b = levels_[level - 1][i >> (level * kFanOutBits)];
      gather(b.busy, b.longest_ns, b.longest, b.paint, 1 << (level * kFanOutBits));
      i += std::size_t{1} << (level * kFanOutBits);
      continue;
    }
    const std::int64_t length = end_[i] - start_[i];
    if (end_[i] <= end_within) {
      gather(length, length, static_cast<std::int32_t>(i), paint_[i], 1);
    } else {
      close();
      const auto end = std::min(to, static_cast<std::int64_t>(std::ceil(view.xOf(static_cast<double>(end_[i])))));
      if (x >= from && x < covered) ++out[x - from].count;
      for (std::int64_t at = std::max(x, covered); at < end; ++at)
        out[at - from] = {at == x ? RowColumn::kBegins : RowColumn::kGoesOn, paint_[i], 4, static_cast<std::int32_t>(i), at == x ? 1 : 0, length};
      covered = std::max(covered, end);
    }
    ++i;
  }
  if (x < to) close();
}

void EventRow::join(const std::vector<RowColumn>& columns, std::vector<RowSpan>& out) {
  std::int64_t longest = 0;
  RowSpan* last = nullptr;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const RowColumn& c = columns[k];
    if (c.kind == RowColumn::kEmpty) continue;
    const auto x = static_cast<int>(k);
    const bool touches = last && last->x1 == x;
    if (c.kind == RowColumn::kGoesOn && touches && !last->gathered && last->item == c.item) {
      ++last->x1, last->count += c.count;
    } else if (c.kind == RowColumn::kGathered && touches && last->gathered && last->paint == c.paint && (isHatched(c.paint) || std::abs(last->density - c.density) <= 1)) {
      if (c.longest > longest) last->item = c.item, longest = c.longest;
      ++last->x1, last->count += c.count;
    } else {
      // What began left of the first pixel is seen from there on; what began in a full pixel was counted there.
      const bool later = c.kind == RowColumn::kGoesOn;
      if (later && touches) --last->count;
      last = &out.emplace_back(RowSpan{x, x + 1, c.paint, c.density, c.item, c.count + (later ? 1 : 0), c.kind == RowColumn::kGathered});
      longest = c.longest;
    }
  }
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
  out.resize(static_cast<std::size_t>(std::max(0, view.width_px)));
  columns(view, 0, view.width_px, out.data());
}

void MemoryCurve::columns(const Viewport& view, std::int64_t from, std::int64_t to, std::int64_t* out) const {
  auto next = static_cast<std::size_t>(std::upper_bound(time_.begin(), time_.end(), view.lastBefore(static_cast<double>(from))) - time_.begin());
  for (std::int64_t x = from; x < to; ++x) {
    const std::int64_t within = view.lastBefore(static_cast<double>(x + 1));
    std::size_t step = 1;  // points of a pixel are near: doubling steps, then halves
    while (next + step <= time_.size() && time_[next + step - 1] <= within) step *= 2;
    const auto low = time_.begin() + static_cast<std::ptrdiff_t>(next + step / 2), high = time_.begin() + static_cast<std::ptrdiff_t>(std::min(time_.size(), next + step));
    const auto end = static_cast<std::size_t>(std::upper_bound(low, high, within) - time_.begin());
    out[x - from] = std::max(next == 0 ? 0 : live_[next - 1], most(next, end));
    next = end;
  }
}

}  // namespace spscope::ui
