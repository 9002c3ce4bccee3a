// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/process_tape.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/session/debug_wire.h"

namespace spscope::session::debug {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kMs = 1'000'000;
constexpr milliseconds kTick{20};            ///< how soon a pause is seen
constexpr std::int64_t kPingNs = 1000 * kMs; ///< a rank that has not come to its place is asked where it is
constexpr std::int64_t kEvidenceNs = 500 * kMs;  ///< symptoms may be heard before their cause

/// What a rank says because of what another one did.
bool isSymptom(const Error& error) { return error.code == "peer-lost" || error.code == "collective-timeout" || error.code == "collective-mismatch"; }

}  // namespace

/// One order to run, until every rank stands or has failed.
struct ProcessTape::Run {
  struct Rank {
    std::size_t target = 0;
    bool stands = false;
    std::size_t held_at = 0, held_limit = 0;
    bool held = false;
    std::int64_t stopped_ns = 0, took_ns = 0;
    std::int64_t heard_ns = 0;  ///< its last word
    std::size_t at = 0;         ///< as it said last
    std::optional<Error> failed;
    std::size_t failed_at = 0;
    std::int64_t serial = 0;    ///< of the order that it is to answer
  };
  std::vector<Rank> ranks;
  std::int64_t first_failed_ns = 0;
  bool all(bool Rank::*what) const {
    return std::all_of(ranks.begin(), ranks.end(), [&](const Rank& r) { return r.*what; });
  }
};

Result<std::unique_ptr<ProcessTape>> ProcessTape::create(Setup setup, const Request& request) {
  SP_ASSIGN(Schedule schedule, Schedule::create(setup.programs));
  auto out = std::unique_ptr<ProcessTape>(new ProcessTape(std::move(setup), std::move(schedule), request));
  SP_TRY(out->start());
  return out;
}

Status ProcessTape::start() {
  processes_.reset();  // the old ones end before the new ones begin: memory
  adrift_ = false;
  SP_ASSIGN(processes_, RankProcesses::start(setup_.run, programs_, request_));
  return begin();
}

Status ProcessTape::begin(const std::vector<ir::ValueId>& keep) {
  SP_TRY(there());
  std::vector<dist::Message> orders;
  for (int r = 0; r < size(); ++r) {
    dist::Message& m = orders.emplace_back(dist::Message{"begin", {{"step", std::to_string(setup_.step.step)}, {"seed", std::to_string(setup_.step.seed)}}});
    if (!keep.empty() && keep[static_cast<std::size_t>(r)] != ir::kNone) m.fields["keep"] = nameOf(r, keep[static_cast<std::size_t>(r)]);
  }
  SP_ASSIGN(const std::vector<dist::Packet> answers, processes_->askAll(orders, request_.cancel));
  for (const dist::Packet& answer : answers)
    if (answer.head.kind != "begun") return makeError("internal", "a rank did not begin its step", Outcome::kRunFailed);
  reached_.assign(reached_.size(), 0);
  return {};
}

Status ProcessTape::there() const {
  if (processes_ == nullptr) return makeError("rank-died", "there are no rank processes: new ones could not be started", Outcome::kRunFailed);
  if (auto why = processes_->gone()) return *why;
  return {};
}

bool ProcessTape::lost() const { return processes_ == nullptr || processes_->gone().has_value(); }

Status ProcessTape::move() {
  Places after = places_;
  SP_TRY(schedule_.move(after));
  trail_.push_back(std::exchange(places_, std::move(after)));
  return {};
}

Status ProcessTape::move(int rank) {
  Places after = places_;
  SP_TRY(schedule_.move(after, rank));
  trail_.push_back(std::exchange(places_, std::move(after)));
  return {};
}

Result<bool> ProcessTape::settle() {
  if (adrift_ && !lost()) SP_TRY(runAgain(places_));
  if (reached_ == places_) return true;
  const auto forgetBehind = [&](const Places& target) {
    while (!trail_.empty() && places_ != target) {
      places_ = trail_.back();
      trail_.pop_back();
    }
  };
  Places target = places_;
  const Places from = reached_;
  auto whole = runTo(target, true);
  if (!whole) {
    if (lost()) forgetBehind(from);  // how far they came is not known
    return std::move(whole).error();
  }
  if (*whole) return true;
  forgetBehind(target);
  SP_TRY(request_.cancel.check());
  return false;
}

Status ProcessTape::settleForValue() {
  SP_TRY(there());
  SP_ASSIGN(const bool whole, settle());
  return whole ? Status() : makeError("debug-paused", "the ranks were paused before they came to it", Outcome::kNo);
}

Status ProcessTape::hear(Run& run, const RankProcesses::News& news) {
  Run::Rank& rank = run.ranks[static_cast<std::size_t>(news.rank)];
  const dist::Message& m = news.packet.head;
  rank.heard_ns = monotonicNs();
  if (m.kind == "pong") {
    rank.at = sizeFrom(m.at("at"));
  } else if (m.kind == "held") {
    rank.held = true;
    rank.held_at = sizeFrom(m.at("at"));
    rank.held_limit = sizeFrom(m.at("limit"));
  } else if (m.kind == "stopped") {
    rank.at = sizeFrom(m.at("at"));
    rank.took_ns += intFrom(m.at("took"));
    rank.stopped_ns = intFrom(m.at("ns"));
    rank.stands = intFrom(m.at("serial")) == rank.serial;  // else it was held, and has been told anew since
  } else if (m.kind == "failed") {
    rank.stands = true;
    rank.failed = dist::toError(m);
    rank.failed_at = sizeFrom(m.at("at"));
    if (run.first_failed_ns == 0) run.first_failed_ns = rank.heard_ns;
  } else {
    return makeError("internal", strf("rank %d says %s, which was not asked", news.rank, m.kind.c_str()), Outcome::kRunFailed);
  }
  return {};
}

Result<Places> ProcessTape::hold(Run& run) {
  for (int r = 0; r < size(); ++r) SP_TRY(processes_->tell(r, {"hold", {}}));
  const std::int64_t begin = monotonicNs();
  while (!run.all(&Run::Rank::held)) {
    if (monotonicNs() - begin > processes_->deadline().count() * kMs) {
      processes_->abandon(makeError("rank-stalled", "the ranks cannot be held: one does not answer", Outcome::kRunFailed));
      return *processes_->gone();
    }
    SP_ASSIGN(const auto news, processes_->news(kTick));
    if (news) SP_TRY(hear(run, *news));
  }
  // A rank may be in the middle of the node that it named; one that stands at its limit is not.
  const auto reachable = [&](const Places& places) {
    for (std::size_t r = 0; r < places.size(); ++r)
      if (places[r] < std::min(run.ranks[r].held_at + 1, std::max(run.ranks[r].held_limit, run.ranks[r].held_at))) return false;
    return true;
  };
  for (const Places& places : trail_)
    if (reachable(places)) return places;
  return places_;
}

Result<bool> ProcessTape::runTo(Places& target, bool pausable) {
  SP_TRY(there());
  Run run;
  run.ranks.resize(target.size());
  const auto order = [&]() -> Status {
    ++serial_;
    for (int r = 0; r < size(); ++r) {
      Run::Rank& rank = run.ranks[static_cast<std::size_t>(r)];
      rank.target = target[static_cast<std::size_t>(r)];
      if (rank.failed) continue;
      rank.stands = false;
      rank.serial = serial_;
      rank.heard_ns = monotonicNs();
      SP_TRY(processes_->tell(r, {"run", {{"to", std::to_string(rank.target)}, {"serial", std::to_string(serial_)}}}));
    }
    return {};
  };
  adrift_ = true;
  SP_TRY(order());
  const std::size_t begin_at = std::accumulate(reached_.begin(), reached_.end(), std::size_t{0}), end_at = std::accumulate(target.begin(), target.end(), std::size_t{0});
  std::int64_t asked_ns = 0, pinged_ns = monotonicNs();
  bool paused = false, cancelled = false;
  while (!run.all(&Run::Rank::stands)) {
    SP_ASSIGN(const auto news, processes_->news(kTick));
    if (news) SP_TRY(hear(run, *news));
    const std::int64_t now = monotonicNs();
    if (run.first_failed_ns != 0 && now - run.first_failed_ns > kEvidenceNs) break;  // the others wait for it in a collective
    cancelled = cancelled || request_.cancel.cancelled();
    if (!paused && run.first_failed_ns == 0 && (cancelled || (pausable && pause_ && pause_()))) {
      paused = true;
      asked_ns = now;
      SP_ASSIGN(target, hold(run));
      SP_TRY(order());
    }
    if (now - pinged_ns < kPingNs) continue;
    pinged_ns = now;
    std::size_t at = 0;
    for (int r = 0; r < size(); ++r) {
      const Run::Rank& rank = run.ranks[static_cast<std::size_t>(r)];
      at += rank.at;
      if (rank.stands) continue;
      if (now - rank.heard_ns > processes_->deadline().count() * kMs) {
        Error error = makeError("rank-stalled", strf("rank %d (process %d) gives no sign of life", r, processes_->pids()[static_cast<std::size_t>(r)]), Outcome::kRunFailed);
        processes_->abandon(error);
        return error;
      }
      SP_TRY(processes_->tell(r, {"ping", {}}));
    }
    request_.report("run", static_cast<std::int64_t>(at > begin_at ? at - begin_at : 0), static_cast<std::int64_t>(end_at - begin_at));
  }
  if (run.first_failed_ns != 0) return recover(run).error();
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  figures_.run_ns = 0;
  for (const Run::Rank& rank : run.ranks) {
    first = std::min(first, rank.stopped_ns);
    last = std::max(last, rank.stopped_ns);
    figures_.run_ns = std::max(figures_.run_ns, rank.took_ns);
  }
  if (paused) first = asked_ns;
  figures_.stop_ns = std::max<std::int64_t>(0, last - first);
  figures_.told_ns = monotonicNs() - first;
  for (std::size_t r = 0; r < target.size(); ++r)
    if (run.ranks[r].at != target[r]) return makeError("internal", strf("rank %zu stands at %zu, not at %zu", r, run.ranks[r].at, target[r]), Outcome::kRunFailed);
  reached_ = target;
  adrift_ = false;
  return !paused;
}

Status ProcessTape::recover(const Run& run) {
  // Of several failures the first by its move; one that others cause by not being there is none.
  const Error* why = nullptr;
  std::size_t index = trail_.size();
  for (const bool symptoms : {false, true}) {
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
      const Run::Rank& rank = run.ranks[r];
      if (!rank.failed || isSymptom(*rank.failed) != symptoms) continue;
      std::size_t i = 0;  // the move in which the rank leaves the node's place
      while (i < trail_.size() && (i + 1 < trail_.size() ? trail_[i + 1] : places_)[r] <= rank.failed_at) ++i;
      if (why == nullptr || i < index) why = &*rank.failed, index = i;
    }
    if (why != nullptr) break;
  }
  const Error error = *why;
  // Another rank may wait in a collective, or have started one, that the failed one will not come to: they cannot go on together.
  adrift_ = true;
  if (index < trail_.size()) {
    places_ = trail_[index];
    trail_.resize(index);
  }
  if (recovering_) return error;  // it does not get so far a second time
  recovering_ = true;
  const Status again = runAgain(places_);
  recovering_ = false;
  SP_TRY(again);
  return error;
}

Status ProcessTape::runAgain(const Places& target) {
  if (adrift_ || lost()) {
    if (!lost()) processes_->abandon(makeError("rank-died", "the ranks have been ended: one of them failed", Outcome::kRunFailed));  // they need not be asked to leave
    SP_TRY(start());
  } else {
    SP_TRY(begin());
  }
  Places there = target;
  figures_.run_again += static_cast<std::int64_t>(trail_.size());
  if (there == reached_) return {};
  SP_ASSIGN(const bool whole, runTo(there, false));
  return whole ? Status() : request_.cancel.check();
}

Status ProcessTape::backTo(std::size_t index) {
  if (index >= trail_.size() && !lost()) return {};
  if (index < trail_.size()) {
    places_ = trail_[index];
    trail_.resize(index);
  }
  const bool ahead = std::equal(reached_.begin(), reached_.end(), places_.begin(), [](std::size_t is, std::size_t should) { return is <= should; });
  if (ahead && !adrift_ && !lost()) return {};  // only moves that were put off have been forgotten
  return runAgain(places_);
}

Status ProcessTape::runPlain() {
  SP_TRY(processes_->askAll(std::vector<dist::Message>(programs_.size(), dist::Message{"plain", {}}), request_.cancel));
  return begin();
}

Result<dist::Packet> ProcessTape::askFor(int rank, ir::ValueId value, dist::Message what) {
  what.fields["name"] = nameOf(rank, value);
  SP_ASSIGN(dist::Packet answer, processes_->ask(rank, what, request_.cancel));
  if (answer.head.kind == "none") return makeError("value-not-live", "%" + nameOf(rank, value) + " is not computed yet, or was freed after its last use");
  return answer;
}

Result<exec::TensorBag> ProcessTape::value(int rank, ir::ValueId value) {
  SP_TRY(settleForValue());
  SP_ASSIGN(const dist::Packet answer, askFor(rank, value, {"value", {}}));
  return valueFrom(answer, nameOf(rank, value));
}

Result<bool> ProcessTape::live(int rank, ir::ValueId value) {
  SP_TRY(settleForValue());
  const auto answer = askFor(rank, value, {"live", {}});
  if (answer || answer.error().code == "value-not-live") return answer.has_value();
  return answer.error();
}

Result<exec::ValueScan> ProcessTape::scan(int rank, ir::ValueId value, std::size_t places) {
  SP_TRY(settleForValue());
  SP_ASSIGN(const dist::Packet answer, askFor(rank, value, {"scan", {{"places", std::to_string(places)}}}));
  return scanFrom(answer.head);
}

Result<std::vector<exec::TensorBag>> ProcessTape::again(const std::vector<ir::ValueId>& values) {
  SP_TRY(settleForValue());
  for (std::size_t r = 0; r < values.size(); ++r)
    if (values[r] != ir::kNone) SP_TRY(makerOf(static_cast<int>(r), values[r]));
  SP_TRY(begin(values));
  Places there = places_;
  figures_.run_again += static_cast<std::int64_t>(trail_.size());
  SP_ASSIGN(const bool whole, runTo(there, false));
  if (!whole) SP_TRY(request_.cancel.check());
  std::vector<exec::TensorBag> out(values.size());
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] == ir::kNone) continue;
    SP_ASSIGN(const dist::Packet answer, askFor(static_cast<int>(r), values[r], {"kept", {}}));
    SP_ASSIGN(out[r], valueFrom(answer, nameOf(static_cast<int>(r), values[r])));
  }
  return out;
}

}  // namespace spscope::session::debug
