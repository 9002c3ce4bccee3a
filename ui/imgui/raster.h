// SPDX-License-Identifier: Apache-2.0
// Dear ImGui's draw lists as pixels, on the CPU: for machines whose GL is software or absent. The picture is cut into tiles;
// only tiles whose content changed since the last frame are painted, on several threads where there is much to paint.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

struct ImDrawData;

namespace spscope::ui {

/// Pixels, x1 and y1 not included.
struct PixelBox {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

class Raster {
 public:
  Raster();
  ~Raster();
  /// One byte a pixel of coverage; must stay as it is until set anew.
  void setAtlas(const unsigned char* alpha, int width, int height);
  /// Paints into 0xffRRGGBB pixels that the caller keeps from frame to frame; returns what changed. `everything`: what is in
  /// the pixels is worthless. Coordinates of the data are pixels of the target.
  std::vector<PixelBox> paint(const ImDrawData& data, std::uint32_t background, std::uint32_t* pixels, int width, int height,
                              int stride_pixels, bool everything);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spscope::ui
