// SPDX-License-Identifier: Apache-2.0
// What the graph shows of the debugger: at which nodes ranks stand, and where breakpoints are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/debug/breakpoint_list.h"

namespace spscope::ui {

struct NodeMark {
  enum class Dot : std::uint8_t { kNone, kOff, kOn };
  Dot dot = Dot::kNone;
  std::string sign;         ///< inside the dot: "" stops always, "?" under a condition, "l" only logs, "s" saves
  std::vector<int> ranks;   ///< that run this node next
  bool waits = false;       ///< ... and wait for others there
};
using DebugMarks = std::map<ir::NodeId, NodeMark>;

/// Breakpoints that mean any node are at none in particular. `stop`: null where nothing is debugged. O(graph · breakpoints).
DebugMarks marksOf(const ir::Graph& graph, const std::vector<ListedBreakpoint>& breakpoints, const session::debug::Stop* stop);

/// "0-3, 6".
std::string rangesText(const std::vector<int>& ranks);

/// For whom a rank that stands before a collective waits: "" where it does not.
std::string waitsFor(const session::debug::Stop& stop, int rank);

}  // namespace spscope::ui
