// SPDX-License-Identifier: Apache-2.0
// Rank processes that do not train: started for one question (do they meet? how fast do they talk?), they answer and end.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/base/cancel.h"
#include "core/dist/collectives.h"
#include "core/dist/launcher.h"
#include "core/dist/message.h"
#include "core/dist/rank_reporter.h"

namespace spscope::session {

/// Starts `ranks` processes of this program with the question `kind` and hears them; all within about `deadline`. Errors: those of the
/// launcher and of the ranks, with the reason; cancelled.
Result<dist::RunOutcome> sendErrand(const std::string& kind, int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel,
                                    const dist::OnRankMessage& on_message);
/// Whether a rank process was started with this question.
bool isErrand(const std::string& request, const std::string& kind);
/// In such a process: meets the others over Gloo. Errors: those of connectGloo().
Result<std::unique_ptr<dist::Collectives>> meetOthers(dist::RankReporter& reporter);

}  // namespace spscope::session
