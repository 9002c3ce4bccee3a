// SPDX-License-Identifier: Apache-2.0
#include "core/session/hang_report.h"

#include <algorithm>

#include "core/dist/call_dump.h"
#include "core/hang/verdict.h"

namespace spscope::session {
namespace {

/// Errors of ranks that met others, and did not agree with them or waited in vain.
bool isOfMeeting(const Error& error) {
  return error.code == "collective-mismatch" || error.code == "collective-timeout" || error.code == "peer-lost" || error.code == "rank-stalled";
}

/// From the ranks' calls as they would be read from their dumps: one reader, one verdict.
std::optional<HangVerdict> verdictOf(const dist::RunOutcome& run) {
  std::vector<io::RecorderDump> dumps;
  for (const dist::RankRecord& r : run.ranks) {
    const std::string text = dist::callDump(r, static_cast<int>(run.ranks.size()));
    auto dump = io::readFlightRecorder(std::as_bytes(std::span(text)), "rank " + std::to_string(r.rank), r.rank);
    if (!dump) return {};
    dumps.push_back(std::move(*dump));
  }
  const hang::Finding found = hang::analyse(dumps);
  const hang::Verdict& v = found.verdict;
  if (v.code.empty()) return {};
  HangVerdict out;
  out.code = v.code;
  out.culprits = v.culprits;
  out.certainty = hang::nameOf(v.certainty);
  out.why = v.why;
  out.group = v.group;
  out.op = v.op;
  out.sequence = v.seq;
  out.waiting = v.waiting;
  out.missing = v.missing;
  return out;
}

}  // namespace

RankFailure rankFailure(const dist::RunOutcome& run) {
  dist::RunFailure failure = *run.failure;
  std::optional<HangVerdict> verdict = verdictOf(run);
  const bool sure = verdict && !verdict->culprits.empty() && verdict->certainty != hang::nameOf(hang::Certainty::kPossible);
  if (sure && isOfMeeting(failure.error) && std::find(verdict->culprits.begin(), verdict->culprits.end(), failure.rank) == verdict->culprits.end()) {
    // The rank that was the first to notice is not the one that did it.
    const dist::RankRecord& culprit = run.ranks[static_cast<std::size_t>(verdict->culprits.front())];
    failure.rank = culprit.rank;
    failure.log = culprit.log;
    failure.last_lines = culprit.last_lines;
    failure.node = culprit.error && !culprit.error->node.empty() ? culprit.error->node : culprit.last.node;
  }
  RankFailure out{failure.rank, failure.node, failure.toError(run.ranks), failure.log, std::move(verdict)};
  if (out.hang) {
    const std::string who = out.hang->culprits.empty() ? "cannot be told" : hang::ranksText(out.hang->culprits) + " (" + out.hang->certainty + ")";
    out.error.notes.push_back("hang[" + out.hang->code + "]: " + out.hang->why);
    out.error.notes.push_back("at fault: " + who + "; spscope hang " + run.directory + " says more");
  }
  return out;
}

}  // namespace spscope::session
