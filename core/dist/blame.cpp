// SPDX-License-Identifier: Apache-2.0
#include "core/dist/blame.h"

#include <algorithm>
#include <cstring>

#include "core/base/strings.h"

namespace spscope::dist {
namespace {

/// Errors that a healthy rank reports because another one failed.
bool isSymptom(const Error& error) {
  return error.code == "collective-timeout" || error.code == "peer-lost" || error.code == "rendezvous-timeout" ||
         error.code == "cancelled";
}

/// When the rank failed by itself; nullopt where it did not.
std::optional<std::int64_t> ownFailure(const RankRecord& r) {
  if (r.error && !isSymptom(*r.error)) return r.error_ns;
  if (!r.ended || r.asked_to_stop || r.done || (r.error && isSymptom(*r.error))) return {};
  return r.ended_ns;
}

template <typename Time>
int earliest(std::span<const RankRecord> ranks, Time time) {
  int best = -1;
  std::int64_t best_ns = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::optional<std::int64_t> ns = time(ranks[i]);
    if (ns && (best < 0 || *ns < best_ns)) {
      best = static_cast<int>(i);
      best_ns = *ns;
    }
  }
  return best;
}

/// How far a rank has come in the sequence of collectives, the rendezvous being the first.
std::int64_t position(const RankSnapshot& s) {
  if (s.collective.empty()) return -2;
  return 2 * s.sequence - (s.inside_collective ? 1 : 0);
}

/// The rank that was the first to give up waiting for others; -1: none did.
int firstWaiter(std::span<const RankRecord> ranks) {
  return earliest(ranks, [](const RankRecord& r) -> std::optional<std::int64_t> {
    if (r.error && r.error->code != "cancelled" && isSymptom(*r.error)) return r.error_ns;
    return {};
  });
}

/// The rank whose process does not run: its last sign of life is far older than everybody else's. A sign is given five
/// times a second by a thread that does nothing else.
int frozen(std::span<const RankRecord> ranks) {
  if (firstWaiter(ranks) < 0) return -1;
  int best = -1;
  std::int64_t most = 1'000'000'000, second = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::int64_t silent = ranks[i].error ? 0 : ranks[i].silent_ns;
    if (silent > most) {
      second = best < 0 ? second : most;
      most = silent;
      best = static_cast<int>(i);
    } else {
      second = std::max(second, silent);
    }
  }
  return best >= 0 && most > 2 * second ? best : -1;
}

/// The rank that stayed away while another one waited in a collective until it gave up.
int absentee(std::span<const RankRecord> ranks) {
  const int waiter = firstWaiter(ranks);
  if (waiter < 0) return -1;
  std::int64_t least = position(ranks[static_cast<std::size_t>(waiter)].last);
  int best = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (const std::int64_t p = position(ranks[i].last); p < least) {
      best = static_cast<int>(i);
      least = p;
    }
  return best;
}

}  // namespace

int firstAtFault(std::span<const RankRecord> ranks) {
  if (const int i = earliest(ranks, ownFailure); i >= 0) return i;
  if (const int i = frozen(ranks); i >= 0) return i;
  if (const int i = absentee(ranks); i >= 0) return i;
  if (const int i = earliest(ranks, [](const RankRecord& r) -> std::optional<std::int64_t> {
        if (r.stalled && !r.last.inside_collective) return r.stalled_ns;
        return {};
      });
      i >= 0)
    return i;
  if (const int i = earliest(ranks, [](const RankRecord& r) -> std::optional<std::int64_t> {
        if (r.error && r.error->code != "cancelled") return r.error_ns;
        if (r.stalled) return r.stalled_ns;
        return {};
      });
      i >= 0)
    return i;
  return -1;
}

std::string describeFault(std::span<const RankRecord> ranks, int index) {
  const RankRecord& r = ranks[static_cast<std::size_t>(index)];
  if (ownFailure(r)) return describeEnd(r);
  if (index == frozen(ranks))
    return strf("its process did not run: no sign of life for %.1f s", static_cast<double>(r.silent_ns) / 1e9);
  if (index == absentee(ranks)) {
    const RankRecord& w = ranks[static_cast<std::size_t>(firstWaiter(ranks))];
    return strf("it did not come to %s #%lld, in which rank %d waited for it", w.last.collective.c_str(),
                static_cast<long long>(w.last.sequence), w.rank);
  }
  return describeEnd(r);
}

std::string describeEnd(const RankRecord& r) {
  if (r.error && !isSymptom(*r.error)) return r.error->message;
  if (r.stalled) return "no sign of progress before the deadline";
  if (r.ended && r.signal != 0 && !r.asked_to_stop) {
    const char* name = sigabbrev_np(r.signal);
    return strf("killed by signal %d (SIG%s)", r.signal, name != nullptr ? name : "?");
  }
  if (r.error) return r.error->message;
  if (r.ended && !r.done && !r.asked_to_stop) return strf("exited with code %d before it was done", r.exit_code);
  return r.done ? "done" : r.ended ? "stopped by the launcher" : "running";
}

namespace {

/// "all_reduce #5 (inside for 1.2 s, 1000 float32)"
std::string describeCollective(const RankRecord& r) {
  const RankSnapshot& s = r.last;
  if (s.collective.empty()) return "-";
  std::string out = strf("%s #%lld", s.collective.c_str(), static_cast<long long>(s.sequence));
  if (!s.inside_collective) return out;
  if (r.calls.empty() || r.calls.back().end_ns > 0) return out + " (inside)";
  const RecordedCall& call = r.calls.back();
  out += strf(" (inside for %.1f s", static_cast<double>(r.calls_ns - call.begin_ns) / 1e9);
  if (call.sent >= 0) out += strf(", %lld %s", static_cast<long long>(call.sent), std::string(ir::longName(call.dtype)).c_str());
  return out + (call.group.empty() ? ")" : ", group " + call.group + ")");
}

}  // namespace

std::string formatTable(std::span<const RankRecord> ranks) {
  std::string out = strf("%-5s %-12s %5s  %-28s %-26s %s\n", "rank", "phase", "step", "last node", "last collective", "end");
  for (const RankRecord& r : ranks) {
    const std::string collective = describeCollective(r);
    const std::string step = r.last.step < 0 ? "-" : std::to_string(r.last.step);
    out += strf("%-5d %-12s %5s  %-28s %-26s %s\n", r.rank, r.last.phase.empty() ? "-" : r.last.phase.c_str(), step.c_str(),
                r.last.node.empty() ? "-" : r.last.node.c_str(), collective.c_str(), describeEnd(r).c_str());
  }
  return out;
}

}  // namespace spscope::dist
