// SPDX-License-Identifier: Apache-2.0
// The run panel's model: what a run is started with, where each rank is while it runs, loss, step time and memory as plots for
// a viewport, how it failed; and the verdict of verify with the worst gradients.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/settings_model.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

/// One setting of a run, as the form shows it.
struct RunField {
  SettingInfo info;
  std::string value;
  std::vector<ChoiceState> choices;
};

/// One rank's row: words, so that nothing is told by colour alone.
struct RankRow {
  int rank = 0;
  std::string state;       ///< "in step 3", "waits for other ranks", "done", "killed by signal 9 (SIGKILL)"
  std::string step, node, collective;
  std::string memory, predicted;  ///< the peak, once it is known
  bool failed = false;     ///< the one that failed first
  bool ended = false;
};

/// Pixels, y downwards.
struct RunPlot {
  std::string title;       ///< "loss 2.31", "step 14.1 ms, of it waiting 3.2 ms"
  std::string absent;      ///< why there is nothing to paint
  struct Point {
    double x = 0, y = 0;
  };
  double left = 0;         ///< where the axis is; what is left of it is for the scale
  std::vector<Point> line; ///< loss; or the top of the step times
  std::vector<Point> exposed;            ///< step times: of it waiting for communication, from the bottom up
  std::vector<std::pair<double, std::string>> scale;  ///< y and its text
  std::string first, last; ///< what stands at the left and the right end
};

struct RunFailureText {
  std::string title;       ///< "rank 1 failed at %linear_3"
  std::string message, remedy;
  std::vector<std::string> details;  ///< last lines of the rank's output, the table of all ranks
  std::string log;         ///< path
  std::string node;        ///< "" where not known; a click selects it
};

struct VerdictRow {
  std::string name;
  double rel = 0, norm = 0, got = 0, wanted = 0;
  bool within = true;
};
struct Verdict {
  enum class Kind { kNone, kRunning, kEqual, kDifferent, kFailed } kind = Kind::kNone;
  std::string title;       ///< "equal: worst gradient 4.1e-16 of 1e-08 allowed"
  std::string detail;      ///< the loss on both sides; or why there is no verdict
  std::vector<VerdictRow> rows;  ///< every gradient, the worst first
  std::string first;       ///< "first difference: %mul_5 ..."; empty: none is known
  std::string first_node;  ///< what a click on it selects
};
Verdict verdictOf(const session::VerifyOutcome& outcome);

class RunView {
 public:
  explicit RunView(Workspace& workspace);
  ~RunView();
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;

  std::function<void()> on_changed;

  /// "ranks", "steps", "optimizer", ...: in the order of the form.
  std::vector<RunField> fields() const;
  Status set(const std::string& name, const std::string& value) { return workspace_.set(name, value); }

  bool running() const { return workspace_.runProgress().running; }
  /// "" where it can be started; else why not.
  std::string whyNotRun() const;
  void start() { workspace_.run(); }
  void stop() { workspace_.stop("run"); }
  void verify() { workspace_.verify(); }

  /// "step 3 of 10 · loss 2.31 · 14.1 ms a step", or what to do.
  std::string header() const;
  std::vector<RankRow> ranks() const;
  std::string ranksAbsent() const;         ///< why there are no rows
  RunPlot lossPlot(double width, double height) const;
  RunPlot timePlot(double width, double height) const;
  std::optional<RunFailureText> failure() const;
  std::string remark() const;              ///< "stopped after 3 steps"; where the profile and the weights lie

  Verdict verdict() const;
  /// Selects the first node that reads that parameter (and the parameter itself), in the shown stage.
  void selectParameter(const std::string& name);
  /// By its name as ranks report it ("%linear_3" or "linear_3"); shows the last stage where the shown one lacks it.
  void selectNode(const std::string& name);

 private:
  Workspace& workspace_;
  int listener_ = 0;
  std::shared_ptr<const session::VerifyOutcome> announced_;  ///< whose first difference was selected
};

}  // namespace spscope::ui
