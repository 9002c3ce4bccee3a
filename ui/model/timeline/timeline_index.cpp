// SPDX-License-Identifier: Apache-2.0
#include "ui/model/timeline/timeline_index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/strings.h"
#include "profiler/trace/lanes.h"

namespace spscope::ui {

using namespace trace;

namespace {

/// What an op or a kernel computes, from its name.
Paint computePaint(std::string_view name) {
  std::string low(name);
  std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return low.find(word) != std::string::npos; });
  };
  if (has({"attention", "sdpa", "flash", "fmha"})) return Paint::kAttention;
  if (has({"gemm", "linear", "matmul", "addmm", "bmm", "::mm", ".mm", "conv", "cutlass", "einsum"}) || low == "mm") return Paint::kMatmul;
  return Paint::kPointwise;
}

}  // namespace

void TimelineIndex::paintEvents(const WorkMap& map) {
  const Trace& t = *trace_;
  std::vector<std::optional<Paint>> by_name(t.strings.size());
  const auto compute = [&](StringId name) {
    std::optional<Paint>& known = by_name[name];
    if (!known) known = computePaint(t.strings.text(name));
    return *known;
  };
  paints_.resize(t.events.size());
  for (std::size_t i = 0; i < paints_.size(); ++i) {
    const NodeIndex node = t.events.node[i];
    switch (t.events.category[i]) {
      case Category::kOperator: {
        const StringId op = node == kNoIndex ? t.events.name[i] : t.nodes[static_cast<std::size_t>(node)].op;
        paints_[i] = t.strings.text(op).starts_with("sp.") || t.strings.text(op).starts_with("c10d") ? Paint::kTransfer : compute(op);
        break;
      }
      case Category::kKernel:
        paints_[i] = map.work[i] == Work::kCommunication ? Paint::kTransfer : compute(t.events.name[i]);
        break;
      case Category::kMemcpy: case Category::kMemset: paints_[i] = Paint::kCopy; break;
      case Category::kCollective: paints_[i] = Paint::kTransfer; break;
      case Category::kWait: case Category::kSynchronize: paints_[i] = Paint::kWaiting; break;
      case Category::kRuntime: paints_[i] = Paint::kCall; break;
      case Category::kRange: case Category::kDeviceRange: paints_[i] = Paint::kRange; break;
      case Category::kPython: paints_[i] = Paint::kPython; break;
      default: paints_[i] = Paint::kOther;
    }
  }
}

void TimelineIndex::placeEvents() {
  const Trace& t = *trace_;
  const std::vector<EventIndex> order = eventsByStart(t);
  const std::vector<LanePlace> lanes = lanesOf(t, order);
  // Rows of a track: its lanes one below the other, each as deep as it nests.
  std::vector<std::vector<std::int32_t>> depth(t.tracks.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto& of_track = depth[static_cast<std::size_t>(t.events.track[static_cast<std::size_t>(order[i])])];
    const auto lane = static_cast<std::size_t>(lanes[i].lane);
    if (lane >= of_track.size()) of_track.resize(lane + 1);
    of_track[lane] = std::max(of_track[lane], lanes[i].depth + 1);
  }
  event_tracks_.resize(t.tracks.size());
  busy_.resize(t.tracks.size());
  std::vector<std::vector<std::int32_t>> first_row(t.tracks.size());
  for (std::size_t k = 0; k < depth.size(); ++k) {
    std::int32_t rows = 0;
    for (const std::int32_t d : depth[k]) first_row[k].push_back(rows), rows += d;
    event_tracks_[k].rows.resize(static_cast<std::size_t>(rows)), event_tracks_[k].waiting.resize(static_cast<std::size_t>(rows));
  }
  places_.resize(t.events.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto e = static_cast<std::size_t>(order[i]), k = static_cast<std::size_t>(t.events.track[e]);
    const std::int32_t row = first_row[k][static_cast<std::size_t>(lanes[i].lane)] + lanes[i].depth;
    EventRow& into = event_tracks_[k].rows[static_cast<std::size_t>(row)];
    places_[e] = {-1, row, static_cast<std::int32_t>(into.size())};
    into.add(t.events.start[e] - first_, t.events.end[e] - first_, order[i], paints_[e]);
    ++event_tracks_[k].events;
    if (lanes[i].depth == 0) busy_[k] += t.events.end[e] - t.events.start[e];
  }
}

void TimelineIndex::addOverlap(std::int32_t rank, const std::vector<Breakdown>& breakdown, const WorkMap& map,
                               const std::vector<std::vector<EventIndex>>& by_lane) {
  const Trace& t = *trace_;
  for (const Breakdown& row : breakdown) {
    if (row.lane.rank != rank || !row.absent.empty() || row.communication_events == 0) continue;
    std::vector<Interval> all;
    for (std::size_t l = 0; l < map.lanes.size(); ++l) {
      const Lane& lane = map.lanes[l];
      if (lane.rank != rank || lane.device != row.lane.device || lane.host != row.lane.host) continue;
      for (const EventIndex e : by_lane[l])
        if (const auto i = static_cast<std::size_t>(e); map.work[i] == Work::kCommunication) all.push_back({t.events.start[i], t.events.end[i]});
    }
    const Intervals hidden = difference(unionOf(std::move(all)), row.exposed_communication);
    TimelineTrack track;
    track.shows = TrackShows::kOverlap, track.rank = rank, track.name = "overlap";
    track.rows.resize(1);
    std::size_t a = 0, b = 0;
    for (std::int32_t id = 0; a < hidden.size() || b < row.exposed_communication.size(); ++id) {
      const bool is_hidden = b == row.exposed_communication.size() || (a < hidden.size() && hidden[a].start < row.exposed_communication[b].start);
      const Interval& at = is_hidden ? hidden[a++] : row.exposed_communication[b++];
      track.rows[0].add(at.start - first_, at.end - first_, id, is_hidden ? Paint::kOverlapped : Paint::kExposed);
    }
    track.rows[0].finish();
    track.events = static_cast<std::int64_t>(track.rows[0].size());
    tracks_.push_back(std::move(track));
  }
}

void TimelineIndex::addEvents(std::int32_t rank) {
  const Trace& t = *trace_;
  std::vector<std::size_t> mine;
  for (std::size_t k = 0; k < event_tracks_.size(); ++k)
    if (t.tracks[k].rank == rank && event_tracks_[k].events > 0) mine.push_back(k);
  std::stable_sort(mine.begin(), mine.end(), [&](std::size_t a, std::size_t b) {
    const bool stream_a = t.tracks[a].kind == TrackKind::kStream, stream_b = t.tracks[b].kind == TrackKind::kStream;
    return stream_a != stream_b ? stream_a : busy_[a] > busy_[b];
  });
  for (const std::size_t k : mine) {
    TimelineTrack& track = event_tracks_[k];
    const Track& of = t.tracks[k];
    track.rank = rank, track.track = static_cast<TrackIndex>(k);
    track.name = t.strings.text(of.name);
    if (of.kind == TrackKind::kStream && (track.name.empty() || of.stream != kUnknown)) {
      track.name = of.device == kUnknown ? "GPU" : strf("GPU %lld", static_cast<long long>(of.device));
      if (of.stream != kUnknown) track.name += strf(" stream %lld", static_cast<long long>(of.stream));
    } else if (track.name.empty()) {
      track.name = of.tid == kUnknown ? "track" : strf("thread %lld", static_cast<long long>(of.tid));
    }
    for (const EventRow& row : track.rows) {
      for (std::size_t i = 0; i < row.size(); ++i) places_[static_cast<std::size_t>(row.id(i))].track = static_cast<std::int32_t>(tracks_.size());
    }
    for (EventRow& row : track.waiting) row.finish();
    tracks_.push_back(std::move(track));
  }
}

void TimelineIndex::addMemory(std::int32_t rank, const std::vector<MemoryUse>& memory) {
  for (const MemoryUse& use : memory) {
    if (use.rank != rank || use.curve.empty()) continue;
    TimelineTrack track;
    track.shows = TrackShows::kMemory, track.rank = rank;
    track.name = use.device < 0 ? "memory" : strf("GPU %d memory", static_cast<int>(use.device));
    for (const MemoryPoint& p : use.curve) track.memory.add(p.time - first_, p.live);
    track.memory.finish();
    track.events = static_cast<std::int64_t>(use.curve.size());
    tracks_.push_back(std::move(track));
  }
}

void TimelineIndex::matchCollectives(bool comparable) {
  const Trace& t = *trace_;
  collectives_ = trace::matchCollectives(t, comparable);
  collective_of_.assign(t.events.size(), -1);
  struct Wait {
    std::int64_t start, end;
    EventIndex event;
    bool operator<(const Wait& other) const { return start < other.start; }
  };
  std::vector<Wait> waits;
  for (std::size_t c = 0; c < collectives_.size(); ++c) {
    for (const CollectivePart& part : collectives_[c].parts) {
      const Collective& of = t.collectives[static_cast<std::size_t>(part.index)];
      for (const EventIndex event : {of.event, of.wait}) {
        if (event == kNoIndex) continue;
        collective_of_[static_cast<std::size_t>(event)] = static_cast<std::int32_t>(c);
        // The op that issues it encloses it.
        const EventPlace& at = places_[static_cast<std::size_t>(event)];
        for (std::int32_t above = at.row - 1; above >= 0; --above) {
          const EventRow& row = event_tracks_[static_cast<std::size_t>(t.events.track[static_cast<std::size_t>(event)])].rows[static_cast<std::size_t>(above)];
          const std::int64_t start = t.events.start[static_cast<std::size_t>(event)] - first_, end = t.events.end[static_cast<std::size_t>(event)] - first_;
          const std::size_t i = row.at({static_cast<double>(start), 1, 1}, 0);
          if (i == row.size() || row.start(i) > start || row.end(i) < end) continue;
          const auto parent = static_cast<std::size_t>(row.id(i));
          if (t.events.category[parent] == Category::kOperator && paints_[parent] == Paint::kTransfer) collective_of_[parent] = static_cast<std::int32_t>(c);
        }
      }
      if (part.wait_ns == kUnknown || part.wait_ns <= 0 || of.event == kNoIndex) continue;
      waiting_ns_ += part.wait_ns;
      waits.push_back({part.start_ns - first_, part.start_ns - first_ + part.wait_ns, of.event});
    }
  }
  std::sort(waits.begin(), waits.end());
  for (const Wait& w : waits) {
    const auto e = static_cast<std::size_t>(w.event);
    EventRow& row = event_tracks_[static_cast<std::size_t>(t.events.track[e])].waiting[static_cast<std::size_t>(places_[e].row)];
    // Of parts that were started at once the second waits only where the first no longer does.
    const std::int64_t start = row.size() == 0 ? w.start : std::max(w.start, row.end(row.size() - 1));
    if (w.end > start) row.add(start, w.end, w.event, Paint::kWaiting);
  }
}

void TimelineIndex::summarise(const std::vector<Breakdown>& breakdown) {
  std::int64_t communication = 0, exposed = 0;
  for (const Breakdown& row : breakdown)
    if (row.absent.empty()) communication += row.communication_ns, exposed += row.exposed_communication_ns;
  summary_ = strf("%zu %s", trace_->ranks.size(), trace_->ranks.size() == 1 ? "rank" : "ranks");
  if (trace_->events.size() == 0) summary_ += " · no events in this trace";
  else if (communication == 0) summary_ += " · no communication in this run";
  else summary_ += strf(" · overlap %.0f %% · exposed %s · waiting %s", 100 * (1 - static_cast<double>(exposed) / static_cast<double>(communication)), formatNs(exposed).c_str(), formatNs(waiting_ns_).c_str());
}

std::string TimelineIndex::rankName(std::int32_t rank) const {
  const Rank& r = trace_->ranks[static_cast<std::size_t>(rank)];
  return r.number == kUnknown ? strf("#%d", static_cast<int>(rank)) : strf("rank %lld", static_cast<long long>(r.number));
}

Result<std::shared_ptr<const TimelineIndex>> TimelineIndex::build(const Trace& trace, const std::vector<Breakdown>& breakdown,
                                                                  const std::vector<MemoryUse>& memory, bool comparable,
                                                                  const CancelToken& cancel) {
  auto out = std::make_shared<TimelineIndex>();
  out->trace_ = &trace;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t t : trace.events.start) first = std::min(first, t);
  for (const std::int64_t t : trace.events.end) last = std::max(last, t);
  for (const MemoryUse& use : memory)
    for (const MemoryPoint& p : use.curve) first = std::min(first, p.time), last = std::max(last, p.time);
  if (first > last) first = last = 0;
  out->first_ = first, out->last_ = std::max(last, first + 1);
  const WorkMap map = classifyWork(trace);
  SP_TRY(cancel.check());
  out->paintEvents(map);
  out->placeEvents();
  SP_TRY(cancel.check());
  for (TimelineTrack& track : out->event_tracks_)
    for (EventRow& row : track.rows) row.finish();
  out->matchCollectives(comparable);
  SP_TRY(cancel.check());
  const std::vector<std::vector<EventIndex>> by_lane = eventsByLane(map);
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(trace.ranks.size()); ++rank) {
    out->addOverlap(rank, breakdown, map, by_lane);
    out->addEvents(rank);
    out->addMemory(rank, memory);
  }
  out->event_tracks_.clear();
  out->summarise(breakdown);
  return std::shared_ptr<const TimelineIndex>(std::move(out));
}

}  // namespace spscope::ui
