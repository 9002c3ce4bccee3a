// SPDX-License-Identifier: Apache-2.0
#include "core/session/meeting.h"

#include <cstdlib>

#include "core/base/strings.h"
#include "core/session/rank_errand.h"

namespace spscope::session {
namespace {
constexpr const char* kKind = "meeting";
}

Result<double> meetRanks(int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel) {
  std::vector<double> sums(static_cast<std::size_t>(ranks), -1.0);
  SP_ASSIGN(const dist::RunOutcome run, sendErrand(kKind, ranks, deadline, cancel, [&](int rank, const dist::Message& m) {
    if (m.kind == "sum") sums[static_cast<std::size_t>(rank)] = std::strtod(m.at("value").c_str(), nullptr);
  }));
  for (int r = 0; r < ranks; ++r)
    if (sums[static_cast<std::size_t>(r)] != ranks * (ranks + 1) / 2.0)
      return makeError("collective-mismatch", strf("rank %d got %g as the sum of 1 to %d", r, sums[static_cast<std::size_t>(r)], ranks),
                       Outcome::kRunFailed);
  return run.seconds;
}

bool isMeeting(const std::string& request) {
  return isErrand(request, kKind);
}

Status meetAsRank(dist::RankReporter& reporter) {
  reporter.phase("meet");
  SP_ASSIGN(const auto group, meetOthers(reporter));
  double value = reporter.rank() + 1;
  SP_TRY(group->allReduceSum({&value, 1, ir::DType::kF64}));
  reporter.send({"sum", {{"value", formatDouble(value)}}});
  return group->barrier();
}

}  // namespace spscope::session
