// SPDX-License-Identifier: Apache-2.0
// What a timeline looks like now, as rectangles and texts.
#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "ui/model/timeline/timeline_model.h"

namespace spscope::ui {

using namespace trace;

namespace {

constexpr double kCharacter = 6.4;        // mean width of one of small text
constexpr std::size_t kRowsKept = 1000;   // several screens full

/// What fits, cut at a character of UTF-8.
std::string cut(std::string_view text, double width) {
  const auto most = static_cast<std::size_t>(std::max(0.0, width / kCharacter));
  if (text.size() <= most) return std::string(text);
  if (most < 3) return {};
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double stepFrom(double least) {
  double step = std::pow(10, std::floor(std::log10(std::max(1e-3, least))));
  for (const double times : {1.0, 2.0, 5.0, 10.0})
    if (step * times >= least * 0.999) return step * times;
  return step * 10;
}

/// A time on the axis, in the unit of the step and with as many decimals as it needs.
std::string axisText(double ns, double step) {
  struct Unit {
    double ns;
    const char* name;
  };
  static constexpr Unit kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  for (const Unit& unit : kUnits) {
    if (unit.ns > 1 && std::abs(ns) < unit.ns * 0.9999 && step < unit.ns) continue;
    int decimals = 0;
    for (double s = step / unit.ns; s < 0.999 && decimals < 9; s *= 10) ++decimals;
    if (decimals > 3 && unit.ns > 1) continue;
    return strf("%.*f %s", decimals, ns / unit.ns, unit.name);
  }
  return strf("%.2f ns", ns);
}

}  // namespace

void Scene::clear() {
  below.clear(), quads.clear(), labels.clear(), above.clear(), gutter.clear(), axis.clear(), texts.clear();
  events = 0, paints.fill(false);
}

void TimelineModel::scene(Scene& out) const {
  out.clear();
  if (shown_.empty()) return;
  drawAxis(out);
  if (row_columns_.size() > kRowsKept) row_columns_.clear();
  std::vector<RowSpan> spans;
  int source = 0;
  std::int32_t rank = -1;
  for (const PlacedTrack& at : placed_) {
    const TimelineIndex& index = *shown_[static_cast<std::size_t>(at.source)].index;
    const TimelineTrack& track = index.tracks()[static_cast<std::size_t>(at.track)];
    const auto y = static_cast<float>(axisHeight() + at.y - scroll_y_), height = static_cast<float>(at.height);
    const bool first_of_rank = track.rank != rank || at.source != source;
    rank = track.rank, source = at.source;
    if (y + height < axisHeight() || y > static_cast<float>(height_px_)) continue;
    const auto right = static_cast<float>(gutterWidth() + view_.width_px);
    out.below.push_back({{static_cast<float>(gutterWidth()), y, right, y + height}, Ink::kBand, Mark::kFill});
    const auto pad = static_cast<float>(8 * scale_), name_x = static_cast<float>(62 * scale_);
    // Two traces: whose rank it is stands in front of it.
    const std::string whose = shown_.size() > 1 ? strf("%c ", at.source == 0 ? 'A' : 'B') : "";
    if (first_of_rank) out.texts.push_back({pad, y, name_x, whose + index.rankName(track.rank), Ink::kText, true});
    std::string name = track.name;
    const auto hidden = static_cast<std::int32_t>(track.rows.size()) - at.rows;
    const double room = gutterWidth() - name_x - pad;
    if (track.shows == TrackShows::kEvents && hidden > 0) name = cut(name, room / scale_ - 5 * kCharacter) + strf(" +%d", static_cast<int>(hidden));
    else name = cut(name, room / scale_);
    out.texts.push_back({name_x, y, static_cast<float>(room), name, Ink::kFaint, true, true});
    if (track.shows == TrackShows::kMemory)
      out.texts.push_back({name_x, y + static_cast<float>(15 * scale_), static_cast<float>(room), "peak " + formatBytes(track.memory.peak()), Ink::kFaint, true, true});
    drawTrack(at, out, spans);
  }
  drawMarks(match_marks_, Ink::kMatch, out, spans);
  drawMarks(chosen_marks_, Ink::kSelected, out, spans);
  drawFollowed(out);
  if (const auto box = boxOf(chosen_.source, chosen_.event)) {
    const auto b = static_cast<float>(std::max(1.0, scale_));
    out.above.push_back({{box->x0 - b, box->y0 - b, std::max(box->x1, box->x0 + 3 * b) + b, box->y1 + b}, Ink::kFollowed, Mark::kOutline});
    out.above.push_back({{box->x0, box->y0, std::max(box->x1, box->x0 + 3 * b), box->y1}, Ink::kSelected, Mark::kOutline});
  }
  const auto top = static_cast<float>(axisHeight()), bottom = static_cast<float>(height_px_), left = static_cast<float>(gutterWidth());
  if (measured_) {
    const auto x0 = static_cast<float>(view_.xOf(measured_->begin_ns) + gutterWidth()), x1 = static_cast<float>(view_.xOf(measured_->end_ns) + gutterWidth());
    out.above.push_back({{x0, top, x1, bottom}, Ink::kMeasure, Mark::kTint});
    out.above.push_back({{x0, top, x0, bottom}, Ink::kMeasure, Mark::kLine});
    out.above.push_back({{x1, top, x1, bottom}, Ink::kMeasure, Mark::kLine});
    const auto half = static_cast<float>(60 * scale_);
    const float x = std::clamp((x0 + x1) / 2 - half, left, std::max(left, left + static_cast<float>(view_.width_px) - 2 * half));
    const auto line = static_cast<float>(17 * scale_);
    out.above.push_back({{x, bottom - line, x + 2 * half, bottom}, Ink::kBackground, Mark::kFill});
    out.above.push_back({{x, bottom - line, x + 2 * half, bottom}, Ink::kMeasure, Mark::kOutline});
    out.texts.push_back({x + static_cast<float>(8 * scale_), bottom - static_cast<float>(16 * scale_), 2 * half, formatNs(std::llround(measured_->end_ns - measured_->begin_ns)), Ink::kText, true});
  }
  if (drag_ == Drag::kBox && moved_) {
    const auto x0 = static_cast<float>(std::min(press_x_, last_x_)), x1 = static_cast<float>(std::max(press_x_, last_x_));
    out.above.push_back({{x0, top, x1, bottom}, Ink::kFollowed, Mark::kTint});
    out.above.push_back({{x0, top, x1, bottom}, Ink::kFollowed, Mark::kOutline});
  }
}

void TimelineModel::spansOf(const EventRow& row, std::vector<RowSpan>& out) const {
  ColumnCache<RowColumn>& seen = row_columns_[&row];
  seen.update(grid(), column_, static_cast<std::size_t>(view_.width_px),
              [&](std::int64_t from, std::int64_t to, RowColumn* at) { row.columns(grid(), from, to, at); });
  EventRow::join(seen.of, out);
}

void TimelineModel::drawTrack(const PlacedTrack& at, Scene& out, std::vector<RowSpan>& spans) const {
  const TimelineIndex& index = *shown_[static_cast<std::size_t>(at.source)].index;
  const TimelineTrack& track = index.tracks()[static_cast<std::size_t>(at.track)];
  const auto left = static_cast<float>(gutterWidth());
  if (track.shows == TrackShows::kMemory) {
    ColumnCache<std::int64_t>& seen = memory_columns_[&track.memory];
    seen.update(grid(), column_, static_cast<std::size_t>(view_.width_px),
                [&](std::int64_t from, std::int64_t to, std::int64_t* columns) { track.memory.columns(grid(), from, to, columns); });
    const std::vector<std::int64_t>& live = seen.of;
    const Box row = rowBox(at, 0);
    const float height = row.y1 - row.y0;
    const auto level = [&](std::int64_t bytes) {
      return track.memory.peak() <= 0 || bytes <= 0 ? 0.0f : std::max(1.0f, std::round(height * static_cast<float>(static_cast<double>(bytes) / static_cast<double>(track.memory.peak()))));
    };
    for (std::size_t x = 0; x < live.size();) {  // columns of one height are one rectangle
      std::size_t end = x + 1;
      while (end < live.size() && level(live[end]) == level(live[x])) ++end;
      if (level(live[x]) > 0)
        out.quads.push_back({{left + static_cast<float>(x), row.y1 - level(live[x]), left + static_cast<float>(end), row.y1}, Paint::kMemory, 4});
      x = end;
    }
    if (const double x = view_.xOf(static_cast<double>(track.memory.peakTime())); x >= 0 && x < view_.width_px)
      out.above.push_back({{left + static_cast<float>(x), row.y0, left + static_cast<float>(x), row.y1}, Ink::kPeak, Mark::kLine});
    out.paints[static_cast<std::size_t>(Paint::kMemory)] = true;
    return;
  }
  const auto gap = static_cast<float>(std::max(1.0, std::floor(scale_)));
  for (std::int32_t r = 0; r < at.rows; ++r) {
    Box row = rowBox(at, r);
    if (row.y1 <= axisHeight() || row.y0 >= height_px_) continue;
    spans.clear();
    const EventRow& events = track.rows[static_cast<std::size_t>(r)];
    spansOf(events, spans);
    const bool shaded = !track.waiting.empty() && track.waiting[static_cast<std::size_t>(r)].size() > 0;  // text is on stripes
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const RowSpan& s = spans[i];
      out.events += track.shows == TrackShows::kEvents ? s.count : 0;
      out.paints[static_cast<std::size_t>(s.paint)] = true;
      Quad quad{{left + static_cast<float>(s.x0), row.y0, left + static_cast<float>(s.x1), row.y1}, s.paint, s.density};
      // A line of background between neighbours that touch.
      if (!s.gathered && s.x1 - s.x0 > 3 * static_cast<int>(gap) && i + 1 < spans.size() && spans[i + 1].x0 == s.x1) quad.box.x1 -= gap;
      out.quads.push_back(quad);
      if (s.gathered || track.shows != TrackShows::kEvents) continue;
      const double room = (s.x1 - s.x0 - 8 * scale_) / scale_;
      if (room < 4 * kCharacter) continue;
      const auto event = static_cast<std::size_t>(events.id(static_cast<std::size_t>(s.item)));
      std::string text = cut(index.trace().strings.text(index.trace().events.name[event]), room);
      if (!text.empty())
        out.labels.push_back({quad.box.x0 + static_cast<float>(4 * scale_), row.y0, quad.box.x1 - quad.box.x0 - static_cast<float>(6 * scale_), std::move(text), Ink::kText, true, false, true, shaded ? Paint::kWaiting : s.paint});
    }
    if (!shaded) continue;
    spans.clear();
    spansOf(track.waiting[static_cast<std::size_t>(r)], spans);
    // The upper part stays in the colour of what waits.
    const float third = std::round((row.y1 - row.y0) / 3);
    for (const RowSpan& s : spans) {
      out.paints[static_cast<std::size_t>(s.paint)] = true;
      out.quads.push_back({{left + static_cast<float>(s.x0), row.y0 + third, left + static_cast<float>(s.x1), row.y1}, s.paint, s.density});
    }
  }
}

void TimelineModel::drawMarks(const std::vector<RowMarks>& marks, Ink ink, Scene& out, std::vector<RowSpan>& spans) const {
  const auto left = static_cast<float>(gutterWidth());
  for (const RowMarks& of : marks) {
    const PlacedTrack* at = placed(of.source, of.track);
    if (!at || of.row >= at->rows) continue;
    const Box row = rowBox(*at, of.row);
    if (row.y1 <= axisHeight() || row.y0 >= height_px_) continue;
    spans.clear();
    of.events.draw(view_, spans);
    for (const RowSpan& s : spans)
      out.above.push_back({{left + static_cast<float>(s.x0), row.y0, left + static_cast<float>(s.x1), row.y1}, ink, s.x1 - s.x0 < 4 ? Mark::kFill : Mark::kOutline});
  }
}

void TimelineModel::drawFollowed(Scene& out) const {
  if (chosen_.event == kNoIndex) return;
  const TimelineIndex& index = *shown_[static_cast<std::size_t>(chosen_.source)].index;
  const std::int32_t followed = index.collectiveOf(chosen_.event);
  if (followed < 0) return;
  std::optional<Box> before;
  for (const CollectivePart& part : index.collectives()[static_cast<std::size_t>(followed)].parts) {
    const auto box = boxOf(chosen_.source, index.trace().collectives[static_cast<std::size_t>(part.index)].event);
    if (!box) continue;
    out.above.push_back({*box, Ink::kFollowed, Mark::kOutline});
    if (before) {
      out.above.push_back({{before->x0, before->y1, box->x0, box->y0}, Ink::kFollowed, Mark::kLine});
      out.above.push_back({{before->x1, before->y1, box->x1, box->y0}, Ink::kFollowed, Mark::kLine});
    }
    before = box;
  }
}

void TimelineModel::drawAxis(Scene& out) const {
  const auto left = static_cast<float>(gutterWidth()), top = static_cast<float>(axisHeight()), bottom = static_cast<float>(height_px_);
  const double step = stepFrom(96 * scale_ * view_.ns_per_px);
  // Far from 0 the axis counts from a round instant that is named at the left.
  double base = 0;
  if (view_.start_ns / step > 5000) base = std::floor(view_.start_ns / (step * 1000)) * step * 1000;
  const double first = std::ceil((view_.start_ns - base) / step);
  for (double k = first; base + k * step < view_.end_ns(); ++k) {
    const auto x = static_cast<float>(std::round(view_.xOf(base + k * step)) + left);
    out.below.push_back({{x, top, x, bottom}, Ink::kGrid, Mark::kLine});
    if (x + 88 * scale_ > left + view_.width_px) continue;
    const std::string text = k == 0 && base == 0 ? "0" : axisText(k * step, step);
    out.axis.push_back({x + static_cast<float>(4 * scale_), static_cast<float>(4 * scale_), static_cast<float>(88 * scale_), base > 0 ? "+" + text : text, Ink::kFaint, true});
  }
  out.gutter.push_back({{0, top, left, bottom}, Ink::kBackground, Mark::kFill});
  out.gutter.push_back({{left - 1, 0, left - 1, bottom}, Ink::kGrid, Mark::kLine});
  out.gutter.push_back({{0, top - 1, left + static_cast<float>(view_.width_px), top - 1}, Ink::kGrid, Mark::kLine});
  if (base > 0) out.axis.push_back({static_cast<float>(8 * scale_), static_cast<float>(4 * scale_), left, "from " + axisText(base, step * 1000), Ink::kFaint, true});
}

}  // namespace spscope::ui
