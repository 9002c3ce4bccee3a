// SPDX-License-Identifier: Apache-2.0
// What the tests of the readers share: texts and files read, events found by name.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "profiler/import/import.h"

namespace spscope::trace {

inline std::string dataFile(const std::string& name) { return SPSCOPE_SOURCE_DIR "/tests/data/traces/" + name; }

inline std::string contentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline Result<Trace> readText(std::string_view text, const ImportOptions& options = {}) {
  return importBytes(std::as_bytes(std::span(text.data(), text.size())), "text", options);
}

/// A trace of these events alone.
inline Trace traceOf(const std::string& events, std::size_t block_bytes = 256 << 10) {
  auto trace = readText("{\"traceEvents\": [" + events + "]}", {.block_bytes = block_bytes});
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().format());
  return trace ? std::move(*trace) : Trace();
}

/// The first event of that name; a failed test where there is none.
inline Event eventNamed(const Trace& trace, std::string_view name) {
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (trace.strings.text(trace.events.name[i]) == name) return trace.event(static_cast<EventIndex>(i));
  ADD_FAILURE() << "no event " << name;
  return {};
}
inline std::int64_t countOf(const Trace& trace, Category category, std::int32_t rank = -1) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    count += trace.events.category[i] == category && (rank < 0 || trace.tracks[static_cast<std::size_t>(trace.events.track[i])].rank == rank);
  return count;
}
inline const Track& trackOf(const Trace& trace, const Event& event) { return trace.tracks[static_cast<std::size_t>(event.track)]; }
inline std::string_view textOf(const Trace& trace, StringId id) { return trace.strings.text(id); }

/// Every index points into its column, and every event ends after it starts.
inline void expectSound(const Trace& t) {
  const auto in = [](std::int64_t index, std::size_t size) { return index >= 0 && index < static_cast<std::int64_t>(size); };
  for (std::size_t i = 0; i < t.events.size(); ++i) {
    const Event e = t.event(static_cast<EventIndex>(i));
    ASSERT_LE(e.start, e.end);
    ASSERT_TRUE(in(e.track, t.tracks.size()));
    ASSERT_TRUE(in(e.name, t.strings.size()));
    ASSERT_TRUE(e.node == kNoIndex || in(e.node, t.nodes.size()));
    ASSERT_TRUE(e.detail == kNoIndex || in(e.detail, e.category == Category::kKernel ? t.launches.size() : t.copies.size()));
  }
  for (const Track& track : t.tracks) ASSERT_TRUE(in(track.rank, t.ranks.size()));
  for (const Collective& c : t.collectives) ASSERT_TRUE(in(c.event, t.events.size()) && in(c.rank, t.ranks.size()));
  for (const Flow& f : t.flows) ASSERT_TRUE(in(f.from, t.events.size()) && in(f.to, t.events.size()));
  for (const MemoryEvent& m : t.memory) ASSERT_TRUE(in(m.rank, t.ranks.size()));
}

}  // namespace spscope::trace
