// SPDX-License-Identifier: Apache-2.0
// A trace made ready to be drawn: tracks of ranks, their events as rows, overlap and memory as tracks of their own, and
// where in them an event, a node, a collective is. Made once, off the window's thread; what is seen of it is
// timeline_model.h's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/collectives.h"
#include "profiler/analyze/memory.h"
#include "profiler/trace/trace.h"
#include "ui/model/timeline/event_row.h"

namespace spscope::ui {

enum class TrackShows : std::uint8_t { kOverlap, kEvents, kMemory };

struct TimelineTrack {
  TrackShows shows = TrackShows::kEvents;
  std::int32_t rank = 0;                          ///< index into Trace::ranks
  trace::TrackIndex track = trace::kNoIndex;      ///< kEvents
  std::string name;                               ///< "compute", "stream 7", "thread 4711", "memory", "overlap"
  std::vector<EventRow> rows;                     ///< kEvents: by lane and depth, ids are events; kOverlap: one, ids count up
  std::vector<EventRow> waiting;                  ///< kEvents: by row, the part of its collectives that waits for a late rank
  MemoryCurve memory;                             ///< kMemory
  std::int64_t events = 0;
};

/// Where an event is drawn.
struct EventPlace {
  std::int32_t track = -1, row = -1, item = -1;   ///< -1: nowhere
};

/// Times of rows are ns since first_ns.
class TimelineIndex {
 public:
  /// `trace` and the results must outlive the index. `comparable`: the ranks are on one clock; otherwise waiting for other
  /// ranks is not told from transfer. Error: cancelled. O(n log n).
  static Result<std::shared_ptr<const TimelineIndex>> build(const trace::Trace& trace, const std::vector<trace::Breakdown>& breakdown,
                                                            const std::vector<trace::MemoryUse>& memory, bool comparable,
                                                            const CancelToken& cancel = {});

  const trace::Trace& trace() const { return *trace_; }
  std::int64_t firstNs() const { return first_; }
  std::int64_t spanNs() const { return last_ - first_; }   ///< at least 1
  const std::vector<TimelineTrack>& tracks() const { return tracks_; }  ///< by rank: overlap, streams, threads, memory
  EventPlace placeOf(trace::EventIndex event) const { return places_[static_cast<std::size_t>(event)]; }
  Paint paintOf(trace::EventIndex event) const { return paints_[static_cast<std::size_t>(event)]; }
  const std::vector<trace::MatchedCollective>& collectives() const { return collectives_; }
  /// The matched collective that an event carries, waits for, or is the op of; -1: none.
  std::int32_t collectiveOf(trace::EventIndex event) const { return collective_of_[static_cast<std::size_t>(event)]; }
  /// "rank 3", "#0" where the file has no number.
  std::string rankName(std::int32_t rank) const;
  /// "4 ranks · overlap 71 % · exposed 18.2 ms · waiting 6.9 ms", sums over the ranks; or why there is nothing to say.
  const std::string& summary() const { return summary_; }
  std::int64_t waitingNs() const { return waiting_ns_; }

 private:
  void paintEvents(const trace::WorkMap& map);
  void placeEvents();
  void addOverlap(std::int32_t rank, const std::vector<trace::Breakdown>& breakdown, const trace::WorkMap& map,
                  const std::vector<std::vector<trace::EventIndex>>& by_lane);
  void addEvents(std::int32_t rank);
  void addMemory(std::int32_t rank, const std::vector<trace::MemoryUse>& memory);
  void matchCollectives(bool comparable);
  void summarise(const std::vector<trace::Breakdown>& breakdown);

  const trace::Trace* trace_ = nullptr;
  std::int64_t first_ = 0, last_ = 1;
  std::vector<TimelineTrack> tracks_;
  std::vector<EventPlace> places_;
  std::vector<Paint> paints_;
  std::vector<trace::MatchedCollective> collectives_;
  std::vector<std::int32_t> collective_of_;
  std::vector<TimelineTrack> event_tracks_;  ///< by track of the trace, while building
  std::vector<std::int64_t> busy_;
  std::int64_t waiting_ns_ = 0;
  std::string summary_;
};

}  // namespace spscope::ui
