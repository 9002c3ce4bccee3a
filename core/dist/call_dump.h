// SPDX-License-Identifier: Apache-2.0
// The calls that ranks remember, written as PyTorch's Flight Recorder writes its own: `spscope hang` and other readers of such dumps judge
// our runs by the same rules as anybody's.
#pragma once

#include <span>
#include <string>

#include "core/dist/blame.h"

namespace spscope::dist {

/// The dump of one rank as JSON. `ranks`: of the run.
std::string callDump(const RankRecord& rank, int ranks);
/// DIRECTORY/rank_0.json …, of every rank that has remembered a call, or was alive to do so. Errors: run-directory.
Status writeCallDumps(const std::string& directory, std::span<const RankRecord> ranks);

}  // namespace spscope::dist
