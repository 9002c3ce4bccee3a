// SPDX-License-Identifier: Apache-2.0
// Several lines over one axis as inline SVG, with what they are held against. A chart (chart.h) is one with a single line.
#pragma once

#include <string>
#include <vector>

#include "app/chart.h"

namespace spscope::app {

struct Plot {
  struct Line {
    std::string name;                  ///< written at its end; "" for none
    std::vector<Chart::Point> points;  ///< as Chart::points
  };
  struct Level {
    double y = 0;
    std::string name;
  };
  std::string title, x_label, y_label;
  std::vector<Line> lines;    ///< each in a colour of its own
  std::vector<Level> levels;  ///< a dashed line across, with its name
  bool bytes = false;         ///< y counts bytes
  bool dots = true;           ///< a dot for each point, not only the line
};

/// "" where no line has two points that can be drawn. Well-formed XML.
std::string svg(const Plot& plot);

}  // namespace spscope::app
