// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/bounds.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "profiler/trace/trace.h"

namespace spscope::trace {
namespace {

__extension__ using Wide = __int128;

class Bounds {
 public:
  explicit Bounds(Trace& trace) : trace_(trace) {}

  void times() {
    Events& e = trace_.events;
    for (std::size_t i = 0; i < e.size(); ++i) {
      const bool moved = time(e.start[i]) | time(e.end[i]);
      if (moved) e.flags[i] |= kRepaired;
    }
    for (MemoryEvent& m : trace_.memory) time(m.time);
    for (CounterSample& c : trace_.counters) time(c.time);
    for (Rank& r : trace_.ranks) {
      for (std::int64_t* known : {&r.first_ns, &r.last_ns, &r.barrier_ns})
        if (*known != kUnknown) time(*known);
      for (std::int64_t* value : {&r.base_ns, &r.clock.offset_ns, &r.clock.reference_ns}) time(*value);
      if (!(std::abs(r.clock.drift_ppb) < 1e9)) r.clock.drift_ppb = 0, count("drift of a clock");
    }
  }

  void durations() {
    Events& e = trace_.events;
    Wide sum = 0;
    for (std::size_t i = 0; i < e.size(); ++i) sum += e.end[i] - e.start[i];
    if (sum <= kLargestSum) return;
    const std::int64_t most = share(e.size());
    for (std::size_t i = 0; i < e.size(); ++i) {
      if (e.end[i] - e.start[i] <= most) continue;
      e.end[i] = e.start[i], e.flags[i] |= kRepaired;
      count("duration of event " + std::to_string(i + 1));
    }
  }

  void sizes() {
    for (MemoryEvent& m : trace_.memory)  // the one size that is never unknown
      if (m.bytes == kUnknown) m.bytes = 0, count("bytes of an allocation");
    column(trace_.events.bytes, [](std::int64_t& v) -> std::int64_t& { return v; }, kUnknown, "bytes of an event");
    column(trace_.collectives, [](Collective& c) -> std::int64_t& { return c.bytes; }, kUnknown, "bytes of a collective");
    column(trace_.collectives, [](Collective& c) -> std::int64_t& { return c.group_size; }, kUnknown, "size of a group");
    column(trace_.memory, [](MemoryEvent& m) -> std::int64_t& { return m.bytes; }, 0, "bytes of an allocation");
    column(trace_.memory, [](MemoryEvent& m) -> std::int64_t& { return m.live; }, kUnknown, "live bytes");
    column(trace_.memory, [](MemoryEvent& m) -> std::int64_t& { return m.reserved; }, kUnknown, "reserved bytes");
    column(trace_.nodes, [](GraphNode& n) -> std::int64_t& { return n.flops; }, kUnknown, "FLOPs of a node");
    column(trace_.nodes, [](GraphNode& n) -> std::int64_t& { return n.predicted_ns; }, kUnknown, "predicted time of a node");
    column(trace_.ranks, [](Rank& r) -> std::int64_t& { return r.dropped; }, 0, "dropped events of a rank");
    column(trace_.ranks, [](Rank& r) -> std::int64_t& { return r.clock.residual_ns; }, kUnknown, "residual of a clock");
  }

 private:
  void count(std::string_view where) { trace_.problems.count(Problem::kOutOfRange, where); }
  static std::int64_t share(std::size_t rows) { return kLargestSum / static_cast<std::int64_t>(std::max<std::size_t>(rows, 1)); }

  bool time(std::int64_t& value) {
    if (value >= -kFarthestTime && value <= kFarthestTime) return false;
    value = std::clamp(value, -kFarthestTime, kFarthestTime);
    count("a time");
    return true;
  }

  template <typename Rows, typename Get>
  void column(Rows& rows, Get get, std::int64_t replacement, std::string_view what) {
    const auto size = [](std::int64_t value) -> Wide { return value == kUnknown ? Wide{0} : value < 0 ? -Wide{value} : Wide{value}; };
    Wide sum = 0;
    for (auto& row : rows) sum += size(get(row));
    if (sum <= kLargestSum) return;
    const std::int64_t most = share(rows.size());
    for (auto& row : rows)
      if (size(get(row)) > most) get(row) = replacement, count(what);
  }

  Trace& trace_;
};

}  // namespace

void keepInBounds(Trace& trace) {
  Bounds bounds(trace);
  bounds.times();
  bounds.durations();
  bounds.sizes();
}

}  // namespace spscope::trace
