// SPDX-License-Identifier: Apache-2.0
// One Dear ImGui context fed by Qt's events: fonts, style, an input queue. What shows its frames is raster_host.h or
// gl_host.h. ImGui's coordinates are device pixels here, so that what is drawn falls on pixels.
//
// ImGui 1.86 has no queue of its own: a press and a release between two frames would be lost. At most one transition of a
// button or key goes into a frame; what is left wakes the host again.
#pragma once

#include <QByteArray>
#include <QElapsedTimer>
#include <deque>
#include <functional>

#include "ui/model/theme.h"

class QEvent;
class QWidget;
struct ImDrawData;
struct ImFont;
struct ImGuiContext;

namespace spscope::ui {

class ImguiCore {
 public:
  ImguiCore();
  ~ImguiCore();
  ImguiCore(const ImguiCore&) = delete;
  ImguiCore& operator=(const ImguiCore&) = delete;

  /// Called when a frame is wanted. Set by the host.
  std::function<void()> wake;
  /// Builds the frame's widgets. Set by the owner.
  std::function<void()> draw;
  /// Told of fonts made anew, before the frame that uses them: the host uploads the atlas.
  std::function<void()> fonts_changed;

  /// Whether the event was an input and is used up. `host` takes the keyboard on a press.
  bool handle(QEvent* event, QWidget* host);
  /// Two frames from now on: ImGui settles what an input changed in the next one.
  void request();
  /// One frame. `scale`: device pixels per logical one. The data lives until the next.
  ImDrawData* frame(int width_px, int height_px, double scale);
  void setTheme(const Theme& theme);
  const Theme& theme() const { return theme_; }
  double scale() const { return scale_; }
  ImFont* font() const { return font_; }
  ImFont* smallFont() const { return small_; }
  /// Diagonal stripes in the atlas, kHatchWidth x kHatchHeight pixels, of period kHatchPeriod in either direction.
  static constexpr int kHatchPeriod = 6, kHatchWidth = 510, kHatchHeight = 66;
  struct Uv {
    float u = 0, v = 0, du = 0, dv = 0;  ///< of its corner; of a pixel
  };
  Uv hatch() const { return hatch_; }
  /// The glyphs, a byte of coverage a pixel; until the fonts change.
  struct Atlas {
    const unsigned char* alpha = nullptr;
    int width = 0, height = 0;
  };
  Atlas atlas() const;
  /// Makes this context ImGui's current one, which is global.
  void makeCurrent() const;
  /// Qt's cursor shape for what ImGui wants.
  int cursorShape() const;

 private:
  struct Input {
    enum Kind { kMove, kButton, kWheel, kKey, kText, kFocus } kind;
    float x = 0, y = 0;
    int code = 0;
    bool down = false;
    float wheel_x = 0, wheel_y = 0;
    QByteArray text{};
    int modifiers = 0;
  };
  void push(Input input, const QEvent* event);
  void takeInputs();
  void buildFonts();
  void applyStyle();

  ImGuiContext* context_ = nullptr;
  ImFont *font_ = nullptr, *small_ = nullptr;
  QByteArray font_file_;
  Theme theme_;
  double scale_ = 0;
  std::deque<Input> inputs_;
  int settle_ = 0;
  Uv hatch_;
  QElapsedTimer clock_;
  qint64 last_ns_ = 0;
};

/// Qt::Key as ImGui's KeysDown counts them; -1: none.
int keyIndex(int qt_key);

}  // namespace spscope::ui
