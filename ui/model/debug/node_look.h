// SPDX-License-Identifier: Apache-2.0
// What the debugger's panels show of one node: the values that it reads and makes as they are now, one of them closely, and why the
// node is as it is. Made on the debugger's thread, plain data afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/session/debug/command.h"

namespace spscope::ui {

struct LookRequest {
  ir::NodeId node = ir::kNone;    ///< of the program; kNone: `value` alone, an input of the program
  std::string value;              ///< the one to be looked at closely; "": the first result, or what the node waits for
  int rank = -1;                  ///< whose part is drawn; -1: put together
  std::string window;             ///< "0,2:5,:": which elements; "": the beginning
  bool compare = true;            ///< with the unsharded twin, which runs as far for it
  bool again = false;             ///< a value that was freed is computed again; else it is said to be gone
  friend bool operator==(const LookRequest&, const LookRequest&) = default;
};

struct LookedValue {
  enum class There : std::uint8_t { kLive, kGone, kNotYet, kOnItsWay };
  std::string name;               ///< without "%"
  std::string role;               ///< "self", "result", "input"
  bool result = false;
  bool floating = false;
  There there = There::kLive;
  ir::NodeId producer = ir::kNone;
  std::string shape;              ///< "[1, S/4, 64] f32"
  std::optional<session::debug::ValueLook> look;  ///< of small values that are there, and of the chosen one
};

struct NodeLook {
  LookRequest asked;
  std::string node, op;           ///< names; node is "" for an input of the program
  std::vector<LookedValue> values;  ///< what it reads, then what it makes
  int chosen = -1;                ///< among values
  std::string absent;             ///< why the chosen one cannot be looked at
  bool may_be_computed = false;   ///< it is gone, and LookRequest::again brings it back
  bool again = false;             ///< it was computed again for this look
  std::optional<session::debug::Comparison> comparison;
  std::string not_compared;       ///< why there is no comparison
  std::optional<session::debug::Answer::Window> heat, window;
  std::string window_problem;
  std::vector<session::debug::WhyRow> why;
};

/// Never fails as a whole: what cannot be had is said in its place. Values of more than `scanned` elements on all ranks are read only
/// where they are the chosen one. Errors: cancelled.
Result<NodeLook> lookAt(session::debug::Debugger& debugger, const LookRequest& what, const CancelToken& stop, std::int64_t scanned = 1 << 20);

/// "min -1.2  mean 0.01  max 3.4  NaN 2", over the ranks that were looked at.
std::string figuresText(const session::debug::ValueLook& look);

}  // namespace spscope::ui
