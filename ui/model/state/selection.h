// SPDX-License-Identifier: Apache-2.0
// The one selection: a node (of the graph at the chosen stage, and so of the memory curve, the source and the log), and
// perhaps a value, a module, an event of the trace. Whoever changes it tells all; back and forward walk through its past.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::ui {

struct Selection {
  ir::NodeId node = ir::kNone;
  ir::ValueId value = ir::kNone;     ///< of that node, or a graph input
  std::string module;                ///< "layers.0.attn": where a collapsed box is meant rather than a node
  std::int32_t event = -1;           ///< index into the trace's events
  int rank = -1;                     ///< whose values and times are looked at; -1: the reported one
  bool empty() const { return node == ir::kNone && value == ir::kNone && module.empty() && event < 0; }
  friend bool operator==(const Selection&, const Selection&) = default;
};

/// The past of the selection, as a browser keeps it: a new one drops what lay ahead.
class SelectionHistory {
 public:
  const Selection& current() const { return past_[at_]; }
  /// False where it is the current one already. At most `kKept` are kept.
  bool set(Selection selection);
  bool canBack() const { return at_ > 0; }
  bool canForward() const { return at_ + 1 < past_.size(); }
  bool back();
  bool forward();
  void clear();
  static constexpr std::size_t kKept = 200;

 private:
  std::vector<Selection> past_{Selection{}};
  std::size_t at_ = 0;
};

}  // namespace spscope::ui
