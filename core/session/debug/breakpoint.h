// SPDX-License-Identifier: Apache-2.0
// A breakpoint: at which nodes, on which ranks, under which condition, and what is done there. Without a condition on values it
// stands before the node; with one, behind it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/session/debug/node_query.h"

namespace spscope::session::debug {

struct Condition {
  enum class Kind : std::uint8_t {
    kAlways,
    kNan,      ///< some element of a result is NaN
    kInf,      ///< ... is infinite
    kAbs,      ///< ... is larger than `limit` in magnitude
    kZeros,    ///< the share of zeros is larger than `limit`
    kRanks,    ///< a result that is the same on every rank by its placement is not
    kDiffers,  ///< a result, put together from the ranks, is not the unsharded one: by more than `limit` of its norm
  };
  Kind kind = Kind::kAlways;
  double limit = 0.0;      ///< kDiffers: 0 means what the precision allows
  std::int64_t hit = 1;    ///< from which time on
  bool onValues() const { return kind != Kind::kAlways; }
  bool acrossRanks() const { return kind == Kind::kRanks || kind == Kind::kDiffers; }
  std::string text() const;  ///< "nan", "abs>3", "differs hit 2"; "" for kAlways from the first time on
};

enum class Action : std::uint8_t { kStop, kLog, kSave };

struct Breakpoint {
  int id = 0;
  NodeQuery where;
  Condition condition;
  Action action = Action::kStop;
  std::string path;       ///< kSave: "%" in it becomes the value's name (added where several values are saved without it), and the rank is added before the ending
  int rank = -1;          ///< of one rank only; -1: of any
  std::int64_t hits = 0;  ///< times that node and condition were met
  std::string text() const;  ///< as it is typed behind "break"
};

/// The words behind "break": WHAT [if CONDITION [hit N]] [do stop|log|save PATH] [rank R]; WHAT may be absent where there is a
/// condition. Errors: usage.
Result<Breakpoint> parseBreakpoint(std::vector<std::string> words);

}  // namespace spscope::session::debug
