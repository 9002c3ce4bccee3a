// SPDX-License-Identifier: Apache-2.0
// What holds for every trace that a reader gives back, whatever the file was.
#pragma once

#include "profiler/analyze/analysis.h"
#include "profiler/export/chrome.h"
#include "profiler/trace/trace.h"
#include "tests/fuzz/fuzz_file.h"

namespace spscope::fuzz {

inline void requireSound(Result<trace::Trace> read) {
  if (!read) return requireClear(read.error());
  trace::Trace& t = *read;
  const auto in = [](std::int64_t index, std::size_t size) { return index >= 0 && index < static_cast<std::int64_t>(size); };
  const auto maybe = [&](std::int64_t index, std::size_t size) { return index == trace::kNoIndex || in(index, size); };
  for (std::size_t i = 0; i < t.events.size(); ++i) {
    const trace::Event e = t.event(static_cast<trace::EventIndex>(i));
    require(e.start <= e.end, "an event ends after it starts");
    require(in(e.track, t.tracks.size()) && in(e.name, t.strings.size()) && maybe(e.node, t.nodes.size()), "an event's indices are valid");
    require(maybe(e.detail, e.category == trace::Category::kKernel ? t.launches.size() : t.copies.size()), "an event's detail is there");
  }
  for (const trace::Track& track : t.tracks) require(in(track.rank, t.ranks.size()) && in(track.name, t.strings.size()), "a track's indices are valid");
  for (const trace::Collective& c : t.collectives) require(maybe(c.event, t.events.size()) && maybe(c.wait, t.events.size()) && in(c.rank, t.ranks.size()), "a collective's indices are valid");
  for (const trace::Flow& f : t.flows) require(maybe(f.from, t.events.size()) && maybe(f.to, t.events.size()), "an arrow's ends are valid");
  for (const trace::MemoryEvent& m : t.memory) require(in(m.rank, t.ranks.size()) && maybe(m.node, t.nodes.size()), "an allocation's indices are valid");
  for (const trace::CounterSample& c : t.counters) require(in(c.rank, t.ranks.size()), "a counter's rank is valid");
  // What stands behind the readers believes them: it has to get through as well.
  require(trace::writeChrome(t, ownFolder() + "/exported.json").has_value(), "any trace can be exported");
  require(trace::analyze(t).has_value(), "any trace can be analysed");
}

}  // namespace spscope::fuzz
