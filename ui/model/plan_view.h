// SPDX-License-Identifier: Apache-2.0
// The panel What fits: which configurations of the open model fit a device, how long a context can be in each; a table, the peak
// against the length as a picture for a viewport, and from a row to the settings. Planned off the window's thread, in the lane
// "plan", by the request that the command uses. Qt only paints it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/plan/plan.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

/// One thing that is asked for, as the form shows it.
struct PlanField {
  std::string name, label, tooltip;  ///< "device", "gpus", "want", "headroom"
  std::string value;
  std::vector<std::string> choices;
  bool free = false;                 ///< others may be typed
};

struct PlanTableRow {
  std::vector<std::string> cells;    ///< as many as PlanView::columns()
  std::string tooltip;               ///< memory by class and where the peak is; or why it cannot be
  bool legal = true;
  bool best = false;                 ///< no other row is longer (or smaller) for less work
  bool focused = false;              ///< whose curves are shown
  session::Verdict verdict = session::Verdict::kFits;
};

/// Pixels; x and y of the picture's left upper corner are 0.
struct PlanPicture {
  struct Point {
    double x = 0, y = 0;
  };
  struct Line {
    int number = 0;                  ///< for colour and dashes
    std::string name;
    std::vector<Point> points;
    std::optional<Point> longest;    ///< where it ends for certain
    std::string longest_text;
  };
  struct Text {
    double at = 0;
    std::string text;
  };
  double left = 0, top = 0, right = 0, bottom = 0;  ///< of the plot inside its margins
  std::vector<Line> lines;
  std::vector<Text> scale;           ///< y of each line across
  std::vector<Text> lengths;         ///< x of each length
  std::vector<Text> room;            ///< y of the device's lines
  std::string title;
  std::string absent;                ///< why there is nothing to paint
};

class PlanView {
 public:
  explicit PlanView(Workspace& workspace);
  ~PlanView();
  PlanView(const PlanView&) = delete;
  PlanView& operator=(const PlanView&) = delete;

  std::function<void()> on_changed;

  std::vector<PlanField> fields() const;
  /// Error usage: no such field, no such value (with the legal ones).
  Status set(const std::string& name, const std::string& value);

  bool running() const { return workspace_.jobs().busy("plan"); }
  std::string whyNotPlan() const;    ///< "" where it can be asked
  void plan();
  void stop() { workspace_.stop("plan"); }

  /// "Longest on 8 x H100-80: 1146880 tokens with sp 8, ...", or what to do.
  const std::string& header() const { return header_; }
  const std::optional<Error>& error() const { return error_; }
  std::vector<std::string> columns() const;
  std::vector<PlanTableRow> rows() const;
  /// Shows the curves of that row.
  void focus(int row);
  int focused() const { return focus_; }
  /// Sets what the row is made of, its length too, and compiles. What cannot be run yet is said in the log. Error usage: no such row.
  Status take(int row);
  PlanPicture picture(double width, double height) const;
  const session::PlanOutcome* outcome() const { return outcome_.get(); }

 private:
  struct Asked {
    std::string device = "H100-80", want = "max-seq", headroom = "3";
    int gpus = 8;
  };
  void tell();
  Workspace& workspace_;
  int listener_ = 0;
  Asked asked_, answered_;           ///< answered_: what outcome_ is of
  std::string planned_path_;         ///< of the model that outcome_ is of
  std::shared_ptr<const session::PlanOutcome> outcome_;
  std::optional<Error> error_;
  std::string header_;
  int focus_ = 0;
  std::shared_ptr<PlanView*> self_;  ///< for jobs that end after this
};

}  // namespace spscope::ui
