// SPDX-License-Identifier: Apache-2.0
// Traces that hold everything a trace can hold, valid and made from a seed; and what differs between two traces.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "profiler/trace/trace.h"

namespace spscope::trace {

struct RandomTrace {
  explicit RandomTrace(std::uint64_t seed) : random(seed) {}

  std::mt19937_64 random;
  bool plain_names = false;  ///< none that a careless CSV writer breaks
  std::int64_t upTo(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1)); }
  bool oneIn(int n) { return upTo(n - 1) == 0; }
  std::int64_t known(std::int64_t most) { return oneIn(4) ? kUnknown : upTo(most); }

  /// `device`: kernels and copies too, as on a machine with GPUs. Events overlap freely.
  Trace make(int events, bool device = true) {
    Trace t;
    t.format = oneIn(2) ? "spscope" : "kineto";
    const auto text = [&] {
      static const char* const kTexts[] = {"", "aten::mm", "void k<int, 4>(float*)", "ncclDevKernel_SendRecv", "a\"b\\c\nd\x01" "e", "μ → ü", "%mm_3", "<b>&amp;'", "step 1", "Stream Wait Event", "cudaLaunchKernel", "cuLaunchKernel"};
      const char* chosen = kTexts[upTo(std::size(kTexts) - 1)];
      if (plain_names && std::string_view(chosen).find_first_of("\"\n") != std::string_view::npos) chosen = "plain";
      return t.strings.intern(chosen + (oneIn(3) ? std::to_string(upTo(9)) : std::string()));
    };
    const std::int64_t base = 1795800000000000000 + upTo(1000000000);
    for (int r = static_cast<int>(upTo(2)); r >= 0; --r) {
      Rank rank;
      rank.number = known(100), rank.world = known(8), rank.file = "rank.json", rank.host = oneIn(2) ? "" : "node-1", rank.backend = "gloo", rank.pid = oneIn(3) ? kUnknown : 4711;
      rank.base_ns = upTo(1) * base, rank.fractional_us = oneIn(2), rank.first_ns = known(base), rank.last_ns = known(base), rank.barrier_ns = known(base), rank.dropped = upTo(3);
      rank.clock = {.method = oneIn(2) ? "none" : "start-barrier", .offset_ns = upTo(1000) - 500, .reference_ns = base, .drift_ppb = static_cast<double>(upTo(4000)) / 7 - 100, .residual_ns = known(99)};
      t.ranks.push_back(rank);
    }
    const auto rank = [&] { return static_cast<std::int32_t>(upTo(static_cast<std::int64_t>(t.ranks.size()) - 1)); };
    for (int i = 0; i < 8; ++i) {
      const TrackIndex track = oneIn(2) && device ? t.stream(rank(), upTo(1), known(3), upTo(9)) : t.thread(rank(), known(5000), oneIn(5) ? 1LL << 45 : upTo(6000));
      t.tracks[static_cast<std::size_t>(track)].name = text();
    }
    t.tracks.push_back({.rank = rank(), .kind = TrackKind::kOther, .name = text()});
    for (int i = 0; i < 5; ++i) {
      const auto small = [&] { return static_cast<std::int32_t>(upTo(1024)) - 1; };
      t.launches.push_back({.grid = {small() + 1, 1, 1}, .block = {small() + 1, 2, 1}, .registers = small(), .static_shared = small(), .dynamic_shared = small(), .graph_node = oneIn(2) ? 0 : small() + 1, .shared = small()});
      t.copies.push_back({.copy_kind = static_cast<std::uint8_t>(upTo(10)), .source_kind = static_cast<std::uint8_t>(upTo(7)), .target_kind = static_cast<std::uint8_t>(upTo(7)), .value = known(255)});
      t.nodes.push_back({.id = upTo(5000), .name = text(), .op = text(), .module = text(), .source = text(), .stage = text(), .phase = static_cast<Phase>(upTo(4)), .flops = known(1LL << 40), .predicted_ns = known(100000)});
    }
    std::vector<TrackIndex> threads, streams;
    for (std::size_t i = 0; i < t.tracks.size(); ++i) (t.tracks[i].kind == TrackKind::kStream ? streams : threads).push_back(static_cast<TrackIndex>(i));
    for (int i = 0; i < events; ++i) {
      Event e;
      do e.category = static_cast<Category>(upTo(kCategories - 1));
      while (!device && (isDeviceWork(e.category) || e.category == Category::kRuntime || e.category == Category::kDeviceRange));
      const auto& tracks = isDeviceWork(e.category) && !streams.empty() ? streams : threads;
      e.track = tracks[static_cast<std::size_t>(upTo(static_cast<std::int64_t>(tracks.size()) - 1))];
      e.start = base + upTo(1000000);
      e.end = e.category == Category::kInstant ? e.start : e.start + (oneIn(10) ? 0 : upTo(oneIn(3) ? 200000 : 5000));
      e.correlation = oneIn(3) ? 0 : oneIn(9) ? 1LL << 60 : upTo(50);
      e.external = oneIn(3) ? 0 : upTo(1LL << 40);
      e.bytes = known(1LL << 33);
      e.name = text();
      if (oneIn(2)) e.node = static_cast<NodeIndex>(upTo(4));
      if (isDeviceWork(e.category) && !oneIn(4)) e.detail = static_cast<std::int32_t>(upTo(4));
      e.flags = oneIn(3) ? static_cast<std::uint8_t>(upTo(7)) : 0;
      t.add(e);
    }
    const auto event = [&] { return events == 0 || oneIn(4) ? kNoIndex : static_cast<EventIndex>(upTo(events - 1)); };
    for (int i = 0; i < events / 8; ++i) {
      t.collectives.push_back({.kind = text(), .group = text(), .sequence = known(9), .sequence_by_order = oneIn(2), .bytes = known(1 << 20), .group_size = known(64), .group_size_at_least = oneIn(2), .rank = rank(), .event = event(), .wait = event()});
      t.memory.push_back({.time = base + upTo(1000000), .bytes = upTo(4096) - 2048, .address = known(1LL << 47), .live = known(1LL << 30), .reserved = known(1LL << 31),
                          .node = oneIn(2) ? kNoIndex : static_cast<NodeIndex>(upTo(4)), .rank = rank(), .device = static_cast<std::int32_t>(upTo(2)) - 1, .memory_class = text()});
      t.counters.push_back({.time = base + upTo(1000000), .value = static_cast<double>(upTo(1000)) / 3, .name = text(), .rank = rank()});
      t.flows.push_back({.from = event(), .to = event(), .kind = text()});
    }
    t.properties = {{"model", "llama.pt2"}, {"plan_hash", "0123"}, {"odd \"key\"", "a\nb"}};
    if (oneIn(2)) t.problems.count(Problem::kBadUtf8, "byte 17", 3);
    return t;
  }
};

/// The part of the trace in which two traces differ; empty where they are equal.
inline std::string differenceOf(const Trace& a, const Trace& b) {
  if (a.format != b.format) return "format";
  if (a.strings.size() != b.strings.size()) return "strings";
  for (std::size_t i = 0; i < a.strings.size(); ++i)
    if (a.strings.text(static_cast<StringId>(i)) != b.strings.text(static_cast<StringId>(i))) return "string " + std::to_string(i);
  if (a.ranks != b.ranks) return "ranks";
  if (a.tracks != b.tracks) return "tracks";
  if (a.events.size() != b.events.size()) return "events: " + std::to_string(a.events.size()) + " and " + std::to_string(b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i)
    if (!(a.event(static_cast<EventIndex>(i)) == b.event(static_cast<EventIndex>(i)))) return "event " + std::to_string(i) + ", " + std::string(nameOf(a.events.category[i]));
  if (a.launches != b.launches) return "launches";
  if (a.copies != b.copies) return "copies";
  if (a.collectives != b.collectives) return "collectives";
  if (a.memory != b.memory) return "memory";
  if (a.counters != b.counters) return "counters";
  if (a.nodes != b.nodes) return "nodes";
  if (a.flows != b.flows) return "flows";
  if (a.properties != b.properties) return "properties";
  if (a.problems.all() != b.problems.all()) return "problems";
  return {};
}

}  // namespace spscope::trace
