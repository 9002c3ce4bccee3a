// SPDX-License-Identifier: Apache-2.0
#include "profiler/import/merge.h"

#include <algorithm>
#include <limits>

namespace spscope::trace {
namespace {

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Adds one trace to another.
class Merger {
 public:
  Merger(Trace& to, const Trace& from) : to_(to), from_(from) {
    strings_.reserve(from.strings.size());
    for (std::size_t i = 0; i < from.strings.size(); ++i)
      strings_.push_back(to.strings.intern(from.strings.text(static_cast<StringId>(i))));
    rank_ = static_cast<std::int32_t>(to.ranks.size());
    event_ = static_cast<EventIndex>(to.events.size());
    node_ = static_cast<NodeIndex>(to.nodes.size());
  }

  void run() {
    append(to_.ranks, from_.ranks);
    tracks();
    events();
    for (MemoryEvent m : from_.memory) {
      m.rank += rank_, m.node = moved(m.node, node_), m.memory_class = strings_[m.memory_class];
      to_.memory.push_back(m);
    }
    for (CounterSample c : from_.counters) {
      c.rank += rank_, c.name = strings_[c.name];
      to_.counters.push_back(c);
    }
    for (Collective c : from_.collectives) {
      c.kind = strings_[c.kind], c.group = strings_[c.group], c.rank += rank_;
      c.event = moved(c.event, event_), c.wait = moved(c.wait, event_);
      to_.collectives.push_back(c);
    }
    for (GraphNode n : from_.nodes) {
      for (StringId* name : {&n.name, &n.op, &n.module, &n.source, &n.stage}) *name = strings_[*name];
      to_.nodes.push_back(n);
    }
    for (const Flow& f : from_.flows) to_.flows.push_back({moved(f.from, event_), moved(f.to, event_), strings_[f.kind]});
    for (const auto& [key, value] : from_.properties) {
      const auto [it, fresh] = to_.properties.emplace(key, value);
      if (!fresh && it->second != value) to_.properties.emplace("rank." + std::to_string(rank_) + "." + key, value);
    }
    to_.problems.append(from_.problems);
  }

 private:
  static std::int32_t moved(std::int32_t index, std::int32_t by) { return index == kNoIndex ? kNoIndex : index + by; }

  void tracks() {
    for (Track t : from_.tracks) {
      t.rank += rank_, t.name = strings_[t.name];
      // Known numbers go through the trace, so that whoever asks for this track later finds it.
      TrackIndex index = static_cast<TrackIndex>(to_.tracks.size());
      if (t.kind == TrackKind::kThread) index = to_.thread(t.rank, t.pid, t.tid);
      else if (t.kind == TrackKind::kStream) index = to_.stream(t.rank, t.device, t.context, t.stream);
      else to_.tracks.emplace_back();
      to_.tracks[static_cast<std::size_t>(index)] = t;
      tracks_.push_back(index);
    }
  }

  void events() {
    Events& to = to_.events;
    const Events& from = from_.events;
    append(to.start, from.start), append(to.end, from.end);
    append(to.correlation, from.correlation), append(to.external, from.external), append(to.bytes, from.bytes);
    append(to.category, from.category), append(to.flags, from.flags);
    const auto launches = static_cast<std::int32_t>(to_.launches.size()), copies = static_cast<std::int32_t>(to_.copies.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      to.name.push_back(strings_[from.name[i]]);
      to.track.push_back(tracks_[static_cast<std::size_t>(from.track[i])]);
      to.node.push_back(moved(from.node[i], node_));
      to.detail.push_back(moved(from.detail[i], from.category[i] == Category::kKernel ? launches : copies));
    }
    append(to_.launches, from_.launches), append(to_.copies, from_.copies);
  }

  Trace& to_;
  const Trace& from_;
  std::vector<StringId> strings_;
  std::vector<TrackIndex> tracks_;
  std::int32_t rank_ = 0;
  EventIndex event_ = 0;
  NodeIndex node_ = 0;
};

}  // namespace

Result<Trace> mergeTraces(std::vector<Trace> traces) {
  if (traces.empty()) return makeError("usage", "no trace was given", Outcome::kUsage);
  std::size_t events = 0;
  for (const Trace& t : traces) events += t.events.size();
  if (events > static_cast<std::size_t>(std::numeric_limits<EventIndex>::max()))
    return makeError("trace-too-large", "the traces hold " + std::to_string(events) + " events together");
  Trace out = std::move(traces.front());
  for (std::size_t i = 1; i < traces.size(); ++i) {
    if (traces[i].format != out.format && out.format.find(traces[i].format) == std::string::npos) out.format += " + " + traces[i].format;
    Merger(out, traces[i]).run();
    traces[i] = Trace();
  }
  return out;
}

}  // namespace spscope::trace
