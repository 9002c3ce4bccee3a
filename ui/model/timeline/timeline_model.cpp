// SPDX-License-Identifier: Apache-2.0
#include "ui/model/timeline/timeline_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/strings.h"

namespace spscope::ui {

using namespace trace;

namespace {

constexpr double kClosest = 0.01;        // ns in a pixel
constexpr std::int32_t kRowsShown = 4;   // of a track that is not opened
constexpr double kClick = 4;             // the pointer may move that far in a click

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

void TimelineModel::show(std::vector<TimelineShown> shown) {
  const bool same_first = !shown_.empty() && !shown.empty() && shown_[0].index == shown[0].index;
  shown_ = std::move(shown);
  row_columns_.clear(), memory_columns_.clear();
  if (shown_.size() > 2) shown_.resize(2);
  open_.clear();
  span_ns_ = 1, summary_.clear();
  for (const TimelineShown& s : shown_) {
    open_.emplace_back(s.index->tracks().size());
    span_ns_ = std::max(span_ns_, static_cast<double>(s.index->spanNs()));
    if (!summary_.empty()) summary_ += "   |   ";
    if (shown_.size() > 1) summary_ += s.label + ": ";
    summary_ += s.index->summary();
  }
  if (!same_first) chosen_ = {}, measured_.reset(), scroll_y_ = 0;
  if (chosen_.source >= static_cast<int>(shown_.size())) chosen_ = {};
  layout();
  choose(std::exchange(chosen_, {}));
  search(std::exchange(search_, {}));
  if (!same_first) fit();
  changed();
}

void TimelineModel::resize(int width_px, int height_px, double scale) {
  const int plot = std::max(1, width_px - static_cast<int>(168 * scale));
  if (plot == view_.width_px && height_px == height_px_ && scale == scale_) return;
  const bool first = view_.width_px == 0;
  // The same span stays in sight.
  if (!first) view_.ns_per_px *= static_cast<double>(view_.width_px) / plot;
  view_.width_px = plot, height_px_ = height_px, scale_ = scale;
  layout();
  if (first) fit();
  clampView();
  changed();
}

double TimelineModel::rowHeight(const TimelineTrack& track) const {
  return std::round((track.shows == TrackShows::kMemory ? 34 : track.shows == TrackShows::kOverlap ? 9 : 16) * scale_);
}

void TimelineModel::layout() {
  placed_.clear();
  double y = 4 * scale_;
  for (std::size_t s = 0; s < shown_.size(); ++s) {
    if (s > 0) y += 16 * scale_;
    std::int32_t rank = -1;
    const auto& tracks = shown_[s].index->tracks();
    for (std::size_t k = 0; k < tracks.size(); ++k) {
      if (tracks[k].rank != rank && rank >= 0) y += 9 * scale_;
      rank = tracks[k].rank;
      const auto rows = static_cast<std::int32_t>(tracks[k].rows.size());
      const std::int32_t seen = tracks[k].shows == TrackShows::kMemory ? 1 : open_[s][k] ? rows : std::min(rows, kRowsShown);
      const double height = std::max(rowHeight(tracks[k]) * seen, std::round(13 * scale_));
      placed_.push_back({static_cast<int>(s), static_cast<std::int32_t>(k), std::round(y), height, seen});
      y = std::round(y) + height + std::round(3 * scale_);
    }
  }
  content_height_ = y + 6 * scale_;
}

void TimelineModel::clampView() {
  const double plot = std::max(1, view_.width_px);
  view_.ns_per_px = std::clamp(view_.ns_per_px, kClosest, std::max(kClosest, span_ns_ * 1.5 / plot));
  const double seen = view_.ns_per_px * plot;
  view_.start_ns = std::clamp(view_.start_ns, -0.9 * seen, span_ns_ - 0.1 * seen);
  if (view_.start_ns != grid().timeOf(static_cast<double>(column_))) grid_ns_ = view_.start_ns, column_ = 0, rest_px_ = 0;
  scroll_y_ = std::clamp(scroll_y_, 0.0, std::max(0.0, content_height_ - (height_px_ - axisHeight())));
}

void TimelineModel::fit() { showSpan(-0.01 * span_ns_, 1.01 * span_ns_); }

void TimelineModel::showSpan(double begin_ns, double end_ns) {
  if (end_ns < begin_ns) std::swap(begin_ns, end_ns);
  view_.ns_per_px = std::max(kClosest, (end_ns - begin_ns) / std::max(1, view_.width_px));
  view_.start_ns = begin_ns;
  clampView();
  changed();
}

void TimelineModel::zoomAt(double x, double factor) {
  if (!(factor > 0)) return;
  const double at = view_.timeOf(plotX(x));
  view_.ns_per_px /= factor;
  clampView();
  view_.start_ns = at - plotX(x) * view_.ns_per_px;
  clampView();
  changed();
}

void TimelineModel::pan(double dx_px, double dy_px) {
  const double whole = std::round(dx_px + rest_px_);
  rest_px_ += dx_px - whole;
  column_ -= std::llround(whole);
  view_.start_ns = grid().timeOf(static_cast<double>(column_));
  scroll_y_ -= dy_px;
  clampView();
  changed();
}

void TimelineModel::key(TimelineKey key) {
  const double middle = gutterWidth() + view_.width_px / 2.0;
  switch (key) {
    case TimelineKey::kLeft: pan(view_.width_px * 0.15, 0); break;
    case TimelineKey::kRight: pan(-view_.width_px * 0.15, 0); break;
    case TimelineKey::kUp: pan(0, 40 * scale_); break;
    case TimelineKey::kDown: pan(0, -40 * scale_); break;
    case TimelineKey::kZoomIn: zoomAt(middle, 1.4); break;
    case TimelineKey::kZoomOut: zoomAt(middle, 1 / 1.4); break;
    case TimelineKey::kFit: fit(); break;
    case TimelineKey::kNext: step(1); break;
    case TimelineKey::kPrevious: step(-1); break;
    case TimelineKey::kEscape:
      drag_ = Drag::kNone;
      clearMeasure();
      break;
    case TimelineKey::kZoomToSelection:
      if (measured_) {
        const double margin = 0.05 * std::abs(measured_->end_ns - measured_->begin_ns);
        showSpan(measured_->begin_ns - margin, measured_->end_ns + margin);
      } else if (chosen_.event != kNoIndex) {
        const Events& e = shown_[static_cast<std::size_t>(chosen_.source)].index->trace().events;
        const auto at = static_cast<std::size_t>(chosen_.event);
        const std::int64_t first = shown_[static_cast<std::size_t>(chosen_.source)].index->firstNs();
        const double length = std::max(1.0, static_cast<double>(e.end[at] - e.start[at]));
        showSpan(static_cast<double>(e.start[at] - first) - 0.2 * length, static_cast<double>(e.start[at] - first) + 1.2 * length);
      }
      break;
  }
}

void TimelineModel::press(double x, double y, bool shift, bool ctrl) {
  press_x_ = last_x_ = x, press_y_ = last_y_ = y, moved_ = false;
  drag_ = shift ? Drag::kMeasure : ctrl ? Drag::kBox : Drag::kPan;
}

void TimelineModel::move(double x, double y) {
  if (drag_ == Drag::kNone) return;
  if (!moved_ && std::hypot(x - press_x_, y - press_y_) < kClick * scale_) return;
  moved_ = true;
  if (drag_ == Drag::kPan) pan(x - last_x_, y - last_y_);
  if (drag_ == Drag::kMeasure) measure(view_.timeOf(plotX(press_x_)), view_.timeOf(plotX(x)));
  last_x_ = x, last_y_ = y;
  changed();
}

std::optional<TimelineHit> TimelineModel::release(double x, double y) {
  const Drag was = std::exchange(drag_, Drag::kNone);
  if (was == Drag::kNone) return std::nullopt;
  changed();
  if (!moved_) return hit(x, y);
  if (was == Drag::kBox) showSpan(view_.timeOf(plotX(press_x_)), view_.timeOf(plotX(x)));
  return std::nullopt;
}

void TimelineModel::wheel(double x, double y, double steps, bool shift) {
  if (x < gutterWidth() && y > axisHeight()) pan(0, steps * 48 * scale_);
  else if (shift) pan(steps * view_.width_px * 0.1, 0);
  else zoomAt(x, std::pow(1.25, steps));
}

const TimelineModel::PlacedTrack* TimelineModel::placed(int source, std::int32_t track) const {
  for (const PlacedTrack& at : placed_)
    if (at.source == source && at.track == track) return &at;
  return nullptr;
}

Box TimelineModel::rowBox(const PlacedTrack& at, std::int32_t row) const {
  const double height = rowHeight(shown_[static_cast<std::size_t>(at.source)].index->tracks()[static_cast<std::size_t>(at.track)]);
  const double y = axisHeight() + at.y - scroll_y_ + row * height;
  return {0, static_cast<float>(std::round(y)), 0, static_cast<float>(std::round(y) + height - std::max(1.0, std::floor(scale_)))};
}

TimelineHit TimelineModel::hit(double x, double y) const {
  TimelineHit out;
  out.time_ns = view_.timeOf(plotX(x));
  if (y < axisHeight()) return out;
  for (const PlacedTrack& at : placed_) {
    const double below = y - (axisHeight() + at.y - scroll_y_);
    if (below < 0 || below >= at.height) continue;
    out.source = at.source, out.track = at.track, out.gutter = x < gutterWidth();
    const TimelineTrack& track = shown_[static_cast<std::size_t>(at.source)].index->tracks()[static_cast<std::size_t>(at.track)];
    const auto row = static_cast<std::int32_t>(below / rowHeight(track));
    if (out.gutter || track.shows != TrackShows::kEvents || row >= at.rows) return out;
    const EventRow& events = track.rows[static_cast<std::size_t>(row)];
    if (const std::size_t i = events.at(view_, plotX(x)); i < events.size()) out.event = events.id(i);
    return out;
  }
  return out;
}

std::optional<Box> TimelineModel::boxOf(int source, EventIndex event) const {
  if (source >= static_cast<int>(shown_.size()) || event < 0) return std::nullopt;
  const TimelineIndex& index = *shown_[static_cast<std::size_t>(source)].index;
  if (static_cast<std::size_t>(event) >= index.trace().events.size()) return std::nullopt;
  const EventPlace place = index.placeOf(event);
  const PlacedTrack* at = placed(source, place.track);
  if (!at || place.row >= at->rows) return std::nullopt;
  const EventRow& row = index.tracks()[static_cast<std::size_t>(place.track)].rows[static_cast<std::size_t>(place.row)];
  const auto item = static_cast<std::size_t>(place.item);
  const double x0 = std::max(0.0, std::floor(view_.xOf(static_cast<double>(row.start(item)))));
  const double x1 = std::min<double>(view_.width_px, std::max(x0 + 1, std::ceil(view_.xOf(static_cast<double>(row.end(item))))));
  Box box = rowBox(*at, place.row);
  if (x1 <= x0 || box.y1 <= axisHeight() || box.y0 >= height_px_) return std::nullopt;
  box.x0 = static_cast<float>(x0 + gutterWidth()), box.x1 = static_cast<float>(x1 + gutterWidth());
  return box;
}

std::vector<TimelineModel::RowMarks> TimelineModel::marksOf(const std::vector<Match>& events) const {
  std::map<std::tuple<int, std::int32_t, std::int32_t>, std::vector<std::pair<std::int32_t, EventIndex>>> by_row;
  for (const Match& m : events) {
    const EventPlace place = shown_[static_cast<std::size_t>(m.source)].index->placeOf(m.event);
    if (place.track >= 0) by_row[{m.source, place.track, place.row}].push_back({place.item, m.event});
  }
  std::vector<RowMarks> out;
  for (auto& [at, items] : by_row) {
    std::sort(items.begin(), items.end());
    RowMarks& marks = out.emplace_back(RowMarks{std::get<0>(at), std::get<1>(at), std::get<2>(at), {}});
    const TimelineIndex& index = *shown_[static_cast<std::size_t>(marks.source)].index;
    const EventRow& row = index.tracks()[static_cast<std::size_t>(marks.track)].rows[static_cast<std::size_t>(marks.row)];
    for (const auto& [item, event] : items)
      marks.events.add(row.start(static_cast<std::size_t>(item)), row.end(static_cast<std::size_t>(item)), event, Paint::kOther);
    marks.events.finish();
  }
  return out;
}

void TimelineModel::choose(Chosen chosen) {
  if (chosen.source >= static_cast<int>(shown_.size())) chosen = {};
  if (!shown_.empty()) {
    const Trace& t = shown_[static_cast<std::size_t>(chosen.source)].index->trace();
    if (chosen.event < 0 || static_cast<std::size_t>(chosen.event) >= t.events.size()) chosen.event = kNoIndex;
    if (chosen.event != kNoIndex && t.events.node[static_cast<std::size_t>(chosen.event)] != kNoIndex)
      chosen.node = t.nodes[static_cast<std::size_t>(t.events.node[static_cast<std::size_t>(chosen.event)])].id;
  }
  if (chosen == chosen_) return;
  chosen_ = chosen;
  std::vector<Match> events;
  if (chosen_.node != kUnknown) {
    for (std::size_t s = 0; s < shown_.size(); ++s) {
      const Trace& t = shown_[s].index->trace();
      std::vector<bool> is(t.nodes.size());
      for (std::size_t n = 0; n < is.size(); ++n) is[n] = t.nodes[n].id == chosen_.node;
      for (std::size_t e = 0; e < t.events.size(); ++e)
        if (t.events.node[e] != kNoIndex && is[static_cast<std::size_t>(t.events.node[e])]) events.push_back({static_cast<int>(s), static_cast<EventIndex>(e)});
    }
  }
  chosen_marks_ = marksOf(events);
  changed();
}

void TimelineModel::chooseNode(std::int64_t node, std::int64_t rank) {
  if (chosen_.node == node) return;
  choose({.source = 0, .event = kNoIndex, .node = node});
  EventIndex best = kNoIndex;
  std::pair<bool, std::int64_t> most{false, -1};
  for (const RowMarks& marks : chosen_marks_) {
    if (marks.source != 0) continue;
    const TimelineIndex& index = *shown_[0].index;
    const Rank& of = index.trace().ranks[static_cast<std::size_t>(index.tracks()[static_cast<std::size_t>(marks.track)].rank)];
    for (std::size_t i = 0; i < marks.events.size(); ++i) {
      const std::pair<bool, std::int64_t> here{of.number == rank, marks.events.end(i) - marks.events.start(i)};
      if (here > most) most = here, best = marks.events.id(i);
    }
  }
  if (best != kNoIndex && !boxOf(0, best)) reveal(0, best);
}

void TimelineModel::reveal(int source, EventIndex event) {
  if (source >= static_cast<int>(shown_.size()) || event < 0) return;
  const TimelineIndex& index = *shown_[static_cast<std::size_t>(source)].index;
  const EventPlace place = index.placeOf(event);
  if (place.track < 0) return;
  const EventRow& row = index.tracks()[static_cast<std::size_t>(place.track)].rows[static_cast<std::size_t>(place.row)];
  const auto start = static_cast<double>(row.start(static_cast<std::size_t>(place.item))), end = static_cast<double>(row.end(static_cast<std::size_t>(place.item)));
  const double width = (end - start) / view_.ns_per_px;
  if (place.row >= kRowsShown && !open_[static_cast<std::size_t>(source)][static_cast<std::size_t>(place.track)]) toggle(source, place.track);
  if (width < 4 || width > view_.width_px * 0.9) {
    const double half = std::max(4.0, (end - start) * 8);
    showSpan((start + end) / 2 - half, (start + end) / 2 + half);
  } else if (start < view_.start_ns || end > view_.end_ns()) {
    view_.start_ns = (start + end) / 2 - view_.ns_per_px * view_.width_px / 2;
  }
  if (const PlacedTrack* at = placed(source, place.track)) {
    const Box box = rowBox(*at, place.row);
    if (box.y0 < axisHeight() || box.y1 > height_px_) scroll_y_ += box.y0 - height_px_ / 2.0;
  }
  clampView();
  changed();
}

void TimelineModel::measure(double begin_ns, double end_ns) {
  measured_ = Span{std::min(begin_ns, end_ns), std::max(begin_ns, end_ns)};
  changed();
}

void TimelineModel::clearMeasure() {
  measured_.reset();
  changed();
}

void TimelineModel::search(const std::string& text) {
  if (text == search_ && (text.empty() || !matches_.empty())) return;
  search_ = text;
  matches_.clear(), match_marks_.clear(), at_match_ = -1;
  changed();
  if (text.empty()) return;
  const std::string wanted = lower(text);
  for (std::size_t s = 0; s < shown_.size(); ++s) {
    const Trace& t = shown_[s].index->trace();
    std::vector<bool> names(t.strings.size()), nodes(t.nodes.size());
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = lower(t.strings.text(static_cast<StringId>(i))).find(wanted) != std::string::npos;
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = names[t.nodes[i].name] || names[t.nodes[i].op] || names[t.nodes[i].module];
    for (std::size_t e = 0; e < t.events.size(); ++e)
      if (names[t.events.name[e]] || (t.events.node[e] != kNoIndex && nodes[static_cast<std::size_t>(t.events.node[e])]))
        matches_.push_back({static_cast<int>(s), static_cast<EventIndex>(e)});
  }
  const auto start = [&](const Match& m) {
    const TimelineIndex& index = *shown_[static_cast<std::size_t>(m.source)].index;
    return index.trace().events.start[static_cast<std::size_t>(m.event)] - index.firstNs();
  };
  std::stable_sort(matches_.begin(), matches_.end(), [&](const Match& a, const Match& b) { return start(a) < start(b); });
  match_marks_ = marksOf(matches_);
}

std::optional<TimelineModel::Match> TimelineModel::step(int direction) {
  if (matches_.empty()) return std::nullopt;
  const auto count = static_cast<int>(matches_.size());
  if (at_match_ < 0) {
    const double from = view_.start_ns;
    int at = 0;
    for (; at < count; ++at) {
      const Match& m = matches_[static_cast<std::size_t>(at)];
      const TimelineIndex& index = *shown_[static_cast<std::size_t>(m.source)].index;
      if (static_cast<double>(index.trace().events.start[static_cast<std::size_t>(m.event)] - index.firstNs()) >= from) break;
    }
    at_match_ = (direction > 0 ? at : at - 1 + count) % count;
  } else {
    at_match_ = (at_match_ + direction + count) % count;
  }
  const Match found = matches_[static_cast<std::size_t>(at_match_)];
  choose({found.source, found.event});
  reveal(found.source, found.event);
  return found;
}

std::string TimelineModel::matchText() const {
  if (search_.empty()) return {};
  if (matches_.empty()) return "no match";
  return at_match_ < 0 ? strf("%zu matches", matches_.size()) : strf("%d of %zu", at_match_ + 1, matches_.size());
}

void TimelineModel::toggle(int source, std::int32_t track) {
  if (source >= static_cast<int>(shown_.size()) || track < 0) return;
  std::vector<bool>& open = open_[static_cast<std::size_t>(source)];
  open[static_cast<std::size_t>(track)] = !open[static_cast<std::size_t>(track)];
  layout();
  clampView();
  changed();
}

}  // namespace spscope::ui
