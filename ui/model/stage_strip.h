// SPDX-License-Identifier: Apache-2.0
// The stage strip: one chip per stage with what it changed, what it cost and what it predicts; the stage that failed in red.
#pragma once

#include <string>
#include <vector>

#include "ui/model/workspace.h"

namespace spscope::ui {

struct StageChip {
  int stage = -1;            ///< index into Workspace::stages(); -1: the pass that failed, or a refusal
  std::string name;
  std::string detail;        ///< "+128 · 3 ms", "2 191 nodes · 71 ms", "refused"
  std::string brief;         ///< the detail where there is little room: "±128", "2 191 nodes", "refused"
  std::string wire;          ///< "1.4 GiB wire", empty where nothing is sent
  std::string wire_brief;    ///< "⇄ 1.4 GiB"
  std::string peak;          ///< "41.6 GiB", empty before it is known
  double peak_share = -1;    ///< of the largest peak of all stages (or of the limit, where that is larger); -1: not known
  double limit_share = -1;   ///< where the limit is on the same scale; -1: none, or beyond the bar
  bool over_limit = false, failed = false, shown = false, compared = false, unchanged = false;
  int warnings = 0;
  std::string tip;           ///< everything, with diagnostics; lines
  /// Nothing is lost where the name alone is left of it.
  bool canShrink() const { return unchanged && !shown && !compared && !failed && warnings == 0; }
};

std::vector<StageChip> stageChips(const Workspace& workspace);

/// A click on a chip: the stage, merged with the one before it. With `compare`: the shown stage compared with that one (again:
/// with none).
void chooseStage(Workspace& workspace, int stage, bool compare);

/// What the right end of the settings row says: the state of verification, or of what is being done.
struct StateLine {
  enum class Kind : std::uint8_t { kNone, kBusy, kEqual, kDifferent, kFailed } kind = Kind::kNone;
  std::string text, tip;
};
StateLine stateLineOf(const Workspace& workspace);

/// 2191 -> "2 191", with thin spaces.
std::string spacedNumber(std::int64_t n);

}  // namespace spscope::ui
