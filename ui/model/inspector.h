// SPDX-License-Identifier: Apache-2.0
// Everything that is known of what is selected: a node, a value, a module. Sections of rows as text; a section without
// rows says why. Follows the selection, the stage, the compilation and the opened trace of a Workspace.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/node_times.h"
#include "ui/model/source_file.h"
#include "ui/model/workspace.h"

namespace spscope::ui {

struct InspectorRow {
  std::string label, text;
  bool code = false;                 ///< set in the monospaced face
  std::optional<Selection> target;   ///< what a click on it selects
  ir::NodeId read_values = ir::kNone;  ///< the node whose values a click on it reads, in a step of virtual ranks
  std::string act = {};              ///< what else a click on it does: "break source llama.py:71" sets a breakpoint there, or removes it
  bool link() const { return target.has_value() || read_values != ir::kNone || !act.empty(); }
};
struct InspectorSection {
  std::string title;
  std::vector<InspectorRow> rows;
  std::string absent;                ///< why there are no rows, or what is missing among them
};
struct InspectorPage {
  std::string title;                 ///< "%linear_3"; empty: nothing is selected
  std::string subtitle;              ///< "aten.linear.default · stage insert-all-to-all"
  std::string hint;                  ///< what to do, where nothing is selected
  std::vector<InspectorSection> sections;
  std::optional<SourceLine> source;
  const InspectorSection* find(const std::string& title) const;  ///< nullptr where absent
};
/// All of it as lines, for the clipboard.
std::string pageText(const InspectorPage& page);

/// What the workspace's selection is. `times` may be null (no trace, or not read yet: `reading`). O(graph).
InspectorPage inspect(const Workspace& workspace, const NodeTimes* times, bool reading = false);

/// Keeps a page current. Used on the window's thread; ends with the panel, before the workspace.
class Inspector {
 public:
  explicit Inspector(Workspace& workspace);
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  const InspectorPage& page() const { return page_; }
  /// A click on a row that is a link.
  void follow(const InspectorRow& row);
  std::function<void()> on_changed;

 private:
  void refresh();
  void readTimes();

  Workspace& workspace_;
  int listener_ = 0;
  InspectorPage page_;
  std::shared_ptr<const TraceDocument> read_;       ///< whose times these are, or will be
  std::shared_ptr<const NodeTimes> times_;
  std::shared_ptr<Inspector*> self_;                ///< for jobs that end after this
};

}  // namespace spscope::ui
