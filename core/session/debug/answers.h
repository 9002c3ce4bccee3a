// SPDX-License-Identifier: Apache-2.0
// What the debugger answers: where the ranks stand and why, what a value is, how far it is from another, why a node is as it is. Plain
// data: front ends render it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/torch/value_compare.h"
#include "core/torch/value_summary.h"
#include "core/torch/value_window.h"

namespace spscope::session::debug {

/// A node as it is named to people.
struct NodeName {
  std::string name, op, module, source;
  std::string phase;         ///< "forward", "backward", "recompute"
  std::int64_t place = 0;    ///< in the program of the rank
};

struct RankPlace {
  int rank = 0;
  bool ended = false;
  bool collective = false;   ///< its next node is one: it goes on together with the others
  NodeName next;             ///< meaningless where it ended
};

enum class StopReason : std::uint8_t { kStart, kStep, kReached, kBreakpoint, kWaits, kEnd, kFailed, kPaused };
/// "start", "step", "reached", "breakpoint", "waits", "end", "failed", "paused".
std::string_view reasonWord(StopReason reason);

struct Stop {
  StopReason reason = StopReason::kStart;
  int breakpoint = 0;          ///< its number; 0: none
  int rank = -1;               ///< whose node it is about; -1: none in particular
  std::string node;            ///< that it is about: the one that is next, or the one that met a condition
  std::string message;         ///< in one sentence
  std::int64_t moves = 0;      ///< that the command made; negative: back
  std::int64_t made = 0;       ///< moves since the beginning of the step
  std::vector<RankPlace> ranks;
  std::vector<std::string> log;  ///< what breakpoints that do not stop had to say
};

struct RankValue {
  int rank = 0;
  exec::ValueSummary summary;
  exec::ValueScan scan;
};

struct ValueLook {
  std::string value;           ///< its name
  NodeName node;               ///< that makes it; an input: name and op only
  std::string placement;       ///< in words
  ir::Dims shape;              ///< of the whole
  ir::DType dtype = ir::DType::kUnknown;
  bool again = false;          ///< it was freed by now: computed again for this answer
  std::vector<RankValue> ranks;
};

struct Comparison {
  std::string value;
  int rank = -1, with = -1;    ///< of two ranks; -1: all ranks, put together, with the unsharded value
  bool again = false;
  std::string reference_node;  ///< of the unsharded program
  std::string placement;       ///< how the parts were put together
  std::string alone;           ///< why there is nothing to compare with; the rest means nothing then
  double rel = 0.0, allowed = 0.0;  ///< of what the difference is measured by
  bool within = true;
  std::vector<int> off;        ///< ranks that are off; empty where within
  exec::ValueDifference difference;
};

struct WhyRow {
  std::string question, answer, source;
};

}  // namespace spscope::session::debug
