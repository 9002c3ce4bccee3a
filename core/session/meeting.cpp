// SPDX-License-Identifier: Apache-2.0
#include "core/session/meeting.h"

#include <cstdlib>

#include "core/base/strings.h"
#include "core/dist/c10d/gloo.h"
#include "core/dist/launcher.h"
#include "core/session/run.h"

namespace spscope::session {
namespace {
constexpr const char* kKind = "meeting";
}

Result<double> meetRanks(int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel) {
  dist::LaunchSpec spec;
  spec.program = rankProgram();
  spec.arguments = {"rank"};
  spec.ranks = ranks;
  spec.threads = 1;
  spec.request = dist::Message{kKind, {{"deadline_ms", std::to_string(deadline.count())}}}.encode();
  spec.stall_timeout = deadline;
  spec.grace = std::chrono::milliseconds(500);
  spec.cancel = cancel;
  std::vector<double> sums(static_cast<std::size_t>(ranks), -1.0);
  SP_ASSIGN(const dist::RunOutcome run, dist::launch(spec, [&](int rank, const dist::Message& m) {
    if (m.kind == "sum") sums[static_cast<std::size_t>(rank)] = std::strtod(m.at("value").c_str(), nullptr);
  }));
  if (run.failure) return run.failure->toError(run.ranks);
  if (run.cancelled) return makeError("cancelled", "cancelled on request", Outcome::kNo);
  for (int r = 0; r < ranks; ++r)
    if (sums[static_cast<std::size_t>(r)] != ranks * (ranks + 1) / 2.0)
      return makeError("collective-mismatch", strf("rank %d got %g as the sum of 1 to %d", r, sums[static_cast<std::size_t>(r)], ranks),
                       Outcome::kRunFailed);
  return run.seconds;
}

bool isMeeting(const std::string& request) {
  const auto message = dist::Message::decode(request);
  return message && message->kind == kKind;
}

Status meetAsRank(dist::RankReporter& reporter) {
  const auto message = dist::Message::decode(reporter.request());
  dist::Rendezvous at;
  at.rank = reporter.rank();
  at.size = reporter.size();
  at.file = reporter.storeFile();
  at.timeout = at.connect_timeout = std::chrono::milliseconds(message ? std::atoll(message->at("deadline_ms").c_str()) : 10'000);
  at.on_collective = [&](std::string_view op, std::int64_t sequence, bool inside) { reporter.collective(op, sequence, inside); };
  reporter.phase("meet");
  SP_ASSIGN(const auto group, dist::connectGloo(at));
  double value = at.rank + 1;
  SP_TRY(group->allReduceSum({&value, 1, ir::DType::kF64}));
  reporter.send({"sum", {{"value", formatDouble(value)}}});
  return group->barrier();
}

}  // namespace spscope::session
