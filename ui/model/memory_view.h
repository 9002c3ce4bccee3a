// SPDX-License-Identifier: Apache-2.0
// The memory panel's model: which curves are looked at (unsharded, sharded under each policy, measured per rank), compiled
// and read off the window's thread and kept by their settings; and the picture of them for a viewport. Qt only paints it.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/memory_curve.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

struct MemoryChoice {
  std::string key;      ///< "unsharded", "sac", "all", "min-cut", "layer-inputs", "budget=0.5", "measured:0"
  std::string label, tooltip;
  std::string brief;       ///< beside others of its kind: "rank 3" after "measured, rank 2"; else empty
  bool shown = false, focused = false;
  bool waiting = false; ///< it is being compiled or read
  std::string absent;   ///< why it has no curve
  std::int64_t peak = 0;  ///< 0: not known yet
};

/// Pixels; x and y of the picture's left upper corner are 0. `from` and `to`: the part of the step that is looked at.
struct MemoryViewport {
  double width = 0, height = 0;
  double from = 0, to = 1;
};
struct PlotPoint {
  double x = 0, y = 0;
};

struct MemoryPicture {
  struct Area {  ///< of the focused curve, stacked from the bottom
    passes::MemoryClass memory_class = passes::MemoryClass::kParameters;
    std::string label;
    std::vector<PlotPoint> outline;  ///< closed
  };
  struct Outline {
    std::string key, label;
    int number = 0;  ///< of the choice: for colour and dashes
    bool focused = false;
    std::vector<PlotPoint> points;
  };
  struct Text {
    double x = 0, y = 0;
    std::string text;
  };
  double left = 0, top = 0, right = 0, bottom = 0;  ///< of the plot inside its margins
  std::vector<Area> areas;
  std::vector<Outline> outlines;
  std::vector<Text> scale;            ///< y of each line across, and its text
  std::vector<Text> phases;           ///< x where each begins, and its name
  std::vector<std::string> beyond;    ///< curves and limits that lie above the picture: "unsharded peak 311 GiB"
  std::optional<Text> limit;          ///< y of the line
  std::optional<Text> peak;           ///< the focused curve's
  std::vector<double> selected;       ///< x of the selected node's places
  std::string absent;                 ///< why there is nothing to paint
};

struct MemoryHover {
  ir::NodeId node = ir::kNone;
  std::string name;
  double x = 0;
  std::vector<std::string> lines;     ///< node, bytes, the largest classes
};

class MemoryView {
 public:
  explicit MemoryView(Workspace& workspace);
  ~MemoryView();
  MemoryView(const MemoryView&) = delete;
  MemoryView& operator=(const MemoryView&) = delete;

  std::function<void()> on_changed;

  const std::vector<MemoryChoice>& choices() const { return choices_; }
  void show(const std::string& key, bool shown);
  /// Shows it, and paints its classes. What is compiled by the settings is focused at first.
  void focus(const std::string& key);

  /// "sac on 2 ranks · peak 41.6 GiB of 80 GiB at %mm_12 (backward)", or what to do.
  const std::string& header() const { return header_; }
  /// Above the limit.
  bool overLimit() const;
  /// The largest values at the focused curve's peak; a click on one selects its node.
  const std::vector<StepMemory::Living>& atPeak() const;
  MemoryPicture picture(const MemoryViewport& viewport) const;
  std::optional<MemoryHover> at(const MemoryViewport& viewport, double x) const;
  /// Selects the node there; shows the last stage where the shown one lacks it.
  void click(const MemoryViewport& viewport, double x);
  void selectNode(ir::NodeId node, const std::string& name);
  void selectPeak();

 private:
  struct Entry {
    std::shared_ptr<const StepMemory> curve;
    std::string failed;
    bool asked = false;
  };
  void rebuild();     ///< choices and what they need, after a change of the workspace
  void askForMissing();
  void told();
  std::string fingerprint() const;  ///< of all that curves depend on but the policy
  const StepMemory* curveOf(const std::string& key) const;
  const StepMemory* focused() const { return curveOf(focus_); }
  const MemoryChoice* find(const std::string& key) const;

  Workspace& workspace_;
  int listener_ = 0;
  std::vector<MemoryChoice> choices_;
  std::vector<std::string> shown_;    ///< keys, in the order in which they were asked for
  std::string focus_, current_;       ///< current_: the key of the compiled settings
  std::string header_;
  std::string made_for_;              ///< fingerprint that entries_ belong to
  std::map<std::string, Entry> entries_;
  std::shared_ptr<const session::CompileOutcome> compiled_;
  std::shared_ptr<const TraceDocument> trace_;
  std::shared_ptr<MemoryView*> self_; ///< for jobs that end after this
};

}  // namespace spscope::ui
