// SPDX-License-Identifier: Apache-2.0
#include "profiler/export/svg.h"

#include "core/base/strings.h"
#include "core/base/xml_text.h"

namespace spscope::trace {
namespace {

// Middle tones: they stand on white and on black. c1...c8: lines of different ranks.
constexpr const char* kStyle =
    ".sp{font:12px system-ui,sans-serif}.sp text{fill:#333}.sp .faint{fill:#777}.sp .strong{font-weight:600}.sp .grid{stroke:#8884;fill:none}"
    ".sp .row{fill:#8881}.sp .compute{fill:#3b7dd8}.sp .communication{fill:#e08a1e}.sp .wait{fill:#d64545}.sp .memory{fill:#8e5bd0}.sp .idle{fill:#8885}"
    ".sp .range{fill:#8fa3b8}.sp .call{fill:#2a9d8f}.sp .python{fill:#b08968}.sp .other{fill:#7d8590}.sp .mark{fill:#d64545}"
    ".sp rect:hover{stroke:#d64545}.sp polyline{fill:none;stroke-width:1.5}"
    ".sp .c1{stroke:#3b7dd8}.sp .c2{stroke:#e08a1e}.sp .c3{stroke:#2a9d8f}.sp .c4{stroke:#8e5bd0}.sp .c5{stroke:#d64545}.sp .c6{stroke:#b08968}.sp .c7{stroke:#5aa02c}.sp .c8{stroke:#d264a0}"
    "@media(prefers-color-scheme:dark){.sp text{fill:#ddd}.sp .faint{fill:#999}}";

std::string tooltip(const std::string& tip) { return tip.empty() ? "/>\n" : "><title>" + xmlEscaped(tip) + "</title>"; }

}  // namespace

void Svg::box(double x, double y, double width, double height, std::string_view kind, const std::string& tip) {
  body_ += strf("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%.*s\"", x, y, width, height, static_cast<int>(kind.size()), kind.data());
  body_ += tooltip(tip) + (tip.empty() ? "" : "</rect>\n");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view kind) {
  body_ += strf("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%.*s\"/>\n", x1, y1, x2, y2, static_cast<int>(kind.size()), kind.data());
}

void Svg::path(const std::vector<std::pair<double, double>>& points, std::string_view kind, const std::string& tip) {
  body_ += strf("<polyline class=\"%.*s\" points=\"", static_cast<int>(kind.size()), kind.data());
  for (const auto& [x, y] : points) body_ += strf("%.1f,%.1f ", x, y);
  body_ += "\"" + tooltip(tip) + (tip.empty() ? "" : "</polyline>\n");
}

void Svg::dot(double x, double y, std::string_view kind, const std::string& tip) {
  body_ += strf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"%.*s\"", x, y, static_cast<int>(kind.size()), kind.data());
  body_ += tooltip(tip) + (tip.empty() ? "" : "</circle>\n");
}

void Svg::text(double x, double y, std::string_view anchor, std::string_view kind, const std::string& text) {
  body_ += strf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%.*s\" class=\"%.*s\">", x, y, static_cast<int>(anchor.size()), anchor.data(), static_cast<int>(kind.size()), kind.data());
  body_ += xmlEscaped(text) + "</text>\n";
}

double Svg::legend(double x, double y, const std::vector<std::pair<std::string, std::string>>& kinds_and_names) {
  double at = x;
  for (const auto& [kind, name] : kinds_and_names) {
    const double width = 26 + 7.0 * static_cast<double>(name.size());
    if (at + width > width_ && at > x) at = x, y += 18;
    box(at, y - 9, 10, 10, kind, {});
    text(at + 15, y, "start", "", name);
    at += width;
  }
  return y + 12;
}

std::string Svg::finish(double height) const {
  return strf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"100%%\" role=\"img\" class=\"sp\">\n<title>", width_, height) +
         xmlEscaped(title_) + "</title>\n<style>" + kStyle + "</style>\n" + body_ + "</svg>\n";
}

std::vector<std::int64_t> axisTicks(std::int64_t span_ns) {
  // 1, 2, 5, 10, 20, 50, …: the next is 2, 2.5 and 2 times the one before. Never beyond what is needed: no overflow.
  std::int64_t step = 1;
  for (int k = 0; step < span_ns / 10; ++k) step = k % 3 == 1 ? step / 2 * 5 : step * 2;
  std::vector<std::int64_t> out;
  for (std::int64_t t = 0; t <= span_ns; t += step) {
    out.push_back(t);
    if (t > INT64_MAX - step) break;
  }
  return out;
}

}  // namespace spscope::trace
