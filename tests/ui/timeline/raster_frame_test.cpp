// SPDX-License-Identifier: Apache-2.0
// Frames of the timeline painted on the CPU: one after a move, of which only what changed is painted, has the same bits as
// one painted from nothing.
#include <gtest/gtest.h>

#include <random>

#include "profiler/analyze/work.h"
#include "tests/support/random_trace.h"
#include "ui/imgui/raster.h"
#include "ui/imgui/timeline_canvas.h"

namespace spscope::ui {
namespace {

constexpr std::uint32_t kGround = 0xff202428;

struct Painter {
  ImguiCore core;
  TimelineModel model;
  TimelineCanvas canvas{core, model};
  Raster raster;
  std::vector<std::uint32_t> pixels;
  std::vector<PixelBox> changed;

  explicit Painter(TimelineModel shown) : model(std::move(shown)) {
    core.draw = [this] { canvas.draw(); };
    core.fonts_changed = [this] {
      const ImguiCore::Atlas atlas = core.atlas();
      raster.setAtlas(atlas.alpha, atlas.width, atlas.height);
    };
  }
  void frame(int width, int height, double scale) {
    pixels.resize(static_cast<std::size_t>(width * height), 0xffff00ff);
    changed = raster.paint(*core.frame(width, height, scale), kGround, pixels.data(), width, height, width, false);
  }
};

TEST(RasterFrame, AMovedFrameIsTheFramePaintedFromNothing) {
  const trace::Trace t = trace::RandomTrace(5).make(4000);
  const auto breakdown = trace::breakdown(t, trace::classifyWork(t));
  const auto memory = trace::memoryUse(t);
  const auto index = *TimelineIndex::build(t, breakdown, memory, true);
  struct Size {
    int width, height;
    double scale;
  };
  for (const Size& size : {Size{1000, 600, 1}, Size{1601, 703, 2}, Size{700, 333, 1.25}}) {
    TimelineModel model;
    model.show({{index, ""}});
    Painter kept(std::move(model));
    std::mt19937_64 random(3);
    for (int i = 0; i < 3; ++i) kept.frame(size.width, size.height, size.scale);
    EXPECT_TRUE(kept.changed.empty()) << "nothing moved, nothing is painted";
    for (int move = 0; move < 20; ++move) {
      if (move % 6 == 0) kept.model.wheel(300 + static_cast<double>(random() % 300), 200, move % 4 ? -2 : 3, false);
      else kept.model.pan(static_cast<double>(random() % 41) / 2 - 10, static_cast<double>(random() % 9) - 4);
      if (move == 13) kept.model.measure(kept.model.view().timeOf(100), kept.model.view().timeOf(300));
      for (int i = 0; i < 2; ++i) kept.frame(size.width, size.height, size.scale);
      Painter fresh(kept.model);
      for (int i = 0; i < 2; ++i) fresh.frame(size.width, size.height, size.scale);
      std::size_t differ = 0;
      for (std::size_t i = 0; i < kept.pixels.size(); ++i) differ += kept.pixels[i] != fresh.pixels[i];
      EXPECT_EQ(differ, 0u) << "pixels of " << size.width << "x" << size.height << " after move " << move;
    }
  }
}

}  // namespace
}  // namespace spscope::ui
