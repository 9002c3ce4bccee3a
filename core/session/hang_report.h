// SPDX-License-Identifier: Apache-2.0
// Why a run of ours failed, where its ranks waited for each other or did not do the same: by the same rules as the dumps of other people's
// runs (core/hang), from what the ranks remember of their last collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/dist/launcher.h"
#include "core/session/run.h"

namespace spscope::session {

/// The failure of a run with its verdict. Where ranks waited or disagreed, `rank` is the culprit that the verdict names, if it is sure of
/// one; a rank that failed by itself stays the one that did.
RankFailure rankFailure(const dist::RunOutcome& run);

}  // namespace spscope::session
