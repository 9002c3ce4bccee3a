// SPDX-License-Identifier: Apache-2.0
// The little of SVG that our pictures are made of. Colours are classes of one style sheet, light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spscope::trace {

class Svg {
 public:
  Svg(double width, std::string title) : width_(width), title_(std::move(title)) {}

  /// `kind` is a class of the style sheet ("compute", "communication", ...). A tooltip where `tip` is not empty.
  void box(double x, double y, double width, double height, std::string_view kind, const std::string& tip);
  void line(double x1, double y1, double x2, double y2, std::string_view kind);
  /// Through the points, each to the right of the one before.
  void path(const std::vector<std::pair<double, double>>& points, std::string_view kind, const std::string& tip);
  void dot(double x, double y, std::string_view kind, const std::string& tip);
  /// `anchor`: "start", "middle", "end".
  void text(double x, double y, std::string_view anchor, std::string_view kind, const std::string& text);
  /// One row of coloured squares with their meaning; wraps. Returns the y below it.
  double legend(double x, double y, const std::vector<std::pair<std::string, std::string>>& kinds_and_names);

  std::string finish(double height) const;

 private:
  double width_;
  std::string title_, body_;
};

/// Instants to mark on an axis of `span_ns`: 0 and up to about ten multiples of 1, 2 or 5 times a power of ten.
std::vector<std::int64_t> axisTicks(std::int64_t span_ns);

}  // namespace spscope::trace
