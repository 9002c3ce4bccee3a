// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_errand.h"

#include <cstdlib>

#include "core/dist/c10d/gloo.h"
#include "core/session/run.h"

namespace spscope::session {

Result<dist::RunOutcome> sendErrand(const std::string& kind, int ranks, std::chrono::milliseconds deadline, const CancelToken& cancel,
                                    const dist::OnRankMessage& on_message) {
  dist::LaunchSpec spec;
  spec.program = rankProgram();
  spec.arguments = {"rank"};
  spec.ranks = ranks;
  spec.threads = 1;
  spec.request = dist::Message{kind, {{"deadline_ms", std::to_string(deadline.count())}}}.encode();
  spec.stall_timeout = deadline;
  spec.grace = std::chrono::milliseconds(500);
  spec.cancel = cancel;
  SP_ASSIGN(dist::RunOutcome run, dist::launch(spec, on_message));
  if (run.failure) return run.failure->toError(run.ranks);
  if (run.cancelled) return makeError("cancelled", "cancelled on request", Outcome::kNo);
  return run;
}

bool isErrand(const std::string& request, const std::string& kind) {
  const auto message = dist::Message::decode(request);
  return message && message->kind == kind;
}

Result<std::unique_ptr<dist::Collectives>> meetOthers(dist::RankReporter& reporter) {
  const auto message = dist::Message::decode(reporter.request());
  dist::Rendezvous at;
  at.rank = reporter.rank();
  at.size = reporter.size();
  at.file = reporter.storeFile();
  at.timeout = at.connect_timeout = std::chrono::milliseconds(message ? std::atoll(message->at("deadline_ms").c_str()) : 10'000);
  at.on_collective = [&reporter](std::string_view op, std::int64_t sequence, bool inside) { reporter.collective(op, sequence, inside); };
  return dist::connectGloo(at);
}

}  // namespace spscope::session
