// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/plan.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <set>
#include <thread>

#include "core/base/clock.h"
#include "core/base/strings.h"

namespace spscope::session {
namespace {

/// Multiples of both, at least `step`.
std::int64_t stepFor(std::int64_t step, int sp) {
  std::int64_t out = step;
  while (out % sp != 0) out += step;
  return out;
}

/// One warning of many lengths is one warning.
std::string withoutNumbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return text;
}

Error tooShort(std::int64_t most, std::int64_t step, int sp) {
  Error e = makeError("plan-illegal", strf("the shortest length that is looked at is %lld (a multiple of --step and of sp %d), longer than --longest %lld", static_cast<long long>(step), sp,
                                           static_cast<long long>(most)));
  e.legal = strf("--longest %lld or more, or a smaller --step", static_cast<long long>(step));
  return e;
}

class Planner {
 public:
  Planner(const PlanRequest& what, const Request& request, ModelShelf& shelf, std::int64_t seq) : what_(what), request_(request), shelf_(shelf), seq_(seq) {}

  void add(const Configuration& c) {
    PlanRow row;
    row.configuration = c;
    row.illegal = reasonAgainst(c, what_.space);
    if (!row.illegal && c.offload.any() && what_.profile.host_link.low <= 0) {
      row.illegal = makeError("plan-illegal", "offload: the profile " + what_.profile.name + " has no link to a host");
      row.illegal->legal = "a profile with [links.host], or no offload";
    }
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const auto& g) { return rows[g.front()].configuration.sameHead(c); });
    if (group == groups_.end()) group = groups_.emplace(groups_.end());
    group->push_back(rows.size());
    rows.push_back(std::move(row));
  }

  /// Error: cancelled, internal.
  Status run() {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const std::size_t threads = std::min<std::size_t>(static_cast<std::size_t>(what_.threads > 0 ? what_.threads : cores), groups_.size());
    std::vector<std::thread> pool;
    for (std::size_t i = 1; i < threads; ++i) pool.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : pool) thread.join();
    SP_TRY(request_.cancel.check());
    if (stopped_) return *stopped_;
    return {};
  }

  std::vector<PlanRow> rows;
  std::atomic<std::int64_t> compiles{0};

 private:
  void work() {
    for (std::size_t g = next_++; g < groups_.size(); g = next_++) {
      Surveyor surveyor(shelf_, what_.profile, what_.space.gpus, what_.settings, request_, what_.expandable_segments);
      for (const std::size_t i : groups_[g]) {
        if (request_.cancel.cancelled() || halted_) return;
        try {
          if (!rows[i].illegal)
            if (const Status status = survey(rows[i], surveyor); !status) stop(status.error());
        } catch (const std::exception& e) {  // memory that is not there
          stop(makeError("internal", e.what()));
        }
        const std::lock_guard lock(mutex_);
        request_.report("configurations", ++done_, static_cast<std::int64_t>(rows.size()));
      }
      compiles += surveyor.compiles();
      const std::lock_guard lock(mutex_);
      for (const Diagnostic& d : surveyor.diagnostics().all())
        if (said_.insert(d.code + withoutNumbers(d.message) + d.node).second) request_.diagnostics->warn(d.code, d.message, d.node, d.source, d.remedy);
    }
  }

  void stop(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!stopped_) stopped_ = error;
    halted_ = true;
  }

  /// Error: cancelled, internal; what is wrong with the configuration is the row's.
  Status survey(PlanRow& row, Surveyor& surveyor) {
    const Configuration& c = row.configuration;
    row.room = roomOn(what_.profile, c, std::min(c.ranks(), what_.space.gpus), what_.headroom);
    const auto refused = [&](const Error& e) -> Status {
      if (e.code == "cancelled" || e.code == "internal") return e;
      row.illegal = e;
      return {};
    };
    if (what_.want != PlanWant::kMaxSeq) {
      Result<Footprint> footprint = surveyor.at(c, seq_, true);
      if (!footprint) return refused(footprint.error());
      row.footprint = std::move(*footprint);
      row.work_per_token = workPerToken(row.footprint, c);
    } else {
      LongestRequest search;
      search.step = stepFor(what_.step, c.sp);
      if (search.step > what_.most) return refused(tooShort(what_.most, search.step, c.sp));
      search.start = std::max<std::int64_t>(1, seq_ / search.step);
      search.most = std::max<std::int64_t>(1, what_.most / search.step);
      search.room = row.room;
      const std::int64_t first = search.start * search.step;
      // The lengths that every row begins with.
      Result<Longest> longest = findLongest(search, [&](std::int64_t seq) { return surveyor.at(c, seq, seq == first || seq == 2 * first || seq == search.step); });
      if (!longest) return refused(longest.error());
      if (!longest->first) return refused(*longest->limit);
      row.max_seq = longest->fits ? longest->fits->seq : 0;
      row.possible_seq = longest->possible_seq;
      row.limit = longest->limit;
      row.next_peak = static_cast<std::int64_t>(longest->next_peak);
      row.next_compiled = longest->next_measured;
      row.host_ends = longest->host_ends;
      row.work_per_token = workPerToken(*longest->first, c);
      row.footprint = longest->fits ? std::move(*longest->fits) : std::move(*longest->first);
      row.fit = std::move(longest->fit);
    }
    if (what_.grid) SP_TRY(fillGrid(row, surveyor));
    row.footprint.live = {};
    row.verdict = verdictOf(row.footprint, row.room);
    const double good = what_.profile.capacity.high, bad = what_.profile.capacity.low;
    const double share = what_.profile.shared ? std::min(c.ranks(), what_.space.gpus) : 1;
    row.need_low = static_cast<double>(row.footprint.peak_low) + good / share * (1 - what_.headroom) - row.room.hopeful;
    row.need_high = static_cast<double>(row.footprint.peak_high) + bad / share * (1 - what_.headroom) - row.room.sure;
    return {};
  }

  /// Error: cancelled, internal. A length that the model cannot have ends the row.
  Status fillGrid(PlanRow& row, Surveyor& surveyor) {
    const std::int64_t step = stepFor(what_.step, row.configuration.sp);
    PeakFit fit = row.fit;  // as in the search: no length fits where a shorter one does not
    for (std::int64_t seq = std::max(step, seq_ / step * step); seq <= what_.most; seq *= 2) {
      const Result<Footprint> f = surveyor.at(row.configuration, seq, true);
      if (!f) return f.error().code == "cancelled" || f.error().code == "internal" ? Status(f.error()) : Status();
      fit.add(*f);
      Footprint there = *f;
      there.peak_high = fit.highEnd(there);
      row.grid.push_back({seq, there.peak_low, there.peak_high, verdictOf(there, row.room), there.time});
      if (row.grid.back().verdict == Verdict::kDoesNotFit) break;
    }
    return {};
  }

  /// Of all ranks together: replicas and sequence ranks do not make a token cheaper.
  static double workPerToken(const Footprint& f, const Configuration& c) {
    return f.time.middle * c.ranks() / (static_cast<double>(std::max<std::int64_t>(1, f.seq)) * static_cast<double>(c.batch));
  }

  const PlanRequest& what_;
  const Request& request_;
  ModelShelf& shelf_;
  std::int64_t seq_;
  std::vector<std::vector<std::size_t>> groups_;  ///< rows with one head
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> halted_{false};
  std::mutex mutex_;
  std::optional<Error> stopped_;
  std::int64_t done_ = 0;
  std::set<std::string> said_;
};

/// Memory or length first, work second.
bool better(const PlanRow& a, const PlanRow& b, PlanWant want) {
  if (a.illegal.has_value() != b.illegal.has_value()) return b.illegal.has_value();
  if (a.illegal) return false;
  if (want == PlanWant::kMaxSeq && a.max_seq != b.max_seq) return a.max_seq > b.max_seq;
  if (want == PlanWant::kMaxSeq && a.possible_seq != b.possible_seq) return a.possible_seq > b.possible_seq;
  if (want != PlanWant::kMaxSeq && a.verdict != b.verdict) return a.verdict < b.verdict;
  if (want == PlanWant::kFits && a.work_per_token != b.work_per_token) return a.work_per_token < b.work_per_token;
  if (a.need_high != b.need_high) return a.need_high < b.need_high;
  return a.work_per_token < b.work_per_token;
}

bool beats(const PlanRow& a, const PlanRow& b, PlanWant want) {
  const bool far = want == PlanWant::kMaxSeq ? a.max_seq >= b.max_seq : a.need_high <= b.need_high;
  const bool further = want == PlanWant::kMaxSeq ? a.max_seq > b.max_seq : a.need_high < b.need_high;
  return far && a.work_per_token <= b.work_per_token && (further || a.work_per_token < b.work_per_token);
}

/// The one setting in which they differ, as somebody would say it; "" where there are none or several.
std::string changeBetween(const Configuration& a, const Configuration& b) {
  std::vector<std::string> out;
  const bool mesh = a.sp != b.sp || a.dp != b.dp;
  const std::string batch = strf("batch %lld -> %lld", static_cast<long long>(a.batch), static_cast<long long>(b.batch));
  // Another mesh may need another batch.
  if (mesh) out.push_back(strf("sp %d x dp %d -> sp %d x dp %d", a.sp, a.dp, b.sp, b.dp) + (a.batch != b.batch ? ", " + batch : ""));
  else if (a.batch != b.batch) out.push_back(batch + (b.batch < a.batch ? ": fewer rows a step" : ""));
  if (a.zero != b.zero) out.push_back(strf("zero %d -> zero %d", a.zero, b.zero));
  if (a.save != b.save) out.push_back("save " + a.save + " -> " + b.save);
  if (a.tile_loss != b.tile_loss) out.emplace_back(b.tile_loss ? "whole loss -> tiled loss" : "tiled loss -> whole loss");
  if (a.offload.checkpoints != b.offload.checkpoints) out.emplace_back(b.offload.checkpoints ? "checkpoints to the host" : "checkpoints on the device");
  if (a.offload.optimizer != b.offload.optimizer) out.emplace_back(b.offload.optimizer ? "optimizer to the host" : "optimizer on the device");
  if (a.tile_mlp != b.tile_mlp) out.emplace_back(b.tile_mlp ? "whole MLPs -> tiled MLPs" : "tiled MLPs -> whole MLPs");
  if (a.ring != b.ring) out.emplace_back(b.ring ? "exchanges -> ring attention" : "ring attention -> exchanges");
  return out.size() == 1 ? out.front() : std::string();
}

}  // namespace

Result<PlanOutcome> plan(const PlanRequest& what, const Request& request) {
  const std::int64_t begin = monotonicNs();
  PlanOutcome out;
  SP_ASSIGN(const auto model, open(what.open, request));
  out.file_seq = model->imported->seq;
  out.file_batch = std::max<std::int64_t>(1, model->imported->batch);
  PlanRequest used = what;
  if (used.step <= 0) used.step = out.file_seq >= 1024 ? 1024 : 16;
  out.has_sequence = out.file_seq > 0;
  if (!out.has_sequence) {
    if (used.want == PlanWant::kMaxSeq) used.want = PlanWant::kTable;
    used.grid = false;
    request.diagnostics->warn("plan-no-sequence", "no input of the model is known to carry a sequence: every configuration is planned at the file's own size");
  }
  ModelShelf shelf(what.open, request);
  Planner planner(used, request, shelf, out.file_seq);
  for (const Configuration& c : used.rivals ? rivals(used.space, what.profile.host_link.low > 0) : configurations(used.space, out.file_batch)) planner.add(c);
  SP_TRY(planner.run());
  out.rows = std::move(planner.rows);
  out.compiles = planner.compiles;
  std::stable_sort(out.rows.begin(), out.rows.end(), [&](const PlanRow& a, const PlanRow& b) { return better(a, b, used.want); });
  if (out.rows.empty() || out.rows.front().illegal) {
    Error e = makeError("plan-empty", strf("none of %zu configurations is legal", out.rows.size()));
    for (const PlanRow& row : out.rows)
      if (e.notes.size() < 3) e.notes.push_back(row.configuration.text() + ": " + row.illegal->message + (row.illegal->legal.empty() ? "" : " (legal: " + row.illegal->legal + ")"));
    return e;
  }
  for (std::size_t i = 0; i < out.rows.size(); ++i) {
    const PlanRow& row = out.rows[i];
    if (row.illegal || (used.want == PlanWant::kMaxSeq && row.max_seq == 0)) continue;
    const bool beaten = std::any_of(out.rows.begin(), out.rows.end(), [&](const PlanRow& other) { return !other.illegal && beats(other, row, used.want); });
    if (!beaten) out.pareto.push_back(i);
  }
  out.ns = monotonicNs() - begin;
  return out;
}

std::string verdictText(const PlanRow& row) {
  std::string out(row.verdict == Verdict::kDoesNotFit ? "does not fit" : verdictName(row.verdict));
  const Verdict host = hostVerdict(row.footprint, row.room), device = deviceVerdict(row.footprint, row.room);
  if (host != Verdict::kFits && host >= device) out += device == Verdict::kFits ? ": the host" : ": device and host";
  return out;
}

std::vector<PlanLever> leversOf(const PlanOutcome& outcome, std::size_t from, PlanWant want) {
  std::vector<PlanLever> out;
  const PlanRow& here = outcome.rows[from];
  if (here.illegal) return out;
  for (std::size_t i = 0; i < outcome.rows.size(); ++i) {
    const PlanRow& row = outcome.rows[i];
    if (i == from || row.illegal) continue;
    PlanLever lever;
    lever.row = i;
    lever.change = changeBetween(here.configuration, row.configuration);
    if (lever.change.empty()) continue;
    double there = static_cast<double>(row.footprint.peak_high), host_there = static_cast<double>(row.footprint.host.low);
    if (row.footprint.seq != here.footprint.seq) {
      if (row.fit.points() < 2) continue;
      there = row.fit.predictAlike(here.footprint.seq);
      host_there = row.fit.predictHost(here.footprint.seq, true);
      lever.fitted = true;
    }
    // Buffers of other meshes count, too: what is freed is room.
    lever.bytes_freed = static_cast<std::int64_t>(static_cast<double>(here.footprint.peak_high) - there + row.room.sure - here.room.sure);
    lever.host_bytes_more = static_cast<std::int64_t>(host_there) - here.footprint.host.low;
    lever.more_tokens = row.max_seq - here.max_seq;
    lever.work_ratio = here.work_per_token > 0 ? row.work_per_token / here.work_per_token : 1;
    // Ratios are of all ranks together; a step is as long as one of them.
    lever.seconds_more = here.footprint.time.middle * 1e-9 * (lever.work_ratio * here.configuration.ranks() / row.configuration.ranks() - 1);
    const bool frees = lever.bytes_freed > 0 || (hostVerdict(here.footprint, here.room) != Verdict::kFits && lever.host_bytes_more < 0);
    if (want == PlanWant::kMaxSeq ? lever.more_tokens > 0 : frees) out.push_back(std::move(lever));
  }
  std::stable_sort(out.begin(), out.end(), [](const PlanLever& a, const PlanLever& b) {
    return a.work_ratio != b.work_ratio ? a.work_ratio < b.work_ratio : a.bytes_freed > b.bytes_freed;
  });
  std::set<std::string> known;
  std::erase_if(out, [&](const PlanLever& lever) { return !known.insert(lever.change).second; });
  return out;
}

}  // namespace spscope::session
