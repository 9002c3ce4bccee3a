// SPDX-License-Identifier: Apache-2.0
#include "app/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/strings.h"
#include "core/base/xml_text.h"

namespace spscope::app {
namespace {

constexpr double kWidth = 760, kHeight = 300, kLeft = 90, kRight = 20, kRightNamed = 110, kTop = 34, kBottom = 46;

/// 1, 2 or 5 times a power of ten (of two for bytes): about five of them up to `most`.
double tickStep(double most, bool bytes) {
  if (bytes) return std::exp2(std::ceil(std::log2(most / 5)));
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double times : {1.0, 2.0, 5.0})
    if (power * times * 5 >= most * (1 - 1e-9)) return power * times;
  return power * 10;
}

std::string tickText(double value, bool bytes) { return bytes ? formatBytes(std::llround(value)) : strf("%g", value); }

std::string textAt(double x, double y, const char* anchor, const std::string& text, const char* extra = "") {
  return strf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, extra) + xmlEscaped(text) + "</text>\n";
}

}  // namespace

std::vector<Chart::Point> peaksOf(const std::vector<Chart::Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Chart::Point> out;
  for (std::size_t i = 0; i < most; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / most);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / most);
    out.push_back(*std::max_element(begin, end, [](const auto& a, const auto& b) { return a.y < b.y || (a.y == b.y && a.marked < b.marked); }));
  }
  return out;
}

std::string svg(const Plot& plot) {
  static constexpr std::array kColours{"#2b6cb0", "#2f855a", "#b7791f", "#805ad5", "#319795", "#d53f8c"};
  std::vector<Plot::Line> lines = plot.lines;
  for (Plot::Line& line : lines) std::erase_if(line.points, [](const Chart::Point& p) { return !std::isfinite(p.x) || !std::isfinite(p.y); });
  std::erase_if(lines, [](const Plot::Line& line) { return line.points.size() < 2; });
  if (lines.empty()) return {};
  double low_x = lines[0].points[0].x, high_x = low_x, low_y = lines[0].points[0].y, high_y = low_y;
  for (const Plot::Line& line : lines)
    for (const Chart::Point& p : line.points) {
      low_x = std::min(low_x, p.x), high_x = std::max(high_x, p.x);
      low_y = std::min(low_y, p.y), high_y = std::max(high_y, p.y);
    }
  for (const Plot::Level& level : plot.levels) high_y = std::max(high_y, level.y);
  // Amounts begin at zero, so that a flat line looks flat; y of other figures where they are.
  const double from_x = std::min(0.0, low_x), from_y = plot.bytes || low_y < 0.5 * high_y ? std::min(0.0, low_y) : low_y;
  const double span_x = high_x > from_x ? high_x - from_x : 1, span_y = high_y > from_y ? high_y - from_y : std::max(1e-9, std::fabs(from_y));
  const bool named = std::any_of(lines.begin(), lines.end(), [](const Plot::Line& line) { return !line.name.empty(); });
  const double right = named ? kRightNamed : kRight;
  const auto atX = [&](double x) { return kLeft + (x - from_x) / span_x * (kWidth - kLeft - right); };
  const auto atY = [&](double y) { return kHeight - kBottom - (y - from_y) / span_y * (kHeight - kTop - kBottom); };

  std::string out = strf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\" "
                         "font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"currentColor\">\n", kWidth, kHeight, kWidth, kHeight);
  out += "<title>" + xmlEscaped(plot.title) + "</title>\n" + textAt(kLeft, 18, "start", plot.title, " font-weight=\"600\" font-size=\"13\"");
  const double step_y = tickStep(span_y, plot.bytes), step_x = tickStep(span_x, false);
  for (double y = std::ceil(from_y / step_y) * step_y; y <= from_y + span_y * (1 + 1e-9); y += step_y) {
    out += strf("<line x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>\n", kLeft, kWidth - right, atY(y), atY(y));
    out += textAt(kLeft - 8, atY(y) + 4, "end", tickText(y, plot.bytes));
  }
  for (double x = std::ceil(from_x / step_x) * step_x; x <= from_x + span_x * (1 + 1e-9); x += step_x)
    out += textAt(atX(x), kHeight - kBottom + 18, "middle", tickText(x, false));
  out += textAt((kLeft + kWidth - right) / 2, kHeight - 8, "middle", plot.x_label, " fill-opacity=\"0.65\"");
  out += textAt(kWidth - kRight, 18, "end", plot.y_label, " fill-opacity=\"0.65\"");
  for (const Plot::Level& level : plot.levels) {
    out += strf("<line x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#c53030\" stroke-dasharray=\"6 4\"/>\n", kLeft, kWidth - right, atY(level.y), atY(level.y));
    out += textAt(kLeft + 6, atY(level.y) - 5, "start", level.name, " fill=\"#c53030\"");
  }
  std::vector<double> taken;  // heights of names: no two on each other
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Plot::Line& line = lines[i];
    const char* colour = kColours[i % kColours.size()];
    std::string path;
    for (const Chart::Point& p : line.points) path += strf("%s%.1f,%.1f", path.empty() ? "" : " ", atX(p.x), atY(p.y));
    out += strf("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"", colour) + path + "\"/>\n";
    if (!line.name.empty()) {
      double y = atY(line.points.back().y) + 4;
      while (std::any_of(taken.begin(), taken.end(), [&](double other) { return std::fabs(other - y) < 14; })) y += 1;
      taken.push_back(y);
      out += textAt(atX(line.points.back().x) + 8, y, "start", line.name, strf(" fill=\"%s\"", colour).c_str());
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (const Chart::Point& p : lines[i].points) {
      if (!plot.dots && !p.marked) continue;
      out += strf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" fill=\"%s\">", atX(p.x), atY(p.y), p.marked ? 5.0 : 3.0, p.marked ? "#c53030" : kColours[i % kColours.size()]);
      if (!p.label.empty()) out += "<title>" + xmlEscaped(p.label) + "</title>";
      out += "</circle>\n";
      const bool to_right = atX(p.x) < kWidth * 0.7;
      if (p.marked && !p.label.empty()) out += textAt(atX(p.x) + (to_right ? 9 : -9), atY(p.y) + (atY(p.y) < kTop + 14 || atY(p.y) > kHeight / 2 ? 18 : -8), to_right ? "start" : "end", p.label,
                                                " fill=\"#c53030\" stroke=\"#fff\" stroke-width=\"4\" paint-order=\"stroke\"");
    }
  return out + "</svg>\n";
}

std::string svg(const Chart& chart) { return svg(Plot{chart.title, chart.x_label, chart.y_label, {{"", chart.points}}, {}, chart.bytes, chart.dots}); }

}  // namespace spscope::app
