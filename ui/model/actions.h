// SPDX-License-Identifier: Apache-2.0
// Scripts for the window: one action a line, each ends when its work is done, the first that fails ends the script with its
// line. Lines that are empty or begin with # are skipped; words with spaces stand in double quotes.
//
//   open FILE            beside TRACE (a second one, below the open one)
//   set NAME VALUE       compile            verify             run
//   start-run (does not wait)                 wait (for all that is under way)      stop LANE
//   stage NAME           diff A B             undiff             select NODE|MODULE|%VALUE
//   values (of the selected node: a step of virtual ranks as far as it)
//   back                 forward              event N (of the trace)
//   expand MODULE|all    collapse MODULE|all  colour BY          fit [NODE|MODULE]  search WORDS...
//   curve KEY (of the memory panel: unsharded, sac, all, min-cut, layer-inputs, measured:0)
//   debug (starts it)    debug LINE (a command of `spscope debug`)        end-debug      pause
//   plan DEVICE N [max-seq|table|fits] (what fits)     take ROW (of it: sets what it is made of, compiles)
//   theme dark|light     size WIDTH HEIGHT    panel NAME         screenshot FILE    export FILE      close
//
// What is no action of its own but a command of the debugger (step, continue, break WHAT, until WHAT, print %VALUE, why %NAME, back N,
// ...) is one without the word debug, too; it fails where its answer is an error.
//
// A MODULE is a path, or the end of one that no other module has: layers.0.self_attn.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/graph_document.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

struct Action {
  int line = 0;
  std::string name;
  std::vector<std::string> words;
  std::string text;  ///< as written
};

/// Errors: usage, with the line: no such action, too few or too many words.
Result<std::vector<Action>> parseActions(const std::string& text);

/// What only the window can do.
class ActionView {
 public:
  virtual ~ActionView() = default;
  virtual Status setTheme(bool dark) = 0;
  virtual Status resizeTo(int width, int height) = 0;
  virtual Status showPanel(const std::string& name) = 0;
  virtual Status showCurve(const std::string& key) = 0;
  virtual Status fit(bool selection) = 0;
  virtual Status plan(const std::string& device, const std::string& gpus, const std::string& want) = 0;
  /// What the plan says, once it is there: an error where it failed.
  virtual Status planned() = 0;
  virtual Status takeRow(const std::string& row) = 0;
  virtual Status search(const std::string& query) = 0;
  virtual Status screenshot(const std::string& path) = 0;
  virtual Status exportGraph(const std::string& path) = 0;
  virtual void closeWindow() = 0;
};

class ActionRunner {
 public:
  /// `done` is called once, on the window's thread: no error where every action succeeded. All references outlive it.
  ActionRunner(Workspace& workspace, GraphDocument& graph, ActionView& view, std::vector<Action> actions, std::function<void(std::optional<Error>)> done);
  ~ActionRunner();
  void start();

 private:
  using Check = std::function<Status()>;
  void poke();
  void step();
  Status begin(const Action& action);
  bool idle() const;

  Workspace& workspace_;
  GraphDocument& graph_;
  ActionView& view_;
  std::vector<Action> actions_;
  std::function<void(std::optional<Error>)> done_;
  std::size_t at_ = 0;
  bool waiting_ = false, waits_for_run_ = false, poked_ = false, finished_ = false;
  Check check_;  ///< when the work of the current action is done: whether it went well
  int listener_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// Index of a stage by name, by number, or by the beginning of its name where that is unique; -1.
int stageNamed(const Workspace& workspace, const std::string& name);
/// The node of the shown graph ("linear_3", "%linear_3"), a value of it, or a module's path or the end of one. Errors: usage, with the nearest.
Result<Selection> selectionNamed(const GraphDocument& graph, const std::string& name);

}  // namespace spscope::ui
