// SPDX-License-Identifier: Apache-2.0
// What can only be said of a Chrome trace when all its events are there.
#include <algorithm>
#include <array>
#include <tuple>

#include "profiler/import/chrome_builder.h"

namespace spscope::trace {

void ChromeBuilder::closeOpenEvents() {
  std::int64_t last = kUnknown;
  const auto close = [&](const std::vector<EventIndex>& stack) {
    for (const EventIndex i : stack) {
      if (last == kUnknown) last = *std::max_element(trace_.events.end.begin(), trace_.events.end.end());
      trace_.events.end[static_cast<std::size_t>(i)] = std::max(last, trace_.events.start[static_cast<std::size_t>(i)]);
      trace_.events.flags[static_cast<std::size_t>(i)] |= kOpenEnded;
    }
  };
  for (const auto& [track, stack] : open_) close(stack);
  for (const auto& [key, stack] : open_async_) close(stack);
}

void ChromeBuilder::resolveFlows() {
  if (flows_.empty()) return;
  const Events& e = trace_.events;
  // Kineto lets an arrow begin and end at the very start of an op; of several at one instant it means the innermost that
  // has a sequence number.
  const auto place = [](const FlowPoint& p) { return std::pair(p.time, p.track); };
  std::sort(flows_.begin(), flows_.end(), [&](const FlowPoint& a, const FlowPoint& b) { return place(a) < place(b); });
  std::vector<std::uint64_t> filter(1 << 10);  // which starts are worth looking up
  const auto bit = [](std::int64_t time) { return static_cast<std::uint64_t>(time) * 0x9e3779b97f4a7c15u >> 48; };
  for (const FlowPoint& p : flows_) filter[bit(p.time) / 64] |= std::uint64_t{1} << (bit(p.time) % 64);
  const auto sequenced = [&](std::size_t i) { return i < sequenced_.size() && sequenced_[i]; };
  for (std::size_t i = 0; i < e.size(); ++i) {
    if ((filter[bit(e.start[i]) / 64] >> (bit(e.start[i]) % 64) & 1) == 0 || e.category[i] == Category::kInstant) continue;
    const std::pair wanted(e.start[i], e.track[i]);
    auto p = std::lower_bound(flows_.begin(), flows_.end(), wanted, [&](const FlowPoint& a, const auto& b) { return place(a) < b; });
    for (; p != flows_.end() && place(*p) == wanted; ++p) {
      const auto better = [&](std::size_t old) {
        if (sequenced(i) != sequenced(old)) return sequenced(i);
        return e.end[i] < e.end[old];
      };
      if (p->event == kNoIndex || better(static_cast<std::size_t>(p->event))) p->event = static_cast<EventIndex>(i);
    }
  }
  // The others: the innermost event around that instant.
  std::vector<FlowPoint*> missing;
  for (FlowPoint& p : flows_)
    if (p.event == kNoIndex) missing.push_back(&p);
  if (!missing.empty()) {
    std::vector<bool> wanted(trace_.tracks.size());
    for (const FlowPoint* p : missing) wanted[static_cast<std::size_t>(p->track)] = true;
    std::vector<EventIndex> order;
    for (std::size_t i = 0; i < e.size(); ++i)
      if (wanted[static_cast<std::size_t>(e.track[i])] && e.category[i] != Category::kInstant) order.push_back(static_cast<EventIndex>(i));
    const auto at = [](EventIndex i) { return static_cast<std::size_t>(i); };
    std::sort(order.begin(), order.end(), [&](EventIndex a, EventIndex b) {
      return std::tuple(e.start[at(a)], -e.end[at(a)], a) < std::tuple(e.start[at(b)], -e.end[at(b)], b);
    });
    std::vector<std::vector<EventIndex>> stacks(trace_.tracks.size());
    std::size_t next = 0;
    for (FlowPoint* p : missing) {  // by time
      for (; next < order.size() && e.start[at(order[next])] <= p->time; ++next) {
        auto& stack = stacks[static_cast<std::size_t>(e.track[at(order[next])])];
        while (!stack.empty() && e.end[at(stack.back())] < e.start[at(order[next])]) stack.pop_back();
        stack.push_back(order[next]);
      }
      auto& stack = stacks[static_cast<std::size_t>(p->track)];
      while (!stack.empty() && e.end[at(stack.back())] < p->time) stack.pop_back();
      if (!stack.empty()) p->event = stack.back();
    }
  }
  const auto step = [](char phase) { return phase == 's' ? 0 : phase == 't' ? 1 : 2; };
  std::sort(flows_.begin(), flows_.end(), [&](const FlowPoint& a, const FlowPoint& b) {
    return std::tuple(a.kind, a.id, a.time, step(a.phase)) < std::tuple(b.kind, b.id, b.time, step(b.phase));
  });
  const FlowPoint* from = nullptr;
  std::int64_t lost = 0;
  for (const FlowPoint& p : flows_) {
    if (from != nullptr && (from->kind != p.kind || from->id != p.id)) ++lost, from = nullptr;
    if (p.phase == 's') {
      lost += from != nullptr;
      from = &p;
      continue;
    }
    if (from == nullptr || from->event == kNoIndex || p.event == kNoIndex) ++lost;
    else trace_.flows.push_back({.from = from->event, .to = p.event, .kind = p.kind});
    from = p.phase == 't' ? &p : nullptr;
  }
  lost += from != nullptr;
  trace_.problems.count(Problem::kLostMetadata, "an arrow without one of its ends", lost);
}

void ChromeBuilder::placeDeviceRanges() {
  for (const auto& [index, place] : device_ranges_) {
    TrackIndex found = kNoIndex;
    for (std::size_t t = 0; t < trace_.tracks.size() && found == kNoIndex; ++t) {
      const Track& track = trace_.tracks[t];
      if (track.rank == place[2] && track.kind == TrackKind::kStream && track.device == place[0] && track.stream == place[1]) found = static_cast<TrackIndex>(t);
    }
    trace_.events.track[static_cast<std::size_t>(index)] = found != kNoIndex ? found : trace_.stream(static_cast<std::int32_t>(place[2]), place[0], kUnknown, place[1]);
  }
}

void ChromeBuilder::nameTracks() {
  for (Track& track : trace_.tracks) {
    const bool stream = track.kind == TrackKind::kStream;
    const std::int64_t pid = stream ? track.device : track.pid, tid = stream ? track.stream : track.tid;
    const auto name = thread_names_.find({pid, tid});
    if (name != thread_names_.end()) track.name = trace_.strings.intern(name->second);
    const auto pid_text = texts_.find(pid), tid_text = texts_.find(tid);
    if (pid_text == texts_.end() && tid_text == texts_.end()) continue;
    const auto part = [&](auto text, std::int64_t number) { return text != texts_.end() ? text->second : number == kUnknown ? std::string() : std::to_string(number); };
    const std::string first = part(pid_text, pid), second = part(tid_text, tid);
    if (track.name == 0) track.name = trace_.strings.intern(first.empty() ? second : second.empty() ? first : first + ": " + second);
    if (stream) continue;
    track.kind = TrackKind::kOther;
    if (pid_text != texts_.end()) track.pid = kUnknown;
    if (tid_text != texts_.end()) track.tid = kUnknown;
  }
  for (const auto* names : {&process_names_, &process_labels_})
    for (const auto& [pid, name] : *names)
      if (!texts_.count(pid)) trace_.properties["process." + std::to_string(pid) + (names == &process_names_ ? ".name" : ".labels")] = name;
}

void ChromeBuilder::dropRepeatedIds() {
  // Traces of 2022 and 2023 write the correlation id a second time as "External id" of calls and device work, where it
  // points at unrelated ops.
  Events& e = trace_.events;
  std::int64_t repeated = 0;
  const auto concerns = [&](std::size_t i) { return (isDeviceWork(e.category[i]) || e.category[i] == Category::kRuntime) && e.external[i] != 0; };
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!concerns(i)) continue;
    if (e.external[i] != e.correlation[i]) return;
    ++repeated;
  }
  if (repeated < 2) return;
  for (std::size_t i = 0; i < e.size(); ++i)
    if (concerns(i)) e.external[i] = 0;
  trace_.problems.count(Problem::kMissingTable, "\"External id\" of calls and device work repeats their correlation: no op is linked to them by it");
}

void ChromeBuilder::addBase(const ChromeHeader& header) {
  const std::int64_t base = header.rank.base_ns;
  if (trace_.ranks.size() == 1) {
    Rank& rank = trace_.ranks[0];
    if (header.rank.number != kUnknown || !own_) rank.number = header.rank.number;
    if (!header.rank.host.empty()) rank.host = header.rank.host;
    rank.world = header.rank.world, rank.backend = header.rank.backend;
  }
  for (Rank& rank : trace_.ranks) rank.base_ns = base;
  if (base == 0) return;
  Events& e = trace_.events;
  for (std::int64_t& t : e.start) t += base;
  for (std::int64_t& t : e.end) t += base;
  for (MemoryEvent& m : trace_.memory) m.time += base;
  for (CounterSample& c : trace_.counters) c.time += base;
  for (Rank& rank : trace_.ranks) {
    if (rank.first_ns != kUnknown) rank.first_ns += base;
    if (rank.last_ns != kUnknown) rank.last_ns += base;
  }
}

void ChromeBuilder::finish(const ChromeHeader& header) {
  for (const auto& [key, value] : header.properties) trace_.properties.emplace(key, value);
  closeOpenEvents();
  placeDeviceRanges();
  resolveFlows();
  nameTracks();
  dropRepeatedIds();
  for (auto* list : {&collectives_, &ranges_})
    for (FoundCollective& found : *list) {
      CollectiveFacts& facts = found.facts;
      if (facts.group.empty()) facts.group = header.only_group;
      if (facts.group.empty() || (facts.group_size != kUnknown && !facts.group_size_at_least)) continue;
      const auto size = header.group_sizes.find(facts.group);
      if (size != header.group_sizes.end()) facts.group_size = size->second, facts.group_size_at_least = false;
    }
  addCollectives(trace_, std::move(collectives_), std::move(ranges_));
  Events& e = trace_.events;
  const std::int64_t first = trace_.ranks[0].first_ns;
  for (std::size_t i = 0; first != kUnknown && i < e.size(); ++i) {
    if (e.start[i] >= first || !isDeviceWork(e.category[i])) continue;
    e.flags[i] |= kEarly;
    trace_.problems.count(Problem::kBeforeCapture, trace_.strings.text(e.name[i]));
  }
  if (header.dropped != 0) {
    trace_.ranks[0].dropped += header.dropped;
    trace_.problems.count(Problem::kDroppedRecords, "Kineto: records outside of its window", header.dropped);
  }
  addBase(header);
}

}  // namespace spscope::trace
