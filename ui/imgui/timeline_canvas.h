// SPDX-License-Identifier: Apache-2.0
// Draws a TimelineModel with Dear ImGui and passes pointer and keys on to it. Everything that means something is the model's.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "ui/imgui/imgui_core.h"
#include "ui/model/timeline/timeline_model.h"

namespace spscope::ui {

class TimelineCanvas {
 public:
  TimelineCanvas(ImguiCore& core, TimelineModel& model) : core_(core), model_(model) {}
  /// What to say where there is no trace.
  std::string message;
  /// An event was clicked, or found by a search.
  std::function<void(int source, int event)> on_choose;

  /// Between NewFrame and Render.
  void draw();
  /// The keyboard goes to the search field in the next frame.
  void focusSearch() { focus_search_ = true; }
  /// Where the plot begins, device pixels.
  double plotY() const;

 private:
  unsigned colour(const Shade& shade) const;
  void refreshColours();
  void toolbar(float width);
  void plot(float y, float width, float height);
  void drawScene(float y, float width, float height);
  void panel(float x, float y, float width, float height);
  void legend(float y, float width);
  void keys();
  void pointer(float y, bool hovered);

  ImguiCore& core_;
  TimelineModel& model_;
  Scene scene_;
  std::uint64_t scene_version_ = 0;  ///< of the model, when the scene was made
  std::array<std::array<unsigned, 5>, kPaints> paint_{};
  std::array<unsigned, kInks> ink_{};
  std::array<unsigned, kPaints> on_paint_{};  ///< text on a rectangle
  std::array<char, 200> search_{};
  bool focus_search_ = false, searching_ = false;
};

}  // namespace spscope::ui
