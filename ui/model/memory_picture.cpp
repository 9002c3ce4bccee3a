// SPDX-License-Identifier: Apache-2.0
// Curves of memory as lines and areas in pixels: one sample a pixel column, the highest place that falls into it, so that no
// peak is lost however long the program is. Curves of programs of different length meet where the backward begins.
#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "ui/model/memory_view.h"

namespace spscope::ui {
namespace {

constexpr double kLeft = 64, kRight = 12, kTop = 20, kBottom = 22;
/// Beyond so many times the focused peak a curve would flatten what is looked at.
constexpr double kBeyond = 3.0;

/// Place <-> x of one curve in one viewport; `share` of the width is the forward.
struct Along {
  const MemoryViewport& viewport;
  double share;
  std::int32_t forward, all;

  Along(const MemoryViewport& v, double forward_share, const StepMemory& curve)
      : viewport(v), share(forward_share), forward(curve.backward_begins), all(static_cast<std::int32_t>(curve.places.size())) {}
  double width() const { return std::max(1.0, viewport.width - kLeft - kRight); }
  /// 0 ... 1 of the step.
  double position(double place) const {
    if (forward == 0 || forward == all) return place / std::max(1, all);
    return place < forward ? share * place / forward : share + (1 - share) * (place - forward) / (all - forward);
  }
  double xOf(double place) const { return kLeft + (position(place) - viewport.from) / (viewport.to - viewport.from) * width(); }
  std::int32_t placeAt(double x) const {
    const double p = std::clamp(viewport.from + (x - kLeft) / width() * (viewport.to - viewport.from), 0.0, 1.0);
    double place = p * all;
    if (forward != 0 && forward != all) place = p < share ? p / share * forward : forward + (p - share) / (1 - share) * (all - forward);
    return std::clamp(static_cast<std::int32_t>(place), 0, all - 1);
  }
};

/// The highest place of each pixel column that holds any: (left edge of the column, place).
std::vector<std::pair<double, std::int32_t>> columns(const Along& along, const StepMemory& curve) {
  std::vector<std::pair<double, std::int32_t>> out;
  const double right = along.viewport.width - kRight;
  for (std::int32_t i = along.placeAt(kLeft); i < along.all; ++i) {
    const double x = std::max(kLeft, along.xOf(i));
    if (x > right) break;
    const double column = std::floor(x);
    const auto live = [&](std::int32_t p) { return curve.places[static_cast<std::size_t>(p)].live; };
    if (!out.empty() && std::floor(out.back().first) == column) {
      if (live(i) > live(out.back().second)) out.back().second = i;
    } else {
      out.emplace_back(x, i);
    }
  }
  return out;
}

double shareOf(const StepMemory& curve) { return static_cast<double>(curve.backward_begins) / std::max<std::size_t>(1, curve.places.size()); }

/// A round number of bytes of which between 2 and 5 fit.
std::int64_t stepOf(std::int64_t most) {
  std::int64_t unit = 1;
  while (unit * 1024 <= most) unit *= 1024;
  for (const double step : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0}) {
    const double bytes = step * static_cast<double>(unit);
    if (bytes >= 1 && static_cast<double>(most) / bytes <= 5.0) return static_cast<std::int64_t>(bytes);
  }
  return std::max<std::int64_t>(1, most);
}

std::string shortBytes(std::int64_t bytes) { return bytes == 0 ? "0" : formatBytes(bytes); }

}  // namespace

MemoryPicture MemoryView::picture(const MemoryViewport& viewport) const {
  MemoryPicture out;
  out.left = kLeft;
  out.top = kTop;
  out.right = std::max(kLeft + 1, viewport.width - kRight);
  out.bottom = std::max(kTop + 1, viewport.height - kBottom);
  const StepMemory* focus = focused();
  if (focus == nullptr) {
    out.absent = header_;
    return out;
  }
  const double share = shareOf(*focus);
  const std::int64_t limit = workspace_.settings().memory_limit_bytes;
  const double fits = kBeyond * static_cast<double>(std::max<std::int64_t>(1, focus->peak));
  double most = static_cast<double>(std::max<std::int64_t>(1, focus->peak));
  for (const std::string& key : shown_)
    if (const StepMemory* c = curveOf(key); c != nullptr && static_cast<double>(c->peak) <= fits) most = std::max(most, static_cast<double>(c->peak));
  if (limit > 0 && static_cast<double>(limit) <= fits) most = std::max(most, static_cast<double>(limit));
  most *= 1.05;
  const auto yOf = [&](double bytes) { return out.bottom - std::min(1.0, bytes / most) * (out.bottom - out.top); };

  // The focused curve's classes, stacked.
  const Along along(viewport, share, *focus);
  const auto sampled = columns(along, *focus);
  const auto rightOf = [&](std::size_t i) { return i + 1 < sampled.size() ? sampled[i + 1].first : std::min(out.right, along.xOf(sampled[i].second + 1.0)); };
  if (focus->classes_known) {
    std::vector<double> below(sampled.size(), 0.0);
    for (std::size_t c = 0; c < passes::kMemoryClasses; ++c) {
      MemoryPicture::Area area;
      area.memory_class = static_cast<passes::MemoryClass>(c);
      area.label = std::string(passes::memoryClassName(area.memory_class));
      std::vector<PlotPoint> under;
      bool any = false;
      for (std::size_t i = 0; i < sampled.size(); ++i) {
        const double bytes = static_cast<double>(std::max<std::int64_t>(0, focus->places[static_cast<std::size_t>(sampled[i].second)].classes[c]));
        any = any || bytes > 0;
        for (const double x : {sampled[i].first, rightOf(i)}) {
          under.push_back({x, yOf(below[i])});
          area.outline.push_back({x, yOf(below[i] + bytes)});
        }
        below[i] += bytes;
      }
      if (!any) continue;
      area.outline.insert(area.outline.end(), under.rbegin(), under.rend());
      out.areas.push_back(std::move(area));
    }
  }

  for (std::size_t n = 0; n < choices_.size(); ++n) {
    const StepMemory* c = curveOf(choices_[n].key);
    if (!choices_[n].shown || c == nullptr) continue;
    if (static_cast<double>(c->peak) > fits) {
      out.beyond.push_back(choices_[n].label + " peak " + formatBytes(c->peak));
      continue;
    }
    MemoryPicture::Outline outline{choices_[n].key, choices_[n].label + " " + formatBytes(c->peak), static_cast<int>(n), choices_[n].focused, {}};
    const Along other(viewport, share, *c);
    const auto places = columns(other, *c);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const double y = yOf(static_cast<double>(c->places[static_cast<std::size_t>(places[i].second)].live));
      outline.points.push_back({places[i].first, y});
      outline.points.push_back({i + 1 < places.size() ? places[i + 1].first : std::min(out.right, other.xOf(places[i].second + 1.0)), y});
    }
    out.outlines.push_back(std::move(outline));
  }

  const std::int64_t step = stepOf(static_cast<std::int64_t>(most));
  for (std::int64_t bytes = 0; static_cast<double>(bytes) <= most; bytes += step) out.scale.push_back({0, yOf(static_cast<double>(bytes)), shortBytes(bytes)});
  if (focus->backward_begins > 0 && along.xOf(0) >= kLeft - 1) out.phases.push_back({std::max(kLeft, along.xOf(0)), 0, "forward"});
  if (const double x = along.xOf(focus->backward_begins); focus->backward_begins < along.all && x >= kLeft - 1 && x < out.right) out.phases.push_back({x, 0, "backward"});
  if (limit > 0) {
    if (static_cast<double>(limit) <= fits) out.limit = MemoryPicture::Text{out.right, yOf(static_cast<double>(limit)), "limit " + formatBytes(limit)};
    else out.beyond.push_back("limit " + formatBytes(limit));
  }
  if (focus->peak_place >= 0) {
    const double x = along.xOf(focus->peak_place + 0.5);
    if (x >= kLeft && x <= out.right) out.peak = MemoryPicture::Text{x, yOf(static_cast<double>(focus->peak)), "peak " + formatBytes(focus->peak)};
  }
  const ir::NodeId selected = workspace_.selection().node;
  for (std::int32_t i = 0; selected != ir::kNone && i < along.all; ++i)
    if (focus->places[static_cast<std::size_t>(i)].node == selected)
      if (const double x = along.xOf(i + 0.5); x >= kLeft && x <= out.right) out.selected.push_back(x);
  return out;
}

std::optional<MemoryHover> MemoryView::at(const MemoryViewport& viewport, double x) const {
  const StepMemory* focus = focused();
  if (focus == nullptr || x < kLeft || x > viewport.width - kRight) return std::nullopt;
  const Along along(viewport, shareOf(*focus), *focus);
  // The column under the pointer shows its highest place: that is the one that is meant.
  std::int32_t place = along.placeAt(std::floor(x));
  for (std::int32_t i = place; i < along.all && along.xOf(i) < std::floor(x) + 1; ++i)
    if (focus->places[static_cast<std::size_t>(i)].live > focus->places[static_cast<std::size_t>(place)].live) place = i;
  const StepMemory::Place& p = focus->places[static_cast<std::size_t>(place)];
  MemoryHover out;
  out.node = p.node;
  out.name = focus->names[static_cast<std::size_t>(place)];
  out.x = along.xOf(place + 0.5);
  out.lines = {out.name + (p.backward ? " (backward)" : " (forward)"), formatBytes(p.live) + " while it runs"};
  std::vector<std::pair<std::int64_t, std::size_t>> classes;
  for (std::size_t c = 0; focus->classes_known && c < passes::kMemoryClasses; ++c)
    if (p.classes[c] > 0) classes.emplace_back(p.classes[c], c);
  std::sort(classes.rbegin(), classes.rend());
  for (const auto& [bytes, c] : classes) out.lines.push_back(std::string(passes::memoryClassName(static_cast<passes::MemoryClass>(c))) + " " + formatBytes(bytes));
  return out;
}

}  // namespace spscope::ui
