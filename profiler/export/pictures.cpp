// SPDX-License-Identifier: Apache-2.0
#include "profiler/export/pictures.h"

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "profiler/export/svg.h"

namespace spscope::trace {
namespace {

constexpr double kWidth = 1100, kLeft = 150, kRight = 16;

std::string share(std::int64_t part, std::int64_t whole) { return whole > 0 ? strf(" (%.1f%%)", 100 * static_cast<double>(part) / static_cast<double>(whole)) : ""; }

std::string rankName(const Trace& trace, std::int32_t rank) {
  const std::int64_t number = trace.ranks[static_cast<std::size_t>(rank)].number;
  return number == kUnknown ? strf("#%d", rank) : "rank " + std::to_string(number);
}

}  // namespace

Picture breakdownPicture(const Trace& trace, const std::vector<Breakdown>& rows) {
  std::int64_t longest = 0;
  for (const Breakdown& b : rows)
    if (b.absent.empty()) longest = std::max(longest, b.span_ns);
  Picture out{.title = "Where the time goes", .svg = {}, .note = {}};
  if (longest <= 0) return out;
  Svg svg(kWidth, out.title);
  const double scale = (kWidth - kLeft - kRight) / static_cast<double>(longest);
  double y = svg.legend(kLeft, 14, {{"compute", "compute"}, {"communication", "communication, exposed (strip: overlapped)"}, {"memory", "copies and sets, exposed"}, {"idle", "idle"}});
  for (const Breakdown& b : rows) {
    std::string name = rankName(trace, b.lane.rank);
    if (!b.lane.host && b.lane.device != kUnknown) name += strf(", GPU %lld", static_cast<long long>(b.lane.device));
    svg.text(kLeft - 8, y + 19, "end", "", name);
    if (!b.absent.empty()) {
      svg.text(kLeft, y + 19, "start", "faint", b.absent);
      y += 34;
      continue;
    }
    double x = kLeft;
    const auto part = [&](std::int64_t ns, const char* kind, const char* what) {
      if (ns <= 0) return;
      const double width = static_cast<double>(ns) * scale;
      svg.box(x, y + 4, width, 22, kind, name + ": " + what + " " + formatNs(ns) + share(ns, b.span_ns));
      x += width;
    };
    part(b.compute_ns, "compute", "compute");
    part(b.exposed_communication_ns, "communication", "exposed communication");
    part(b.exposed_memory_ns, "memory", "exposed copies and sets");
    part(b.idle_ns, "idle", "idle");
    if (b.overlapped_communication_ns > 0)
      svg.box(kLeft, y + 27, static_cast<double>(b.overlapped_communication_ns) * scale, 3, "communication",
              name + ": communication under compute " + formatNs(b.overlapped_communication_ns) + share(b.overlapped_communication_ns, b.communication_ns));
    y += 34;
  }
  for (const std::int64_t t : axisTicks(longest)) {
    const double x = kLeft + static_cast<double>(t) * scale;
    svg.line(x, y, x, y + 4, "grid");
    if (x < kWidth - 40) svg.text(x, y + 17, "middle", "faint", t == 0 ? "0" : formatNs(t));
  }
  out.svg = svg.finish(y + 26);
  return out;
}

Picture memoryPicture(const Trace& trace, const std::vector<MemoryUse>& uses) {
  Picture out{.title = "Memory", .svg = {}, .note = {}};
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min(), most = 0;
  for (const MemoryUse& u : uses)
    for (const MemoryPoint& p : u.curve) first = std::min(first, p.time), last = std::max(last, p.time), most = std::max(most, p.live);
  for (const MemoryUse& u : uses) most = std::max(most, u.predicted_peak);
  if (most <= 0 || last <= first) return out;
  constexpr double kTop = 30, kHeight = 260;
  Svg svg(kWidth, out.title);
  const double across = (kWidth - kLeft - kRight) / static_cast<double>(last - first);
  const auto xOf = [&](std::int64_t t) { return kLeft + static_cast<double>(t - first) * across; };
  const auto yOf = [&](std::int64_t bytes) { return kTop + kHeight * (1 - static_cast<double>(bytes) / static_cast<double>(most)); };
  const double step = std::exp2(std::ceil(std::log2(static_cast<double>(most) / 5)));
  for (double v = 0; v <= static_cast<double>(most); v += step) {
    const double y = yOf(static_cast<std::int64_t>(v));
    svg.line(kLeft, y, kWidth - kRight, y, "grid");
    svg.text(kLeft - 8, y + 4, "end", "faint", formatBytes(static_cast<std::int64_t>(v)));
  }
  for (const std::int64_t t : axisTicks(last - first)) {
    const double x = xOf(first + t);
    if (x < kWidth - 40) svg.text(x, kTop + kHeight + 18, "middle", "faint", t == 0 ? "0" : formatNs(t));
  }
  std::vector<std::pair<std::string, std::string>> peaks;
  double label = kLeft;
  int line = 0;
  for (const MemoryUse& u : uses) {
    if (u.curve.empty()) continue;
    const std::string kind = "c" + std::to_string(line++ % 8 + 1);
    const std::string name = rankName(trace, u.rank) + (u.device < 0 ? ", host" : strf(", GPU %d", u.device));
    // The largest and the last of each half pixel, as steps.
    std::vector<std::pair<double, double>> points;
    std::int64_t before = u.curve.front().live;
    for (std::size_t i = 0; i < u.curve.size();) {
      const auto column = static_cast<std::int64_t>(xOf(u.curve[i].time) * 2);
      std::int64_t high = u.curve[i].live, end = high;
      const double x = xOf(u.curve[i].time);
      for (; i < u.curve.size() && static_cast<std::int64_t>(xOf(u.curve[i].time) * 2) == column; ++i) high = std::max(high, u.curve[i].live), end = u.curve[i].live;
      if (high == before && end == before && !points.empty() && i < u.curve.size()) continue;  // level
      points.emplace_back(x, yOf(before));
      if (high != before) points.emplace_back(x, yOf(high));
      if (end != high) points.emplace_back(x, yOf(end));
      before = end;
    }
    std::string tip = name + ": peak " + formatBytes(u.peak_bytes);
    if (u.peak_node != kNoIndex) tip += " at " + std::string(trace.strings.text(trace.nodes[static_cast<std::size_t>(u.peak_node)].name));
    if (u.predicted_peak != kUnknown) tip += ", predicted " + formatBytes(u.predicted_peak);
    svg.path(points, kind, tip);
    if (u.peak_ns != kUnknown && u.peak_bytes != kUnknown) svg.dot(xOf(u.peak_ns), yOf(u.peak_bytes), "mark", tip);
    const std::string shown = name + " " + formatBytes(u.peak_bytes);
    const double width = 40 + 6.4 * static_cast<double>(shown.size());
    if (label + width > kWidth) continue;  // more lines than names fit; the tooltips have them
    svg.line(label, 12, label + 18, 12, kind);
    svg.text(label + 24, 16, "start", "", shown);
    label += width;
  }
  out.svg = svg.finish(kTop + kHeight + 28);
  out.note = "Live bytes; a dot marks each peak. What was allocated before the recording began is missing where the trace does not say it.";
  return out;
}

}  // namespace spscope::trace
