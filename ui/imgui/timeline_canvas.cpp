// SPDX-License-Identifier: Apache-2.0
#include "ui/imgui/timeline_canvas.h"

#include <imgui.h>

#include <QEvent>
#include <algorithm>
#include <cmath>
#include <utility>

namespace spscope::ui {
namespace {

constexpr float kToolbar = 32, kLegend = 24, kPanelWidth = 290;
constexpr std::size_t kBatch = 8000;  // quads: indices have 16 bits

}  // namespace

double TimelineCanvas::plotY() const { return std::round(kToolbar * core_.scale()); }

unsigned TimelineCanvas::colour(const Shade& shade) const {
  const Theme& theme = core_.theme();
  const Color c = theme.mix(theme.color(shade.first), theme.color(shade.second), shade.share);
  return IM_COL32(c.r, c.g, c.b, 255);
}

void TimelineCanvas::refreshColours() {
  for (int i = 0; i < kInks; ++i) ink_[static_cast<std::size_t>(i)] = colour(shadeOf(static_cast<Ink>(i)));
  const Theme& theme = core_.theme();
  const Shade band = shadeOf(Ink::kBand);
  const Color ground = theme.mix(theme.color(band.first), theme.color(band.second), band.share);
  for (int p = 0; p < kPaints; ++p) {
    const Shade shade = shadeOf(static_cast<Paint>(p));
    const Color full = theme.mix(theme.color(shade.first), theme.color(shade.second), shade.share);
    constexpr Color kPale{255, 255, 255}, kDeep{0x12, 0x14, 0x18};
    const Color under = isHatched(static_cast<Paint>(p)) ? theme.mix(ground, full, 0.6) : full;
    const Color text = contrast(kPale, under) > contrast(kDeep, under) ? kPale : kDeep;
    on_paint_[static_cast<std::size_t>(p)] = IM_COL32(text.r, text.g, text.b, 255);
    for (int d = 0; d <= 4; ++d) {
      const Color c = theme.mix(ground, full, 0.28 + 0.18 * d);  // even the palest is seen
      paint_[static_cast<std::size_t>(p)][static_cast<std::size_t>(d)] = IM_COL32(c.r, c.g, c.b, 255);
    }
  }
}

void TimelineCanvas::draw() {
  refreshColours();
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  const auto s = static_cast<float>(core_.scale());
  ImGui::SetNextWindowPos(ImVec2(0, 0));
  ImGui::SetNextWindowSize(size);
  ImGui::PushFont(core_.font());
  ImGui::Begin("timeline", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  const auto top = static_cast<float>(plotY());
  if (model_.empty()) {
    const ImVec2 text = ImGui::CalcTextSize(message.c_str(), nullptr, false, size.x - 40 * s);
    ImGui::SetCursorPos(ImVec2(std::max(20 * s, (size.x - text.x) / 2), std::max(8 * s, (size.y - text.y) / 2)));
    ImGui::PushTextWrapPos(size.x - 20 * s);
    ImGui::PushStyleColor(ImGuiCol_Text, ink_[static_cast<std::size_t>(Ink::kFaint)]);
    ImGui::TextUnformatted(message.c_str());
    ImGui::PopStyleColor();
    ImGui::PopTextWrapPos();
  } else {
    toolbar(size.x);
    keys();
    const bool beside = !model_.panel().empty() && size.x > 760 * s;
    const float right = beside ? std::round(kPanelWidth * s) : 0, below = std::round(kLegend * s);
    plot(top, size.x - right, std::max(10.0f, size.y - top - below));
    if (beside) panel(size.x - right, top, right, size.y - top - below);
    legend(size.y - below, size.x);
  }
  ImGui::End();
  ImGui::PopFont();
}

void TimelineCanvas::toolbar(float width) {
  const auto s = static_cast<float>(core_.scale());
  ImGui::SetCursorPos(ImVec2(8 * s, 5 * s));
  ImGui::PushStyleColor(ImGuiCol_Border, ink_[static_cast<std::size_t>(Ink::kGrid)]);
  ImGui::SetNextItemWidth(190 * s);
  if (focus_search_) ImGui::SetKeyboardFocusHere(), focus_search_ = false;
  const bool enter = ImGui::InputTextWithHint("##search", "search name, op, module  ( / )", search_.data(), search_.size(), ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  searching_ = ImGui::IsItemActive();
  const auto go = [&](int direction) {
    if (const auto found = model_.step(direction); found && on_choose) on_choose(found->source, found->event);
  };
  model_.search(search_.data());
  if (enter) {
    go(ImGui::GetIO().KeyShift ? -1 : 1);
    focus_search_ = true;
  }
  ImGui::SameLine(0, 6 * s);
  if (ImGui::ArrowButton("previous", ImGuiDir_Left)) go(-1);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("previous match (Shift+N)");
  ImGui::SameLine(0, 2 * s);
  if (ImGui::ArrowButton("next", ImGuiDir_Right)) go(1);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("next match (N)");
  ImGui::SameLine(0, 6 * s);
  if (ImGui::Button("Fit")) model_.fit();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("show everything (F)");
  if (const std::string matches = model_.matchText(); !matches.empty()) {
    ImGui::SameLine(0, 10 * s);
    ImGui::TextUnformatted(matches.c_str());
  }
  ImGui::SameLine(0, 16 * s);
  const float from = ImGui::GetCursorPosX();
  const std::string& summary = model_.summary();
  const float needed = ImGui::CalcTextSize(summary.c_str()).x;
  ImGui::PopStyleColor();
  ImGui::GetWindowDrawList()->PushClipRect(ImVec2(from, 0), ImVec2(width, kToolbar * s), true);
  ImGui::GetWindowDrawList()->AddText(ImVec2(std::max(from, width - needed - 12 * s), 8 * s), ink_[static_cast<std::size_t>(Ink::kFaint)], summary.c_str());
  ImGui::GetWindowDrawList()->PopClipRect();
}

void TimelineCanvas::keys() {
  if (searching_ || ImGui::GetIO().WantTextInput) {
    if (ImGui::IsKeyPressed(keyIndex(Qt::Key_Escape), false)) ImGui::SetWindowFocus(nullptr);
    return;
  }
  const auto pressed = [](int key, bool repeat = true) { return ImGui::IsKeyPressed(keyIndex(key), repeat); };
  if (ImGui::GetIO().KeyCtrl || ImGui::GetIO().KeyAlt) return;
  if (pressed(Qt::Key_A) || pressed(Qt::Key_Left)) model_.key(TimelineKey::kLeft);
  if (pressed(Qt::Key_D) || pressed(Qt::Key_Right)) model_.key(TimelineKey::kRight);
  if (pressed(Qt::Key_W)) model_.key(TimelineKey::kZoomIn);
  if (pressed(Qt::Key_S)) model_.key(TimelineKey::kZoomOut);
  if (pressed(Qt::Key_Up)) model_.key(TimelineKey::kUp);
  if (pressed(Qt::Key_Down)) model_.key(TimelineKey::kDown);
  if (pressed(Qt::Key_F, false)) model_.key(TimelineKey::kFit);
  if (pressed(Qt::Key_Z, false)) model_.key(TimelineKey::kZoomToSelection);
  if (pressed(Qt::Key_Escape, false)) model_.key(TimelineKey::kEscape);
  if (pressed(Qt::Key_Slash, false)) focusSearch(), core_.request();
  if (pressed(Qt::Key_N))
    if (const auto found = model_.step(ImGui::GetIO().KeyShift ? -1 : 1); found && on_choose) on_choose(found->source, found->event);
}

void TimelineCanvas::pointer(float y, bool hovered) {
  const ImGuiIO& io = ImGui::GetIO();
  const double at_x = io.MousePos.x, at_y = io.MousePos.y - y;
  if (hovered && ImGui::IsMouseClicked(0)) model_.press(at_x, at_y, io.KeyShift, io.KeyCtrl);
  if (model_.drag() != TimelineModel::Drag::kNone) {
    model_.move(at_x, at_y);
    if (!io.MouseDown[0]) {
      if (const auto hit = model_.release(at_x, at_y)) {
        if (hit->gutter) model_.toggle(hit->source, hit->track);
        else if (hit->event != trace::kNoIndex) {
          model_.choose({hit->source, hit->event});
          if (on_choose) on_choose(hit->source, hit->event);
        }
      }
    }
  }
  if (!hovered) return;
  if (io.MouseWheel != 0) model_.wheel(at_x, at_y, io.MouseWheel, io.KeyShift);
  if (io.MouseWheelH != 0) model_.pan(io.MouseWheelH * 60 * core_.scale(), 0);
  if (model_.drag() != TimelineModel::Drag::kNone) return;
  const std::vector<std::string> lines = model_.describe(model_.hit(at_x, at_y));
  if (lines.empty()) return;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(static_cast<float>(8 * core_.scale()), static_cast<float>(6 * core_.scale())));
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(static_cast<float>(460 * core_.scale()));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) ImGui::PushStyleColor(ImGuiCol_Text, ink_[static_cast<std::size_t>(Ink::kFaint)]);
    ImGui::TextUnformatted(lines[i].c_str());
    if (i > 0) ImGui::PopStyleColor();
  }
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
  ImGui::PopStyleVar();
}

void TimelineCanvas::plot(float y, float width, float height) {
  model_.resize(static_cast<int>(width), static_cast<int>(height), core_.scale());
  ImGui::SetCursorPos(ImVec2(0, y));
  ImGui::InvisibleButton("plot", ImVec2(width, height));
  pointer(y, ImGui::IsItemHovered());
  drawScene(y, width, height);
}

void TimelineCanvas::drawScene(float y, float width, float height) {
  if (std::exchange(scene_version_, model_.version()) != model_.version()) model_.scene(scene_);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto gutter = static_cast<float>(model_.gutterWidth()), axis = static_cast<float>(model_.axisHeight());
  const auto b = static_cast<float>(std::max(1.0, std::floor(core_.scale())));
  const auto marks = [&](const std::vector<Mark>& of) {
    for (const Mark& m : of) {
      const unsigned colour = ink_[static_cast<std::size_t>(m.ink)];
      const ImVec2 from(m.box.x0, m.box.y0 + y), to(m.box.x1, m.box.y1 + y);
      if (m.kind == Mark::kFill) list.AddRectFilled(from, to, colour);
      else if (m.kind == Mark::kTint) list.AddRectFilled(from, to, (colour & 0xffffffu) | 0x30000000u);
      else if (m.kind == Mark::kLine && from.x == to.x) list.AddRectFilled(from, ImVec2(to.x + b, to.y), colour);
      else if (m.kind == Mark::kLine && from.y == to.y) list.AddRectFilled(from, ImVec2(to.x, to.y + b), colour);
      else if (m.kind == Mark::kLine) list.AddLine(from, to, colour, b * 1.2f);
      else {
        list.AddRectFilled(from, ImVec2(to.x, from.y + b), colour), list.AddRectFilled(ImVec2(from.x, to.y - b), to, colour);
        list.AddRectFilled(from, ImVec2(from.x + b, to.y), colour), list.AddRectFilled(ImVec2(to.x - b, from.y), to, colour);
      }
    }
  };
  const auto texts = [&](const std::vector<Text>& of) {
    for (const Text& t : of) {
      ImFont* font = t.small ? core_.smallFont() : core_.font();
      const float size = font->FontSize;
      float x = t.x;
      if (t.right) x += std::max(0.0f, t.width - font->CalcTextSizeA(size, 1e9f, 0, t.text.c_str()).x);
      const ImVec4 room(t.x, t.y + y - size, t.x + t.width, t.y + y + 2 * size);
      list.AddText(font, size, ImVec2(std::round(x), std::round(t.y + y)), t.on_event ? on_paint_[static_cast<std::size_t>(t.paint)] : ink_[static_cast<std::size_t>(t.ink)], t.text.c_str(), nullptr, 0, &room);
    }
  };
  list.PushClipRect(ImVec2(0, y), ImVec2(width, y + height), true);
  list.PushClipRect(ImVec2(gutter, y + axis), ImVec2(width, y + height), true);
  marks(scene_.below);
  const ImVec2 white = ImGui::GetFontTexUvWhitePixel();
  for (std::size_t begin = 0; begin < scene_.quads.size(); begin += kBatch) {
    const std::size_t end = std::min(scene_.quads.size(), begin + kBatch);
    const auto count = static_cast<int>(end - begin);
    list.PrimReserve(6 * count, 4 * count);
    for (std::size_t i = begin; i < end; ++i) {
      const Quad& q = scene_.quads[i];
      const std::size_t density = isHatched(q.paint) ? 1 : q.density;
      list.PrimRectUV(ImVec2(q.box.x0, q.box.y0 + y), ImVec2(q.box.x1, q.box.y1 + y), white, white, paint_[static_cast<std::size_t>(q.paint)][density]);
    }
  }
  // Stripes over what is hatched, from a texture, in step with each other wherever they begin.
  const ImguiCore::Uv uv = core_.hatch();
  for (const Quad& q : scene_.quads) {
    if (!isHatched(q.paint)) continue;
    for (float x = std::max(q.box.x0, gutter); x < std::min(q.box.x1, width);) {
      const auto phase = static_cast<float>(static_cast<int>(x) % ImguiCore::kHatchPeriod);
      const float to = std::min({q.box.x1, width, x + static_cast<float>(ImguiCore::kHatchWidth) - phase});
      const float high = std::min(q.box.y1 - q.box.y0, static_cast<float>(ImguiCore::kHatchHeight));
      list.PrimReserve(6, 4);
      list.PrimRectUV(ImVec2(x, q.box.y0 + y), ImVec2(to, q.box.y0 + y + high), ImVec2(uv.u + phase * uv.du, uv.v),
                      ImVec2(uv.u + (phase + to - x) * uv.du, uv.v + high * uv.dv), paint_[static_cast<std::size_t>(q.paint)][4]);
      x = to;
    }
  }
  texts(scene_.labels);
  marks(scene_.above);
  list.PopClipRect();
  marks(scene_.gutter);
  texts(scene_.axis);
  list.PushClipRect(ImVec2(0, y + axis), ImVec2(width, y + height), true);
  texts(scene_.texts);
  list.PopClipRect();
  list.PopClipRect();
}

void TimelineCanvas::panel(float x, float y, float width, float height) {
  const auto s = static_cast<float>(core_.scale());
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(ImVec2(x, y), ImVec2(x + std::max(1.0f, std::floor(s)), y + height), ink_[static_cast<std::size_t>(Ink::kGrid)]);
  ImGui::SetCursorPos(ImVec2(x + 10 * s, y + 6 * s));
  ImGui::BeginChild("panel", ImVec2(width - 12 * s, height - 8 * s));
  ImDrawList& inside = *ImGui::GetWindowDrawList();
  const float room = ImGui::GetContentRegionAvail().x - 6 * s;
  ImFont* font = core_.smallFont();
  ImGui::PushFont(font);
  const Panel& panel = model_.panel();
  bool first = true;
  for (const PanelRow& row : panel.rows) {
    if (row.heading && !first) ImGui::Dummy(ImVec2(0, 5 * s));
    first = false;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float line = font->FontSize + 5 * s;
    if (row.bar >= 0) inside.AddRectFilled(ImVec2(at.x, at.y + line - 3 * s), ImVec2(at.x + std::max(2 * s, room * static_cast<float>(row.bar)), at.y + line - 1 * s), paint_[static_cast<std::size_t>(row.paint)][4]);
    const float right = ImGui::CalcTextSize(row.right.c_str()).x;
    const ImVec4 clip(at.x, at.y, at.x + room - right - 8 * s, at.y + line);
    const unsigned text = ink_[static_cast<std::size_t>(row.heading ? Ink::kText : Ink::kFaint)];
    inside.AddText(font, font->FontSize, at, text, row.left.c_str(), nullptr, 0, &clip);
    inside.AddText(ImVec2(at.x + room - right, at.y), ink_[static_cast<std::size_t>(Ink::kText)], row.right.c_str());
    ImGui::Dummy(ImVec2(room, line));
    if (ImGui::IsItemHovered() && ImGui::CalcTextSize(row.left.c_str()).x > clip.z - clip.x) ImGui::SetTooltip("%s", row.left.c_str());
  }
  if (!panel.histogram.empty()) {
    ImGui::Dummy(ImVec2(0, 6 * s));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float high = 60 * s, each = room / static_cast<float>(panel.histogram.size());
    std::int64_t most = 1;
    for (const HistogramBin& bin : panel.histogram) most = std::max(most, bin.count);
    for (std::size_t i = 0; i < panel.histogram.size(); ++i) {
      const float x0 = std::round(at.x + static_cast<float>(i) * each), x1 = std::round(at.x + static_cast<float>(i + 1) * each) - 1;
      const auto share = static_cast<float>(static_cast<double>(panel.histogram[i].count) / static_cast<double>(most));
      if (share > 0) inside.AddRectFilled(ImVec2(x0, at.y + high - std::max(2 * s, high * share)), ImVec2(x1, at.y + high), ink_[static_cast<std::size_t>(Ink::kFollowed)]);
    }
    inside.AddRectFilled(ImVec2(at.x, at.y + high), ImVec2(at.x + room, at.y + high + std::max(1.0f, std::floor(s))), ink_[static_cast<std::size_t>(Ink::kGrid)]);
    inside.AddText(ImVec2(at.x, at.y + high + 3 * s), ink_[static_cast<std::size_t>(Ink::kFaint)], panel.low.c_str());
    inside.AddText(ImVec2(at.x + room - ImGui::CalcTextSize(panel.high.c_str()).x, at.y + high + 3 * s), ink_[static_cast<std::size_t>(Ink::kFaint)], panel.high.c_str());
    ImGui::Dummy(ImVec2(room, high + 20 * s));
  }
  ImGui::PopFont();
  ImGui::EndChild();
}

void TimelineCanvas::legend(float y, float width) {
  const auto s = static_cast<float>(core_.scale());
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(ImVec2(0, y), ImVec2(width, y + std::max(1.0f, std::floor(s))), ink_[static_cast<std::size_t>(Ink::kGrid)]);
  ImFont* font = core_.smallFont();
  float x = 10 * s;
  const float top = std::round(y + 7 * s), side = std::round(10 * s);
  for (int p = 0; p < kPaints; ++p) {
    if (!scene_.paints[static_cast<std::size_t>(p)]) continue;
    const auto paint = static_cast<Paint>(p);
    const std::string_view name = nameOf(paint);
    const float text = font->CalcTextSizeA(font->FontSize, 1e9f, 0, name.data(), name.data() + name.size()).x;
    if (x + side + text + 24 * s > width) break;
    list.AddRectFilled(ImVec2(x, top), ImVec2(x + side, top + side), paint_[static_cast<std::size_t>(p)][isHatched(paint) ? 1 : 4]);
    if (isHatched(paint)) {
      const ImguiCore::Uv uv = core_.hatch();
      list.PrimReserve(6, 4);
      list.PrimRectUV(ImVec2(x, top), ImVec2(x + side, top + side), ImVec2(uv.u, uv.v), ImVec2(uv.u + side * uv.du, uv.v + side * uv.dv), paint_[static_cast<std::size_t>(p)][4]);
    }
    x += side + 5 * s;
    list.AddText(font, font->FontSize, ImVec2(x, top - 2 * s), ink_[static_cast<std::size_t>(Ink::kFaint)], name.data(), name.data() + name.size());
    x += text + 16 * s;
  }
  static const char kHelp[] = "wheel: zoom · drag: move · Shift+drag: measure · Ctrl+drag: zoom into · F: fit";
  const float help = font->CalcTextSizeA(font->FontSize, 1e9f, 0, kHelp).x;
  if (x + help + 10 * s < width) list.AddText(font, font->FontSize, ImVec2(width - help - 10 * s, top - 2 * s), ink_[static_cast<std::size_t>(Ink::kFaint)], kHelp);
}

}  // namespace spscope::ui
