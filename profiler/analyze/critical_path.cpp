// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/critical_path.h"

#include <algorithm>
#include <optional>

#include "core/base/strings.h"
#include "profiler/analyze/host_time.h"
#include "profiler/analyze/intervals.h"
#include "profiler/analyze/launches.h"

namespace spscope::trace {
namespace {

constexpr std::int64_t kReturnsAtOnceNs = 20'000;  // a host wait that short had nothing to wait for
constexpr std::int64_t kThreadPausesNs = 50'000;   // a longer hole in a thread may be another thread's work
constexpr std::int64_t kStartsAfterNs = 10'000;    // device work that starts so soon after another may have waited for it

/// Where the walk stands: device work `event`, or a thread, up to (not beyond) `time`.
struct Place {
  std::int64_t time = 0;
  EventIndex event = kNoIndex;
  TrackIndex thread = kNoIndex;
};

class Walk {
 public:
  Walk(const Trace& trace, const WorkMap& map, const std::vector<MatchedCollective>& collectives)
      : trace_(trace), map_(map), collectives_(collectives), e_(trace.events), links_(linkLaunches(trace)),
        host_(hostTime(trace)), streams_(trace.tracks.size()), by_end_(trace.tracks.size()), at_(e_.size(), kNoIndex),
        collective_(e_.size(), kNoIndex), visited_(e_.size(), false), tracks_of_rank_(trace.ranks.size()),
        sync_(trace.strings.size(), -1) {
    index();
  }

  Result<CriticalPath> run() {
    std::optional<Place> place = end();
    if (!place) return makeError("trace-no-critical-path", "no device work and no host work was recorded");
    path_.end_ns = place->time;
    path_.start_ns = place->time;
    while (place) {
      SP_ASSIGN(place, place->thread != kNoIndex ? onThread(*place) : onDevice(*place));
    }
    std::reverse(path_.steps.begin(), path_.steps.end());
    for (std::size_t i = 0; i < path_.steps.size(); ++i) {
      const PathStep& step = path_.steps[i];
      path_.ns[static_cast<std::size_t>(step.kind)] += step.end_ns - step.start_ns;
      if (step.inferred) ++path_.inferred;
      if (i > 0 && step.rank != path_.steps[i - 1].rank) ++path_.rank_changes;
    }
    return std::move(path_);
  }

 private:
  using Next = Result<std::optional<Place>>;
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::int32_t rankOf(EventIndex i) const { return trace_.tracks[at(e_.track[at(i)])].rank; }

  void index() {
    for (std::size_t t = 0; t < trace_.tracks.size(); ++t) tracks_of_rank_[at(trace_.tracks[t].rank)].push_back(static_cast<TrackIndex>(t));
    for (std::size_t i = 0; i < e_.size(); ++i)
      if (isDeviceWork(e_.category[i])) streams_[at(e_.track[i])].push_back(static_cast<EventIndex>(i));
    for (std::size_t t = 0; t < streams_.size(); ++t) {
      std::vector<EventIndex>& stream = streams_[t];
      std::stable_sort(stream.begin(), stream.end(), [&](EventIndex a, EventIndex b) {
        return e_.start[at(a)] != e_.start[at(b)] ? e_.start[at(a)] < e_.start[at(b)] : e_.end[at(a)] < e_.end[at(b)];
      });
      for (std::size_t i = 0; i < stream.size(); ++i) at_[at(stream[i])] = static_cast<std::int32_t>(i);
      by_end_[t] = stream;
      std::stable_sort(by_end_[t].begin(), by_end_[t].end(), [&](EventIndex a, EventIndex b) { return e_.end[at(a)] < e_.end[at(b)]; });
    }
    for (std::size_t c = 0; c < collectives_.size(); ++c)
      for (const CollectivePart& part : collectives_[c].parts) {
        const Collective& of = trace_.collectives[at(part.index)];
        collective_[at(of.event)] = static_cast<std::int32_t>(c);
        if (of.wait != kNoIndex) collective_[at(of.wait)] = static_cast<std::int32_t>(c);
      }
    flows_ = std::vector<std::pair<EventIndex, EventIndex>>();
    for (const Flow& f : trace_.flows)
      if (f.from != kNoIndex && f.to != kNoIndex) flows_.emplace_back(f.to, f.from);
    std::sort(flows_.begin(), flows_.end());
  }

  /// What ended last, of everything that is work.
  std::optional<Place> end() const {
    std::optional<Place> last;
    const auto take = [&](std::int64_t time, EventIndex event, TrackIndex thread) {
      if (!last || time > last->time) last = Place{time, event, thread};
    };
    for (const auto& stream : by_end_)
      if (!stream.empty()) take(e_.end[at(stream.back())], stream.back(), kNoIndex);
    for (std::size_t t = 0; t < host_.size(); ++t)
      for (auto it = host_[t].rbegin(); it != host_[t].rend(); ++it) {
        if (e_.category[at(it->event)] == Category::kPython || e_.category[at(it->event)] == Category::kOverhead) continue;
        take(it->end, kNoIndex, static_cast<TrackIndex>(t));
        break;
      }
    return last;
  }

  void charge(std::int64_t start, std::int64_t end, EventIndex event, PathKind kind, std::int32_t rank) {
    path_.start_ns = std::min(path_.start_ns, start);
    if (end <= start) return;
    PathStep* next = path_.steps.empty() ? nullptr : &path_.steps.back();
    if (next && next->event == event && next->kind == kind && next->rank == rank && !inferred_) next->start_ns = start;
    else path_.steps.push_back({start, end, event, rank, kind, std::exchange(inferred_, false)});
  }
  void charge(std::int64_t start, std::int64_t end, EventIndex event, PathKind kind) {
    charge(start, end, event, kind, rankOf(event));
  }
  /// A hole in a thread.
  void chargeGap(std::int64_t start, std::int64_t end, std::int32_t rank) {
    charge(start, end, path_.steps.empty() ? kNoIndex : path_.steps.back().event, PathKind::kGap, rank);
  }

  /// The latest end of device work of a rank, of end at most `time`, on another stream than `but`.
  EventIndex endedBefore(std::int32_t rank, std::int64_t time, TrackIndex but) const {
    EventIndex best = kNoIndex;
    for (const TrackIndex t : tracks_of_rank_[at(rank)]) {
      if (t == but || by_end_[at(t)].empty()) continue;
      const auto& ends = by_end_[at(t)];
      const auto it = std::upper_bound(ends.begin(), ends.end(), time, [&](std::int64_t x, EventIndex i) { return x < e_.end[at(i)]; });
      if (it == ends.begin()) continue;
      if (best == kNoIndex || e_.end[at(*std::prev(it))] > e_.end[at(best)]) best = *std::prev(it);
    }
    return best;
  }

  /// The last stretch of a thread that starts before `time`; nullptr: none.
  const Stretch* stretchBefore(TrackIndex thread, std::int64_t time) const {
    const auto& all = host_[at(thread)];
    const auto it = std::lower_bound(all.begin(), all.end(), time, [](const Stretch& s, std::int64_t x) { return s.start < x; });
    return it == all.begin() ? nullptr : &*std::prev(it);
  }

  /// The thread of a rank, other than `but`, that worked last before `time`.
  std::optional<Place> workedBefore(std::int32_t rank, std::int64_t time, TrackIndex but) const {
    std::optional<Place> best;
    for (const TrackIndex t : tracks_of_rank_[at(rank)]) {
      if (t == but || host_[at(t)].empty()) continue;
      const Stretch* s = stretchBefore(t, time);
      if (!s || trace_.strings.text(e_.name[at(s->event)]).find("Query") != std::string_view::npos) continue;  // a watchdog's polling
      if (!best || std::min(s->end, time) > best->time) best = Place{std::min(s->end, time), kNoIndex, t};
    }
    return best;
  }

  /// A Python frame called wait in which a host collective on another thread came to its end: where PyTorch's Gloo works on
  /// a thread of its own, nothing else tells that the caller stood still for it.
  std::optional<Place> awaitedCollective(const Stretch& stretch, TrackIndex thread, std::int64_t end) const {
    const auto at_event = at(stretch.event);
    if (e_.category[at_event] != Category::kPython || trace_.strings.text(e_.name[at_event]).find("wait") == std::string_view::npos) return std::nullopt;
    std::optional<Place> best;
    for (const TrackIndex t : tracks_of_rank_[at(trace_.tracks[at(thread)].rank)]) {
      const Stretch* s = t == thread || host_[at(t)].empty() ? nullptr : stretchBefore(t, end);
      if (!s || e_.category[at(s->event)] != Category::kCollective) continue;
      const std::int64_t done = std::min(s->end, end);
      if (done > stretch.start && (!best || done > best->time)) best = Place{done, kNoIndex, t};
    }
    return best;
  }

  bool synchronizes(EventIndex i) {
    if (e_.category[at(i)] == Category::kSynchronize) return true;
    if (e_.category[at(i)] != Category::kRuntime) return false;
    std::int8_t& known = sync_[e_.name[at(i)]];
    if (known < 0) known = trace_.strings.text(e_.name[at(i)]).find("Synchronize") != std::string_view::npos ? 1 : 0;
    return known == 1;
  }

  std::string named(EventIndex event) const {
    const Rank& rank = trace_.ranks[at(rankOf(event))];
    return "\"" + std::string(trace_.strings.text(e_.name[at(event)])) + "\" of rank " +
           (rank.number == kUnknown ? "#" + std::to_string(rankOf(event)) : std::to_string(rank.number));
  }
  Error skew(EventIndex event, EventIndex on) const {
    return makeError("trace-no-critical-path",
                     named(event) + " ends " + formatNs(e_.start[at(on)] - e_.end[at(event)]) + " before " + named(on) +
                         " starts, which it depends on: the clocks do not fit");
  }
  Status enter(EventIndex event) {
    if (visited_[at(event)])
      return makeError("trace-no-critical-path", "the dependences form a cycle through " + named(event));
    visited_[at(event)] = true;
    return {};
  }

  /// The latest source of the flows into an event, as the place where it was complete; at most `time`.
  Result<std::optional<Place>> flowInto(EventIndex event, std::int64_t time) const {
    std::optional<Place> best;
    for (auto it = std::lower_bound(flows_.begin(), flows_.end(), std::pair{event, EventIndex{0}}); it != flows_.end() && it->first == event; ++it) {
      const EventIndex from = it->second;
      if (e_.start[at(from)] > e_.end[at(event)]) return skew(event, from);
      const bool device = isDeviceWork(e_.category[at(from)]);
      if (!device && !isDeviceWork(e_.category[at(event)]) && e_.start[at(from)] > e_.start[at(event)])  // one clock
        return makeError("trace-no-critical-path", named(event) + " starts " +
                                                       formatNs(e_.start[at(from)] - e_.start[at(event)]) + " before " +
                                                       named(from) + ", which it depends on: a cycle, or clocks that do not fit");
      const std::int64_t ready = std::min(e_.end[at(from)], time);
      if (best && best->time >= ready) continue;
      best = Place{ready, device ? from : kNoIndex, device ? kNoIndex : e_.track[at(from)]};
    }
    return best;
  }

  Next onDevice(const Place& here) {
    const EventIndex event = here.event;
    SP_TRY(enter(event));
    const std::int64_t end = std::min(here.time, e_.end[at(event)]);
    std::int64_t start = std::min(e_.start[at(event)], end);
    const PathKind kind = map_.work[at(event)] == Work::kCommunication ? PathKind::kCommunication
                          : map_.work[at(event)] == Work::kMemory      ? PathKind::kMemory
                                                                       : PathKind::kCompute;
    if (const std::int32_t c = collective_[at(event)]; c != kNoIndex) {
      const MatchedCollective& all = collectives_[at(c)];
      if (all.why_not.empty() && all.last_rank != kNoIndex && all.last_rank != rankOf(event) && all.last_arrival_ns > start && all.last_arrival_ns < end) {
        charge(all.last_arrival_ns, end, event, kind);
        return std::optional(arrivalOfLast(all, rankOf(event)));
      }
    }
    charge(start, end, event, kind);

    const TrackIndex stream = e_.track[at(event)];
    const std::int32_t position = at_[at(event)];
    const EventIndex before = position > 0 ? streams_[at(stream)][at(position - 1)] : kNoIndex;
    const std::int64_t before_end = before == kNoIndex ? std::numeric_limits<std::int64_t>::min() : std::min(e_.end[at(before)], start);
    const EventIndex call = links_.launch[at(event)];
    const std::int64_t called = call == kNoIndex ? std::numeric_limits<std::int64_t>::min() : e_.start[at(call)];
    SP_ASSIGN(const std::optional<Place> flow, flowInto(event, start));
    if (flow && flow->time >= std::max(before_end, std::min(called, start))) {
      charge(flow->time, start, event, PathKind::kGap);
      return std::optional(*flow);
    }
    const std::int64_t reason = std::max(before_end, called);
    if (reason < start - kStartsAfterNs) {  // late, for nothing that was recorded
      const EventIndex other = endedBefore(rankOf(event), start, stream);
      if (other != kNoIndex && !visited_[at(other)] && e_.end[at(other)] > reason && e_.end[at(other)] >= start - kStartsAfterNs) {
        charge(e_.end[at(other)], start, event, PathKind::kGap);
        inferred_ = true;
        return std::optional(Place{e_.end[at(other)], other, kNoIndex});
      }
    }
    if (call != kNoIndex && (before == kNoIndex || called >= before_end)) {
      if (called > e_.end[at(event)]) return skew(event, call);
      const std::int64_t from = std::min(called, start);
      charge(from, start, event, PathKind::kLaunch);
      return std::optional(Place{from, kNoIndex, e_.track[at(call)]});
    }
    if (before == kNoIndex) return std::optional<Place>();
    charge(before_end, start, event, PathKind::kGap);
    return std::optional(Place{before_end, before, kNoIndex});
  }

  /// Where the last rank was when it arrived; `rank` itself, where it arrived at that instant too.
  Place arrivalOfLast(const MatchedCollective& c, std::int32_t rank) const {
    const auto self = std::find_if(c.parts.begin(), c.parts.end(), [&](const CollectivePart& p) { return p.rank == rank; });
    const std::int32_t last = self != c.parts.end() && self->start_ns == c.last_arrival_ns ? rank : c.last_rank;
    for (const CollectivePart& part : c.parts) {
      if (part.rank != last) continue;
      const Collective& of = trace_.collectives[at(part.index)];
      if (isDeviceWork(e_.category[at(of.event)])) return {c.last_arrival_ns, of.event, kNoIndex};
      // The thread that waits is the one that started it; a collective may be drawn on a track of its own.
      return {c.last_arrival_ns, kNoIndex, e_.track[at(of.wait != kNoIndex ? of.wait : of.event)]};
    }
    return {};
  }

  Next onThread(const Place& here) {
    const Stretch* stretch = stretchBefore(here.thread, here.time);
    const std::int32_t rank = trace_.tracks[at(here.thread)].rank;
    if (!stretch || stretch->end < here.time - kThreadPausesNs) {
      const auto other = workedBefore(rank, here.time, here.thread);
      if (other && (!stretch || other->time > stretch->end)) {
        chargeGap(other->time, here.time, rank);
        inferred_ = true;
        return std::optional(*other);
      }
      if (!stretch) return std::optional<Place>();
    }
    const EventIndex event = stretch->event;
    if (stretch->end < here.time) chargeGap(stretch->end, here.time, rank);
    const std::int64_t end = std::min(stretch->end, here.time);
    const std::int64_t start = stretch->start;
    const Place before{start, kNoIndex, here.thread};
    const Category category = e_.category[at(event)];

    if (category == Category::kWait || category == Category::kCollective) {
      const bool blocked = end - start > kReturnsAtOnceNs;
      const std::int32_t c = collective_[at(event)];
      const MatchedCollective* all = c == kNoIndex ? nullptr : &collectives_[at(c)];
      if (blocked && all && all->why_not.empty() && all->last_arrival_ns < end) {
        charge(all->last_arrival_ns, end, event, PathKind::kCommunication);
        return std::optional(arrivalOfLast(*all, rank));
      }
      charge(start, end, event, blocked ? PathKind::kCommunication : PathKind::kHost);
      return std::optional(before);
    }
    if (synchronizes(event)) {
      const EventIndex awaited = endedBefore(rank, end, kNoIndex);
      if (awaited != kNoIndex && !visited_[at(awaited)] && e_.end[at(awaited)] > start) {
        charge(e_.end[at(awaited)], end, event, PathKind::kHost);
        return std::optional(Place{e_.end[at(awaited)], awaited, kNoIndex});
      }
    }
    for (EventIndex work = links_.first_work[at(event)]; work != kNoIndex; work = links_.next_work[at(work)]) {
      const bool copy = e_.category[at(work)] == Category::kMemcpy;
      if (!copy || e_.end[at(work)] <= start || e_.end[at(work)] > end || visited_[at(work)]) continue;
      charge(e_.end[at(work)], end, event, PathKind::kHost);  // a copy that blocks its caller
      return std::optional(Place{e_.end[at(work)], work, kNoIndex});
    }
    if (const auto done = awaitedCollective(*stretch, here.thread, end)) {
      charge(done->time, end, event, PathKind::kHost);
      inferred_ = true;
      return std::optional(*done);
    }
    charge(start, end, event, map_.work[at(event)] == Work::kCompute ? PathKind::kCompute : PathKind::kHost);
    if (start == e_.start[at(event)]) {
      SP_ASSIGN(const std::optional<Place> flow, flowInto(event, start));
      const Stretch* own = stretchBefore(here.thread, start);
      if (flow && (!own || flow->time > own->end)) {
        charge(flow->time, start, event, PathKind::kGap);
        return std::optional(*flow);
      }
    }
    return std::optional(before);
  }

  const Trace& trace_;
  const WorkMap& map_;
  const std::vector<MatchedCollective>& collectives_;
  const Events& e_;
  const LaunchLinks links_;
  const std::vector<std::vector<Stretch>> host_;  // by track
  std::vector<std::vector<EventIndex>> streams_;  // by track: device work in the order of its start
  std::vector<std::vector<EventIndex>> by_end_;   // the same, in the order of its end
  std::vector<std::int32_t> at_;                  // by event: its place in streams_
  std::vector<std::int32_t> collective_;          // by event: index into collectives_
  std::vector<bool> visited_;
  std::vector<std::vector<TrackIndex>> tracks_of_rank_;
  std::vector<std::int8_t> sync_;                 // by name: whether it is a synchronisation
  std::vector<std::pair<EventIndex, EventIndex>> flows_;  // (to, from)
  CriticalPath path_;
  bool inferred_ = false;
};

}  // namespace

std::string_view nameOf(PathKind kind) {
  static constexpr std::array<std::string_view, kPathKinds> kNames{"compute", "communication", "memory", "launch", "host", "gap"};
  return kNames[static_cast<std::size_t>(kind)];
}

Result<CriticalPath> criticalPath(const Trace& trace, const WorkMap& map, const std::vector<MatchedCollective>& collectives,
                                  bool comparable) {
  if (trace.ranks.size() > 1 && !comparable) return makeError("trace-no-critical-path", "the ranks are not on one clock");
  return Walk(trace, map, collectives).run();
}

std::int64_t exposedOnPath(const CriticalPath& path, std::int32_t rank, const Intervals& exposed) {
  std::vector<Interval> steps;
  for (const PathStep& step : path.steps)
    if (step.rank == rank && step.kind == PathKind::kCommunication) steps.push_back({step.start_ns, step.end_ns});
  return lengthOf(intersection(unionOf(std::move(steps)), exposed));
}

}  // namespace spscope::trace
