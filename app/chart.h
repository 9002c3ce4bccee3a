// SPDX-License-Identifier: Apache-2.0
// A line of points as inline SVG, for pages that are attached to a ticket: no script, no file beside the page.
#pragma once

#include <string>
#include <vector>

namespace spscope::app {

struct Chart {
  struct Point {
    double x = 0, y = 0;
    std::string label;    ///< shown when pointed at; "" for none
    bool marked = false;  ///< drawn in the accent colour, with its label beside it
  };
  std::string title, x_label, y_label;
  std::vector<Point> points;  ///< by rising x; points that are no finite numbers are left out
  bool bytes = false;         ///< y counts bytes
  bool dots = true;           ///< a dot for each point, not only the line
};

/// "" where fewer than two points can be drawn. Well-formed XML.
std::string svg(const Chart& chart);

/// At most `most` values: of each run of neighbours the largest, so that peaks stay.
std::vector<Chart::Point> peaksOf(const std::vector<Chart::Point>& points, std::size_t most);

}  // namespace spscope::app
