// SPDX-License-Identifier: Apache-2.0
// What a timeline says in words: tooltips, and figures of the measured span or of the chosen event.
#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "ui/model/timeline/timeline_model.h"

namespace spscope::ui {

using namespace trace;

namespace {

constexpr std::size_t kNames = 10;

std::string whole(double ns) { return formatNs(std::llround(ns)); }

void addSums(Panel& panel, const std::string& heading, const std::vector<SumRow>& rows, std::size_t most) {
  panel.rows.push_back({heading, "", -1, {}, true});
  const double longest = rows.empty() ? 1 : std::max(1.0, static_cast<double>(rows.front().total_ns));
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i)
    panel.rows.push_back({strf("%s ×%lld", rows[i].name.c_str(), static_cast<long long>(rows[i].count)), formatNs(rows[i].total_ns),
                          static_cast<double>(rows[i].total_ns) / longest, rows[i].paint, false});
  if (rows.size() > most) panel.rows.push_back({strf("%zu more", rows.size() - most), "", -1, {}, false});
}

}  // namespace

std::vector<std::string> TimelineModel::describe(const TimelineHit& hit) const {
  if (hit.track < 0 || hit.source >= static_cast<int>(shown_.size())) return {};
  const TimelineIndex& index = *shown_[static_cast<std::size_t>(hit.source)].index;
  const TimelineTrack& track = index.tracks()[static_cast<std::size_t>(hit.track)];
  const Trace& t = index.trace();
  if (hit.gutter) {
    std::vector<std::string> out{index.rankName(track.rank) + " · " + track.name};
    if (track.shows == TrackShows::kEvents) out.push_back(strf("%lld events in %zu rows", static_cast<long long>(track.events), track.rows.size()));
    if (const PlacedTrack* at = placed(hit.source, hit.track); at && track.rows.size() > 4)
      out.push_back(static_cast<std::size_t>(at->rows) < track.rows.size() ? "click to show all rows" : "click to show fewer rows");
    return out;
  }
  if (track.shows == TrackShows::kMemory)
    return {index.rankName(track.rank) + " · " + track.name, formatBytes(track.memory.at(std::llround(hit.time_ns))) + " live at " + whole(hit.time_ns),
            "peak " + formatBytes(track.memory.peak()) + " at " + formatNs(track.memory.peakTime())};
  if (track.shows == TrackShows::kOverlap) {
    const EventRow& row = track.rows[0];
    const std::size_t i = row.at(view_, view_.xOf(hit.time_ns));
    if (i == row.size()) return {};
    return {std::string(nameOf(row.paint(i))), formatNs(row.end(i) - row.start(i)) + " at " + formatNs(row.start(i))};
  }
  if (hit.event == kNoIndex) return {};
  const auto e = static_cast<std::size_t>(hit.event);
  std::vector<std::string> out{std::string(t.strings.text(t.events.name[e]))};
  out.push_back(std::string(nameOf(t.events.category[e])) + " · " + formatNs(t.events.end[e] - t.events.start[e]) + " at " + formatNs(t.events.start[e] - index.firstNs()));
  if (t.events.bytes[e] != kUnknown) out.push_back(formatBytes(t.events.bytes[e]));
  if (t.events.node[e] != kNoIndex) {
    const GraphNode& n = t.nodes[static_cast<std::size_t>(t.events.node[e])];
    std::string node(t.strings.text(n.name));
    if (n.op != 0) node += " = " + std::string(t.strings.text(n.op));
    if (node != out[0]) out.push_back(node);
    for (const StringId part : {n.module, n.source})
      if (part != 0) out.emplace_back(t.strings.text(part));
    if (n.phase != Phase::kUnknownPhase) out.emplace_back(nameOf(n.phase));
  }
  if (const std::int32_t c = index.collectiveOf(hit.event); c >= 0) {
    const MatchedCollective& m = index.collectives()[static_cast<std::size_t>(c)];
    std::string line = strf("%s of %zu ranks", std::string(t.strings.text(m.kind)).c_str(), m.parts.size());
    if (m.last_rank != kNoIndex) line += ", the last to come: " + index.rankName(m.last_rank);
    out.push_back(line);
    for (const CollectivePart& part : m.parts)
      if (part.rank == track.rank && part.wait_ns != kUnknown) out.push_back("waiting " + formatNs(part.wait_ns) + ", transfer " + formatNs(part.transfer_ns));
  }
  if (t.events.flags[e] & kImpossible) out.emplace_back("its duration cannot be: it runs into what follows");
  if (t.events.flags[e] & kOpenEnded) out.emplace_back("its end was not recorded");
  return out;
}

const Panel& TimelineModel::panel() const {
  if (panel_stale_) fillPanel();
  return panel_;
}

void TimelineModel::fillPanel() const {
  panel_stale_ = false;
  panel_ = {};
  if (measured_ && drag_ == Drag::kNone) {
    for (const TimelineShown& shown : shown_) {
      const SpanSums sums = sumsOf(*shown.index, std::llround(measured_->begin_ns), std::llround(measured_->end_ns));
      const std::string whose = shown_.size() > 1 ? shown.label + ": " : "";
      panel_.rows.push_back({whose + "span of " + whole(measured_->end_ns - measured_->begin_ns), strf("%lld events", static_cast<long long>(sums.events)), -1, {}, true});
      addSums(panel_, "by kind", sums.by_category, 20);
      addSums(panel_, "by name", sums.by_name, kNames);
    }
    return;
  }
  if (chosen_.event == kNoIndex || shown_.empty()) return;
  const TimelineIndex& index = *shown_[static_cast<std::size_t>(chosen_.source)].index;
  const Trace& t = index.trace();
  const auto e = static_cast<std::size_t>(chosen_.event);
  panel_.rows.push_back({std::string(t.strings.text(t.events.name[e])), "", -1, {}, true});
  const auto row = [&](std::string left, std::string right) { panel_.rows.push_back({std::move(left), std::move(right), -1, {}, false}); };
  row("this one", formatNs(t.events.end[e] - t.events.start[e]));
  const NameStatistics all = statisticsOfName(index, chosen_.event);
  row("of this name", strf("%lld", static_cast<long long>(all.durations.count)));
  row("together", formatNs(all.total_ns));
  row("mean", whole(all.durations.mean));
  row("median", whole(all.durations.median));
  row("least / most", whole(all.durations.min) + " / " + whole(all.durations.max));
  if (all.durations.deviation) row("deviation", whole(*all.durations.deviation));
  panel_.histogram = all.histogram;
  panel_.low = whole(all.durations.min), panel_.high = whole(all.durations.max);
  const std::int32_t followed = index.collectiveOf(chosen_.event);
  if (followed < 0) return;
  const MatchedCollective& m = index.collectives()[static_cast<std::size_t>(followed)];
  panel_.rows.push_back({std::string(t.strings.text(m.kind)) + " on all ranks", m.bytes == kUnknown ? "" : formatBytes(m.bytes), -1, {}, true});
  std::int64_t most = 1;
  for (const CollectivePart& part : m.parts) most = std::max(most, part.wait_ns);
  for (const CollectivePart& part : m.parts) {
    if (part.wait_ns == kUnknown) row(index.rankName(part.rank), formatNs(part.end_ns - part.start_ns));
    else panel_.rows.push_back({index.rankName(part.rank) + " waits", formatNs(part.wait_ns), static_cast<double>(part.wait_ns) / static_cast<double>(most), Paint::kWaiting, false});
  }
  if (!m.why_not.empty()) row(m.why_not, "");
}

}  // namespace spscope::ui
