// SPDX-License-Identifier: Apache-2.0
// A rank of a debugged step that is a process: it runs as far as the debugger says, and stands between nodes, for as long as that
// takes, with its values at hand. It is never stopped inside a collective: the debugger names places that all ranks can reach.
#pragma once

#include <chrono>
#include <string>

#include "core/dist/rank_reporter.h"
#include "core/session/model.h"
#include "core/torch/observer.h"

namespace spscope::session {

struct RunRequest;

/// What RunRequest::toMessage gives, as the request of a rank that is to be debugged.
std::string debugRequest(const RunRequest& what);
/// LaunchSpec::stall_timeout of such ranks: a short deadline is for their collectives, not for opening the model.
std::chrono::milliseconds stallAfter(const RunRequest& what);
/// Whether a rank process was started with debugRequest().
bool isDebugged(const std::string& request);

/// What a rank says that it is when it is ready: both sides must be one version.
std::string rankVersion();
/// What such a process does, until it is told to end. `watcher` (may be null) hears of everything that runs. Errors: those of open,
/// Program::prepare, joinGroup, loadState, loadInputs; control-*.
Status debugAsRank(dist::RankReporter& reporter, const Request& request, exec::ExecutionObserver* watcher);

}  // namespace spscope::session
