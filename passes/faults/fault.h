// SPDX-License-Identifier: Apache-2.0
// Mistakes that are put into a compilation on purpose: practice for people, and a test of the checks themselves. A fault is a
// change of the graph that is made as if a given pass had made it; everything after that pass goes on as usual.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spscope::passes {

enum class FaultKind : std::uint8_t {
  kDropCollective,    ///< each rank goes on with what it has, brought into the shape of the result
  kDoubleCollective,  ///< a sum over the ranks that is taken twice
  kWrongOffset,       ///< a slice that does not start where the rank's block does
  kWrongAxis,         ///< a transpose that is a reshape to the same shape
  kIgnoreMask,        ///< attention without its mask, or without its causal flag
  kHeadOrder,         ///< heads of keys in reverse order
  kTileHeads,         ///< repeated heads of keys and values: 0 1 0 1 instead of 0 0 1 1
  kNan,               ///< one element of a value of one rank is NaN
  kBitFlip,           ///< one bit of one element of a value of one rank is flipped
  kWrongDerivative,   ///< a node of the backward by another formula
  kShiftLabels,       ///< labels shifted inside each rank's block
  kMeanOfMeans,       ///< each rank divides by its own count of labels, then the ranks are averaged
  kLocalAttention,    ///< a rule that lets attention be cut on the sequence as if it were elementwise
};

struct FaultInfo {
  FaultKind kind;
  std::string_view name;     ///< as it is typed: "drop-collective"
  std::string_view summary;
  std::vector<std::string_view> passes;  ///< that it may be made in, the usual one first
  bool one_rank = false;     ///< of one rank only
};
const std::vector<FaultInfo>& faultKinds();
const FaultInfo& infoOf(FaultKind kind);

/// One mistake. Until it is resolved (session/plant.h) node and pass may be empty: any, by `seed`.
struct Fault {
  FaultKind kind = FaultKind::kDropCollective;
  bool random = false;       ///< everything by `seed`, the kind too
  std::string node;          ///< of the graph after `pass`, without "%"
  std::string pass;
  int rank = -1;             ///< of one rank only; -1: of all
  std::uint64_t seed = 0;    ///< which site, element, bit, offset
  std::string planted;       ///< resolved: the node that does wrong (the site itself, or the one put behind it)
  std::string text() const;  ///< as it is typed
};

/// "KIND[@NODE][,rank=R][,pass=PASS][,seed=N]" or "random:SEED". Errors: usage.
Result<Fault> parseFault(const std::string& text);

}  // namespace spscope::passes
