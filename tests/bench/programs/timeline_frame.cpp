// SPDX-License-Identifier: Apache-2.0
// What a frame of the timeline costs when it is painted on the CPU: a million events on 16 streams of 8 ranks, with overlap
// and memory tracks, all in sight. Prints one JSON object a line: the size, the view, and for each frame its wall and CPU
// nanoseconds (of all threads).
//
//   timeline_frame EVENTS FRAMES [WIDTH VIEW]    one size and view, to look at it with a profiler
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "profiler/analyze/work.h"
#include "ui/imgui/raster.h"
#include "ui/imgui/timeline_canvas.h"
#include "tests/bench/programs/clocks.h"

using namespace spscope;

namespace {

trace::Trace makeTrace(int events) {
  trace::Trace t;
  std::mt19937_64 random(1);
  const char* const kNames[] = {"ampere_bf16_s16816gemm_256x128", "flash_fwd_kernel", "vectorized_elementwise_kernel", "vectorized_layer_norm_kernel", "ampere_bf16_s16816gemm_128x64", "reduce_kernel"};
  std::vector<trace::StringId> names;
  for (const char* name : kNames) names.push_back(t.strings.intern(name));
  const trace::StringId exchange = t.strings.intern("ncclDevKernel_SendRecv");
  constexpr int kRanks = 8;
  for (int r = 0; r < kRanks; ++r) {
    t.ranks.push_back({.number = r});
    const trace::TrackIndex compute = t.stream(r, 0, 1, 7), communication = t.stream(r, 0, 1, 13);
    std::int64_t at = 0, other = 0, live = 0;
    for (int i = 0; i < events / kRanks / 2; ++i) {
      const auto length = static_cast<std::int64_t>(500 + random() % 20000);
      t.add({.start = at, .end = at + length, .name = names[random() % names.size()], .track = compute, .category = trace::Category::kKernel});
      at += length + static_cast<std::int64_t>(random() % 2000);
      const auto wire = static_cast<std::int64_t>(300 + random() % 15000);
      const trace::EventIndex e = t.add({.start = other, .end = other + wire, .name = exchange, .track = communication, .category = trace::Category::kKernel});
      t.collectives.push_back({.kind = exchange, .group = exchange, .sequence = i, .bytes = 1 << 20, .group_size = kRanks, .rank = r, .event = e});
      other += wire + static_cast<std::int64_t>(random() % 9000);
      if (i % 8 == 0) {
        const auto bytes = static_cast<std::int64_t>(random() % (1 << 24));
        t.memory.push_back({.time = at, .bytes = live > (1 << 30) ? -live / 2 : bytes, .rank = r, .device = 0});
        live += t.memory.back().bytes;
      }
    }
  }
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  const int events = argc > 1 ? std::atoi(argv[1]) : 1'000'000, frames = argc > 2 ? std::atoi(argv[2]) : 40;
  const int only_width = argc > 4 ? std::atoi(argv[3]) : 0;
  const std::string only_view = argc > 4 ? argv[4] : "";
  const trace::Trace t = makeTrace(events);
  const auto breakdown = trace::breakdown(t, trace::classifyWork(t));
  const auto memory = trace::memoryUse(t);
  const std::int64_t building = cpuNs();
  const auto index = ui::TimelineIndex::build(t, breakdown, memory, true);
  std::printf("{\"index_ns\": %lld}\n", static_cast<long long>(cpuNs() - building));
  struct Size {
    int width, height;
    double scale;
  };
  for (const Size size : {Size{1600, 1000, 1}, Size{1600, 1000, 2}, Size{3840, 2160, 1}, Size{3840, 2160, 2}}) {
    if (only_width > 0 && size.width != only_width) continue;
    ui::ImguiCore core;
    ui::TimelineModel model;
    ui::TimelineCanvas canvas(core, model);
    ui::Raster raster;
    core.draw = [&] { canvas.draw(); };
    core.fonts_changed = [&] {
      const ui::ImguiCore::Atlas atlas = core.atlas();
      raster.setAtlas(atlas.alpha, atlas.width, atlas.height);
    };
    model.show({{*index, ""}});
    std::vector<std::uint32_t> pixels(static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height));
    const auto frame = [&](bool everything) {
      const ImDrawData* data = core.frame(size.width, size.height, size.scale);
      return raster.paint(*data, 0xff1a1d23, pixels.data(), size.width, size.height, size.width, everything);
    };
    for (int i = 0; i < 3; ++i) frame(true);
    for (const char* view : {"all", "moving", "thousandth", "still"}) {
      const std::string what = view;
      if (!only_view.empty() && what != only_view) continue;
      model.fit();
      if (what == "thousandth") model.zoomAt(size.width / 2.0, 1000);
      frame(true);
      std::string wall, cpu;
      for (int i = 0; i < frames; ++i) {
        if (what == "moving" || what == "thousandth") model.pan(i % 2 ? 7 : -5, 0);
        const std::int64_t w = monotonicNs(), c = cpuNs();
        frame(what != "still");
        cpu += strf("%s%lld", i ? ", " : "", static_cast<long long>(cpuNs() - c));
        wall += strf("%s%lld", i ? ", " : "", static_cast<long long>(monotonicNs() - w));
      }
      ui::Scene scene;
      model.scene(scene);
      std::printf("{\"width\": %d, \"height\": %d, \"scale\": %g, \"view\": \"%s\", \"events\": %lld, \"quads\": %zu, \"wall_ns\": [%s], \"cpu_ns\": [%s]}\n",
                  size.width, size.height, size.scale, view, static_cast<long long>(scene.events), scene.quads.size(), wall.c_str(), cpu.c_str());
    }
  }
  return 0;
}
