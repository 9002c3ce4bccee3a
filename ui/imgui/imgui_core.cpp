// SPDX-License-Identifier: Apache-2.0
#include "ui/imgui/imgui_core.h"

#include <imgui.h>

#include <QClipboard>
#include <QFile>
#include <QGuiApplication>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>
#include <QWidget>
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>

namespace spscope::ui {
namespace {

QByteArray findFont() {
  for (const char* path : {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "/usr/share/fonts/dejavu/DejaVuSans.ttf", "/usr/share/fonts/TTF/DejaVuSans.ttf",
                           "/usr/share/fonts/truetype/liberation2/LiberationSans-Regular.ttf", "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
                           "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf", "/System/Library/Fonts/Supplemental/Arial.ttf", "C:/Windows/Fonts/segoeui.ttf"}) {
    QFile file(QString::fromLatin1(path));
    if (file.open(QIODevice::ReadOnly)) return file.readAll();
  }
  return {};
}

}  // namespace

int keyIndex(int qt_key) {
  if (qt_key >= 0 && qt_key < 256) return qt_key;
  if ((qt_key & 0xffffff00) == 0x01000000) return 256 + (qt_key & 0xff);
  return -1;
}

ImguiCore::ImguiCore() : font_file_(findFont()) {
  ImGuiContext* before = ImGui::GetCurrentContext();
  context_ = ImGui::CreateContext();
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.BackendFlags |= ImGuiBackendFlags_HasMouseCursors | ImGuiBackendFlags_RendererHasVtxOffset;
  io.ConfigInputTextCursorBlink = false;  // an idle window draws nothing
  io.MouseDragThreshold = 4;
  static constexpr std::array<std::array<int, 2>, 22> kKeys{{
      {ImGuiKey_Tab, Qt::Key_Tab}, {ImGuiKey_LeftArrow, Qt::Key_Left}, {ImGuiKey_RightArrow, Qt::Key_Right}, {ImGuiKey_UpArrow, Qt::Key_Up},
      {ImGuiKey_DownArrow, Qt::Key_Down}, {ImGuiKey_PageUp, Qt::Key_PageUp}, {ImGuiKey_PageDown, Qt::Key_PageDown}, {ImGuiKey_Home, Qt::Key_Home},
      {ImGuiKey_End, Qt::Key_End}, {ImGuiKey_Insert, Qt::Key_Insert}, {ImGuiKey_Delete, Qt::Key_Delete}, {ImGuiKey_Backspace, Qt::Key_Backspace},
      {ImGuiKey_Space, Qt::Key_Space}, {ImGuiKey_Enter, Qt::Key_Return}, {ImGuiKey_Escape, Qt::Key_Escape}, {ImGuiKey_KeyPadEnter, Qt::Key_Enter},
      {ImGuiKey_A, Qt::Key_A}, {ImGuiKey_C, Qt::Key_C}, {ImGuiKey_V, Qt::Key_V}, {ImGuiKey_X, Qt::Key_X}, {ImGuiKey_Y, Qt::Key_Y}, {ImGuiKey_Z, Qt::Key_Z}}};
  for (const auto& key : kKeys) io.KeyMap[key[0]] = keyIndex(key[1]);
  io.SetClipboardTextFn = [](void*, const char* text) { QGuiApplication::clipboard()->setText(QString::fromUtf8(text)); };
  io.GetClipboardTextFn = [](void*) -> const char* {
    static QByteArray kept;
    kept = QGuiApplication::clipboard()->text().toUtf8();
    return kept.constData();
  };
  ImGui::SetCurrentContext(before);
  clock_.start();
}

ImguiCore::~ImguiCore() {
  ImGuiContext* before = ImGui::GetCurrentContext();
  ImGui::DestroyContext(context_);
  ImGui::SetCurrentContext(before == context_ ? nullptr : before);
}

void ImguiCore::makeCurrent() const { ImGui::SetCurrentContext(context_); }

void ImguiCore::setTheme(const Theme& theme) {
  theme_ = theme;
  if (scale_ > 0) applyStyle();
  request();
}

void ImguiCore::applyStyle() {
  makeCurrent();
  ImGuiStyle style;
  theme_.dark() ? ImGui::StyleColorsDark(&style) : ImGui::StyleColorsLight(&style);
  const auto set = [&](ImGuiCol slot, Tone tone) {
    const Color c = theme_.color(tone);
    style.Colors[slot] = ImVec4(static_cast<float>(c.r) / 255, static_cast<float>(c.g) / 255, static_cast<float>(c.b) / 255, 1);
  };
  set(ImGuiCol_WindowBg, Tone::kPanel), set(ImGuiCol_ChildBg, Tone::kPanel), set(ImGuiCol_PopupBg, Tone::kRaised), set(ImGuiCol_Border, Tone::kLine);
  set(ImGuiCol_Text, Tone::kText), set(ImGuiCol_TextDisabled, Tone::kSecondary), set(ImGuiCol_FrameBg, Tone::kRaised), set(ImGuiCol_FrameBgHovered, Tone::kHover);
  set(ImGuiCol_FrameBgActive, Tone::kHover), set(ImGuiCol_Button, Tone::kButton), set(ImGuiCol_ButtonHovered, Tone::kHover), set(ImGuiCol_ButtonActive, Tone::kSelection);
  set(ImGuiCol_TextSelectedBg, Tone::kSelection), set(ImGuiCol_PlotHistogram, Tone::kAccent), set(ImGuiCol_NavHighlight, Tone::kAccent);
  style.WindowRounding = 0, style.WindowBorderSize = 0, style.WindowPadding = ImVec2(0, 0), style.FrameRounding = 3, style.FrameBorderSize = 1;
  style.FramePadding = ImVec2(6, 2), style.PopupRounding = 3;
  style.AntiAliasedLinesUseTex = false;
  style.ScaleAllSizes(static_cast<float>(scale_));
  ImGui::GetStyle() = style;
}

void ImguiCore::buildFonts() {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.OversampleH = 2, config.OversampleV = 1;
  config.PixelSnapH = true;
  // Latin, Greek mu, punctuation with the ellipsis, arrows, triangles.
  static constexpr std::array<ImWchar, 11> kRanges{0x20, 0xff, 0x3bc, 0x3bc, 0x2010, 0x2027, 0x2190, 0x21ff, 0x25a0, 0x25ff, 0};
  const auto load = [&](double points) {
    const auto size = static_cast<float>(std::round(points * scale_));
    if (font_file_.isEmpty()) {
      ImFontConfig own;
      own.SizePixels = size;
      return atlas.AddFontDefault(&own);
    }
    return atlas.AddFontFromMemoryTTF(font_file_.data(), static_cast<int>(font_file_.size()), size, &config, kRanges.data());
  };
  font_ = load(12.5), small_ = load(11);
  const int stripes = atlas.AddCustomRectRegular(kHatchWidth, kHatchHeight);
  atlas.Build();
  unsigned char* alpha = nullptr;
  int width = 0, height = 0;
  atlas.GetTexDataAsAlpha8(&alpha, &width, &height);
  const ImFontAtlasCustomRect& rect = *atlas.GetCustomRectByIndex(stripes);
  for (int y = 0; y < kHatchHeight; ++y)
    for (int x = 0; x < kHatchWidth; ++x) alpha[(rect.Y + y) * width + rect.X + x] = (x + y) % kHatchPeriod < 2 ? 255 : (x + y) % kHatchPeriod == 2 ? 70 : 0;
  hatch_ = {static_cast<float>(rect.X) / static_cast<float>(width), static_cast<float>(rect.Y) / static_cast<float>(height), 1.0f / static_cast<float>(width), 1.0f / static_cast<float>(height)};
}

ImguiCore::Atlas ImguiCore::atlas() const {
  makeCurrent();
  unsigned char* alpha = nullptr;
  Atlas out;
  ImGui::GetIO().Fonts->GetTexDataAsAlpha8(&alpha, &out.width, &out.height);
  out.alpha = alpha;
  return out;
}

void ImguiCore::request() {
  settle_ = 2;
  if (wake) wake();
}

void ImguiCore::push(Input input, const QEvent* event) {
  if (event->isInputEvent()) {
    // From every event: key events come only while we have the keyboard.
    const auto m = static_cast<const QInputEvent*>(event)->modifiers();
    input.modifiers = (m & Qt::ControlModifier ? 1 : 0) | (m & Qt::ShiftModifier ? 2 : 0) | (m & Qt::AltModifier ? 4 : 0) | (m & Qt::MetaModifier ? 8 : 0);
  }
  if (input.kind == Input::kMove && !inputs_.empty() && inputs_.back().kind == Input::kMove) inputs_.back() = std::move(input);
  else inputs_.push_back(std::move(input));
  request();
}

bool ImguiCore::handle(QEvent* e, QWidget* host) {
  switch (e->type()) {
    case QEvent::MouseMove: {
      const auto* m = static_cast<QMouseEvent*>(e);
      push({.kind = Input::kMove, .x = static_cast<float>(m->position().x()), .y = static_cast<float>(m->position().y())}, e);
      break;
    }
    case QEvent::MouseButtonPress: case QEvent::MouseButtonDblClick: case QEvent::MouseButtonRelease: {
      const auto* m = static_cast<QMouseEvent*>(e);
      const int button = m->button() == Qt::LeftButton ? 0 : m->button() == Qt::RightButton ? 1 : m->button() == Qt::MiddleButton ? 2 : -1;
      const bool down = e->type() != QEvent::MouseButtonRelease;
      if (button >= 0) push({.kind = Input::kButton, .x = static_cast<float>(m->position().x()), .y = static_cast<float>(m->position().y()), .code = button, .down = down}, e);
      if (down) host->setFocus(Qt::MouseFocusReason);
      break;
    }
    case QEvent::Wheel: {
      const auto* w = static_cast<QWheelEvent*>(e);
      push({.kind = Input::kWheel, .x = static_cast<float>(w->position().x()), .y = static_cast<float>(w->position().y()),
            .wheel_x = static_cast<float>(w->angleDelta().x()) / 120, .wheel_y = static_cast<float>(w->angleDelta().y()) / 120}, e);
      break;
    }
    case QEvent::Leave: push({.kind = Input::kMove, .x = -FLT_MAX, .y = -FLT_MAX}, e); return false;
    case QEvent::FocusIn: case QEvent::FocusOut: push({.kind = Input::kFocus, .down = e->type() == QEvent::FocusIn}, e); return false;
    case QEvent::ShortcutOverride:  // what is typed into a field is no shortcut of the window
      makeCurrent();
      if (!ImGui::GetIO().WantTextInput) return false;
      break;
    case QEvent::KeyPress: case QEvent::KeyRelease: {
      const auto* k = static_cast<QKeyEvent*>(e);
      const bool down = e->type() == QEvent::KeyPress;
      if (const int index = keyIndex(k->key()); index >= 0) push({.kind = Input::kKey, .code = index, .down = down}, e);
      const QString text = k->text();
      if (down && !text.isEmpty() && text.at(0).isPrint() && !(k->modifiers() & (Qt::ControlModifier | Qt::AltModifier))) push({.kind = Input::kText, .text = text.toUtf8()}, e);
      if (k->key() == Qt::Key_Tab || k->key() == Qt::Key_Backtab) return false;  // leaves the widget
      break;
    }
    case QEvent::InputMethod: push({.kind = Input::kText, .text = static_cast<QInputMethodEvent*>(e)->commitString().toUtf8()}, e); break;
    default: return false;
  }
  e->accept();
  return true;
}

void ImguiCore::takeInputs() {
  ImGuiIO& io = ImGui::GetIO();
  bool button = false;
  std::array<bool, 512> key{};
  const auto at = [&](const Input& i) {
    const auto scale = static_cast<float>(scale_);
    io.MousePos = i.x == -FLT_MAX ? ImVec2(-FLT_MAX, -FLT_MAX) : ImVec2(i.x * scale, i.y * scale);
  };
  while (!inputs_.empty()) {
    const Input& i = inputs_.front();
    if (button && i.kind != Input::kText) break;
    if (i.kind == Input::kKey && key[static_cast<std::size_t>(i.code)]) break;
    if (i.kind != Input::kFocus) io.KeyCtrl = i.modifiers & 1, io.KeyShift = i.modifiers & 2, io.KeyAlt = i.modifiers & 4, io.KeySuper = i.modifiers & 8;
    switch (i.kind) {
      case Input::kMove: at(i); break;
      case Input::kButton: at(i), io.MouseDown[i.code] = i.down, button = true; break;
      case Input::kWheel: at(i), io.MouseWheel += i.wheel_y, io.MouseWheelH += i.wheel_x; break;
      case Input::kKey: io.KeysDown[i.code] = i.down, key[static_cast<std::size_t>(i.code)] = true; break;
      case Input::kText: io.AddInputCharactersUTF8(i.text.constData()); break;
      case Input::kFocus:
        io.AddFocusEvent(i.down);
        if (!i.down) std::fill(std::begin(io.MouseDown), std::end(io.MouseDown), false), std::fill(std::begin(io.KeysDown), std::end(io.KeysDown), false);
        break;
    }
    inputs_.pop_front();
  }
  if (!inputs_.empty()) settle_ = 2;
}

ImDrawData* ImguiCore::frame(int width_px, int height_px, double scale) {
  makeCurrent();
  ImGuiIO& io = ImGui::GetIO();
  if (scale != scale_) {
    scale_ = scale;
    applyStyle();
    buildFonts();
    if (fonts_changed) fonts_changed();
  }
  io.DisplaySize = ImVec2(static_cast<float>(width_px), static_cast<float>(height_px));
  const qint64 now = clock_.nsecsElapsed();
  io.DeltaTime = std::clamp(static_cast<float>(now - last_ns_) * 1e-9f, 1e-4f, 0.1f);
  last_ns_ = now;
  takeInputs();
  ImGui::NewFrame();
  if (draw) draw();
  ImGui::Render();
  if (settle_ > 0 && --settle_ > 0 && wake) wake();
  return ImGui::GetDrawData();
}

int ImguiCore::cursorShape() const {
  static constexpr std::array<Qt::CursorShape, 9> kShapes{Qt::ArrowCursor, Qt::IBeamCursor, Qt::SizeAllCursor, Qt::SizeVerCursor, Qt::SizeHorCursor,
                                                          Qt::SizeBDiagCursor, Qt::SizeFDiagCursor, Qt::PointingHandCursor, Qt::ForbiddenCursor};
  makeCurrent();
  const int wanted = ImGui::GetMouseCursor();
  return wanted >= 0 && wanted < static_cast<int>(kShapes.size()) ? kShapes[static_cast<std::size_t>(wanted)] : Qt::ArrowCursor;
}

}  // namespace spscope::ui
