// SPDX-License-Identifier: Apache-2.0
// Can processes of this machine meet and add numbers? The smallest whole run there is: the launcher, the rendezvous, one
// all-reduce. `spscope doctor` asks.
#pragma once

#include <chrono>
#include <string>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/dist/rank_reporter.h"

namespace spscope::session {

/// Starts `ranks` processes of this program, which meet, add up their ranks and end; all within about `deadline`.
/// Returns the seconds it took. Errors: those of the launcher and of the ranks (rendezvous-timeout, rank-died …), with the
/// reason; cancelled.
Result<double> meetRanks(int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel);

/// Whether a rank process was started by meetRanks().
bool isMeeting(const std::string& request);
/// What such a process does.
Status meetAsRank(dist::RankReporter& reporter);

}  // namespace spscope::session
