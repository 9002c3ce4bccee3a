// SPDX-License-Identifier: Apache-2.0
#include "core/hang/verdict.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/hang/disagreement.h"
#include "core/hang/pairs.h"

namespace spscope::hang {
namespace {

using io::RecordedOp;

/// Something that ranks wait in, and for whom.
struct Wait {
  const Group* group = nullptr;
  std::optional<std::int64_t> seq;
  std::string what;
  std::vector<int> waiting, absent, unknown;
  const RecordedOp* op = nullptr;  ///< of the first that waits
};

template <typename Container>
bool has(const Container& c, int rank) {
  return std::find(c.begin(), c.end(), rank) != c.end();
}

std::vector<int> both(const std::vector<int>& a, const std::vector<int>& b) {
  std::set<int> out(a.begin(), a.end());
  out.insert(b.begin(), b.end());
  return {out.begin(), out.end()};
}

class Analyser {
 public:
  Analyser(const std::vector<io::RecorderDump>& dumps, Finding* out) : dumps_(dumps), out_(*out) {
    for (const auto& d : dumps) dumped_.insert(d.rank);
    out_.groups = groupsOf(dumps);
    for (const Group& g : out_.groups) meetings_.push_back(meetingsOf(g));
  }

  void run() {
    places();
    unknowns();
    findWaits();
    if (!differing() && !unequalPair() && !someoneAbsent() && !circle() && !allInside()) slowest();
  }

 private:
  // --- what is told of each rank ---
  void places() {
    std::int64_t now = 0;
    for (const auto& d : dumps_)
      for (const RecordedOp& op : d.ops) now = std::max({now, op.created_ns, op.started_ns, op.completed_ns});
    for (const auto& d : dumps_)
      for (const Group& g : out_.groups) {
        Place p;
        p.rank = d.rank;
        p.group = &g;
        const auto look = [&](const RecordedOp* op) {
          if (op->completed) p.last_completed = op;
          else if (!p.first_open) p.first_open = op;
        };
        if (const auto it = g.calls.find(d.rank); it != g.calls.end())
          for (const auto& [seq, calls] : it->second)
            for (const RecordedOp* op : calls) look(op);
        if (const auto it = g.p2p.find(d.rank); it != g.p2p.end())
          for (const RecordedOp* op : it->second) look(op);
        if (p.first_open && p.first_open->created_ns > 0) p.since_ns = now - p.first_open->created_ns;
        if (p.first_open || p.last_completed) out_.places.push_back(p);
      }
  }

  void unknowns() {
    std::set<int> lacking;
    bool guessed = false;
    for (const Group& g : out_.groups) {
      lacking.insert(g.without_dump.begin(), g.without_dump.end());
      guessed |= !g.members_known;
    }
    if (!lacking.empty()) out_.unknown.push_back("there is no dump of " + ranksText({lacking.begin(), lacking.end()}) + ": what it did last is not known");
    if (guessed) out_.unknown.push_back("the recorder did not say who is in some of the groups (Gloo's does not): those that have used them were taken for the members");
    std::set<std::string> versions;
    std::vector<int> overwritten, empty;
    std::int64_t unreadable = 0;
    for (const auto& d : dumps_) {
      versions.insert(d.version);
      if (d.ops.empty()) empty.push_back(d.rank);
      else if (d.ops.front().record > 0) overwritten.push_back(d.rank);
      unreadable += d.unreadable_ops;
    }
    if (versions.size() > 1) out_.unknown.push_back("the dumps are of several versions (" + join(std::vector<std::string>(versions.begin(), versions.end()), ", ") + "): the ranks do not run the same torch");
    if (!overwritten.empty()) out_.unknown.push_back("the first entries of " + ranksText(overwritten) + " were overwritten (TORCH_FR_BUFFER_SIZE is how many are kept): differences before them are not seen");
    if (!empty.empty()) out_.unknown.push_back(ranksText(empty) + (empty.size() > 1 ? " have" : " has") + " recorded nothing");
    if (unreadable > 0) out_.unknown.push_back(strf("%lld entries could not be read", static_cast<long long>(unreadable)));
  }

  // --- who waits for whom ---
  void findWaits() {
    for (std::size_t g = 0; g < out_.groups.size(); ++g) {
      const Group& group = out_.groups[g];
      for (const Meeting& m : meetings_[g]) {
        if (m.inside.empty()) continue;
        const Calls& calls = group.calls.at(m.inside.front()).at(m.seq);
        Wait w{&group, m.seq, strf("%s #%lld", opOf(calls).c_str(), static_cast<long long>(m.seq)), m.inside, m.absent, group.without_dump, calls.front()};
        const bool met = w.absent.empty() && w.unknown.empty();
        (met ? met_ : waits_).push_back(std::move(w));
        break;  // what is behind it waits for it
      }
      for (const OpenPair& p : openPairs(group)) {
        if (p.other) {
          if (!p.same_size && !unequal_) unequal_ = p, unequal_group_ = &group;
          continue;
        }
        const bool known = dumped_.contains(p.peer);
        Wait w{&group, {}, strf("%s %d%s%d", p.op->op.c_str(), p.rank, p.op->op == "send" ? "->" : "<-", p.peer), {p.rank}, {}, {}, p.op};
        (known ? w.absent : w.unknown).push_back(p.peer);
        waits_.push_back(std::move(w));
      }
    }
    for (const Wait& w : waits_) blocked_.insert(w.waiting.begin(), w.waiting.end());
  }

  Verdict of(const Wait& w) const {
    Verdict v;
    v.group = w.group->title();
    v.seq = w.seq;
    v.op = w.op->op;
    v.waiting = w.waiting;
    v.missing = both(w.absent, w.unknown);
    v.where = w.op;
    return v;
  }

  // --- the verdicts, the surest first ---
  bool differing() {
    std::optional<Verdict> first;
    std::int64_t first_ns = 0;
    for (std::size_t g = 0; g < out_.groups.size(); ++g)
      if (auto v = firstDisagreement(out_.groups[g], meetings_[g])) {
        const std::int64_t ns = v->where->created_ns;
        if (first && ns >= first_ns) {
          out_.other.push_back(v->group + strf(" #%lld: ", static_cast<long long>(*v->seq)) + v->why);
          continue;
        }
        if (first) out_.other.push_back(first->group + strf(" #%lld: ", static_cast<long long>(*first->seq)) + first->why);
        first = std::move(v), first_ns = ns;
      }
    if (!first) return false;
    out_.verdict = std::move(*first);
    return true;
  }

  bool unequalPair() {
    if (!unequal_) return false;
    const OpenPair& p = *unequal_;
    Verdict& v = out_.verdict;
    v.code = "collective-mismatch";
    v.certainty = Certainty::kPossible;
    v.group = unequal_group_->title();
    v.op = p.op->op;
    v.waiting = both({p.rank}, {p.peer});
    v.where = p.op;
    v.why = strf("rank %d does %s of %s, rank %d %s of %s: either may be wrong", p.rank, p.op->op.c_str(), shapeOf({p.op}).c_str(), p.peer, p.other->op.c_str(), shapeOf({p.other}).c_str());
    return true;
  }

  /// A rank that others wait for and that waits for nobody.
  bool someoneAbsent() {
    const Wait* best = nullptr;
    std::vector<int> idle, silent;
    for (const Wait& w : waits_) {
      std::vector<int> here;
      for (const int r : w.absent)
        if (!blocked_.contains(r)) here.push_back(r);
      // One that left a dump is better evidence than one of which nothing is known; then the one that began first.
      const bool better = !best || (!here.empty() && idle.empty()) || (here.empty() == idle.empty() && w.op->created_ns < best->op->created_ns);
      if ((here.empty() && w.unknown.empty()) || !better) continue;
      best = &w, idle = here, silent = w.unknown;
    }
    if (!best) return false;
    const Wait& w = *best;
    Verdict& v = out_.verdict = of(w);
    v.code = "hang-absent-rank";
    if (!w.seq) return lonelyPair(w, idle);
    if (idle.empty()) return noDump(w, silent);
    // Most have gone on, or ended, without it: then those who wait are the odd ones.
    if (w.waiting.size() < idle.size() && silent.empty()) {
      v.code = "hang-extra-collective";
      v.culprits = w.waiting;
      v.certainty = Certainty::kLikely;
      v.why = strf("only %s came to %s; %s did not and wait%s nowhere", ranksText(w.waiting).c_str(), w.what.c_str(), ranksText(idle).c_str(), idle.size() > 1 ? "" : "s");
      return true;
    }
    v.culprits = idle;
    v.certainty = !silent.empty() || w.waiting.size() == idle.size() ? Certainty::kLikely : Certainty::kCertain;
    v.why = strf("%s did not come to %s, in which %s waited", ranksText(idle).c_str(), w.what.c_str(), ranksText(w.waiting).c_str());
    v.why += last(idle.front(), *w.group);
    if (!silent.empty()) v.why += "; " + ranksText(silent) + " left no dump";
    if (const RecordedOp* op = lastOp(idle.front())) v.where = op;
    return true;
  }

  bool noDump(const Wait& w, const std::vector<int>& silent) {
    Verdict& v = out_.verdict;
    v.code = "hang-no-dump";
    v.culprits = silent;
    v.certainty = Certainty::kLikely;
    v.why = strf("%s left no dump, and %s, in which %s wait%s, lacks nobody else: dead, or its dump was not collected", ranksText(silent).c_str(), w.what.c_str(), ranksText(w.waiting).c_str(), w.waiting.size() > 1 ? "" : "s");
    return true;
  }

  bool lonelyPair(const Wait& w, const std::vector<int>& idle) {
    Verdict& v = out_.verdict;
    const bool send = w.op->op == "send";
    if (idle.empty()) {
      noDump(w, w.unknown);
      return true;
    }
    v.code = "hang-unpaired";
    v.culprits = idle;
    v.certainty = Certainty::kLikely;
    v.why = strf("%s has no %s for %s of rank %d", ranksText(idle).c_str(), send ? "recv" : "send", w.what.c_str(), w.waiting.front());
    return true;
  }

  std::string last(int rank, const Group& group) const {
    for (const Place& p : out_.places)
      if (p.rank == rank && p.group == &group && p.last_completed)
        return strf("; its last one there was %s #%lld", p.last_completed->op.c_str(), static_cast<long long>(p.last_completed->seq));
    return "; it has done nothing in that group";
  }
  const RecordedOp* lastOp(int rank) const {
    for (const auto& d : dumps_)
      if (d.rank == rank && !d.ops.empty()) return &d.ops.back();
    return nullptr;
  }

  /// Everybody waits, in different places, for each other.
  bool circle() {
    if (waits_.empty()) return false;
    const Wait* small = &waits_.front();
    const Wait* large = &waits_.front();
    for (const Wait& w : waits_) {
      if (w.waiting.size() < small->waiting.size()) small = &w;
      if (w.waiting.size() > large->waiting.size()) large = &w;
    }
    Verdict& v = out_.verdict = of(*small);
    if (small->seq || large->seq) v.code = "hang-group";
    else v.code = "hang-unpaired";
    const auto at = [](const Wait& w) { return w.what + " of group " + w.group->title(); };
    if (small->waiting.size() == large->waiting.size()) {
      const Wait& other = waits_.size() > 1 ? waits_[waits_.data() == small ? 1 : 0] : *small;
      v.certainty = Certainty::kPossible;
      v.culprits = v.code == "hang-unpaired" ? both(small->waiting, other.waiting) : std::vector<int>{};
      v.why = strf("%s in %s, %s in %s: they wait for each other, as many here as there", ranksText(small->waiting).c_str(), at(*small).c_str(), ranksText(other.waiting).c_str(), at(other).c_str());
      return true;
    }
    v.culprits = small->waiting;
    v.certainty = Certainty::kLikely;
    v.why = strf("%s wait%s in %s, while %s wait for %s in %s", ranksText(small->waiting).c_str(), small->waiting.size() > 1 ? "" : "s", at(*small).c_str(), ranksText(large->waiting).c_str(),
                 small->waiting.size() > 1 ? "them" : "it", at(*large).c_str());
    return true;
  }

  /// All came and have not finished: nobody is missing.
  bool allInside() {
    if (met_.empty()) return false;
    const Wait& w = *std::min_element(met_.begin(), met_.end(), [](const Wait& a, const Wait& b) { return a.op->created_ns < b.op->created_ns; });
    Verdict& v = out_.verdict = of(w);
    v.code = "hang-inside";
    // Where the others' kernels run and one's has not begun, that one's device is still at something before it.
    std::vector<int> not_begun;
    for (const int r : w.waiting) {
      const Calls& calls = w.group->calls.at(r).at(*w.seq);
      if (calls.front()->state == "scheduled" && calls.front()->started_ns == 0) not_begun.push_back(r);
    }
    v.certainty = Certainty::kPossible;
    if (!not_begun.empty() && not_begun.size() < w.group->members.size()) {
      v.culprits = not_begun;
      v.why = strf("all came to %s; on %s it is scheduled and has not begun: the device is still at something before it", w.what.c_str(), ranksText(not_begun).c_str());
      v.where = w.group->calls.at(not_begun.front()).at(*w.seq).front();
      return true;
    }
    // Some are through with it: those that are not stand still there, whatever else waits for them later.
    if (w.waiting.size() < w.group->members.size() && w.group->members_known) {
      v.culprits = w.waiting;
      v.certainty = Certainty::kLikely;
      v.why = strf("all came to %s with the same sizes and the others have finished it; %s %s not", w.what.c_str(), ranksText(w.waiting).c_str(), w.waiting.size() > 1 ? "have" : "has");
      return true;
    }
    v.why = strf("all came to %s with the same sizes and %s %s not finished: the network, a device, or the dump was taken in the middle of it", w.what.c_str(), ranksText(w.waiting).c_str(), w.waiting.size() > 1 ? "have" : "has");
    return true;
  }

  /// Nothing hangs; but one rank made the others wait.
  void slowest() {
    std::map<int, std::int64_t> caused, times;
    std::int64_t meetings = 0;
    for (const auto& list : meetings_)
      for (const Meeting& m : list) {
        if (m.came.size() < 2 || m.came.size() != m.group->members.size()) continue;
        std::vector<std::pair<std::int64_t, int>> arrivals;
        for (const int r : m.came) arrivals.emplace_back(m.group->calls.at(r).at(m.seq).front()->created_ns, r);
        std::sort(arrivals.begin(), arrivals.end());
        if (arrivals.front().first <= 0) continue;
        ++meetings;
        // Nobody waits for a quarter of an hour: longer ones are broken clocks, and would spoil the sum.
        caused[arrivals.back().second] += std::min<std::int64_t>(arrivals.back().first - arrivals[arrivals.size() - 2].first, 900'000'000'000);
        ++times[arrivals.back().second];
      }
    std::int64_t all = 0;
    for (const auto& [rank, ns] : caused) all += ns;
    if (meetings < 3 || all <= 0) return;
    const auto most = std::max_element(caused.begin(), caused.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    // A tenth of a second: below it clocks of machines differ, and nobody waits for a hang that long.
    if (most->second < 100'000'000 || most->second < all / 2) return;
    Verdict& v = out_.verdict;
    v.code = "hang-slow-rank";
    v.culprits = {most->first};
    v.certainty = Certainty::kLikely;
    v.why = strf("nobody waits in the end, but rank %d came last to %lld of %lld collectives, %s later than the next in all (by the machines' own clocks)", most->first,
                 static_cast<long long>(times[most->first]), static_cast<long long>(meetings), formatNs(most->second).c_str());
    v.where = lastOp(most->first);
  }

  const std::vector<io::RecorderDump>& dumps_;
  Finding& out_;
  std::set<int> dumped_, blocked_;
  std::vector<std::vector<Meeting>> meetings_;
  std::vector<Wait> waits_, met_;  ///< somebody lacks; nobody lacks
  std::optional<OpenPair> unequal_;
  const Group* unequal_group_ = nullptr;
};

}  // namespace

std::string_view nameOf(Certainty certainty) {
  return certainty == Certainty::kCertain ? "certain" : certainty == Certainty::kLikely ? "likely" : "possible";
}

std::string ranksText(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  constexpr std::size_t kMost = 12;
  std::vector<std::int64_t> shown(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size() - 1, kMost)));
  const std::string rest = ranks.size() - shown.size() > 1 ? strf("%zu more", ranks.size() - shown.size()) : std::to_string(ranks.back());
  return "ranks " + join(shown, ", ") + " and " + rest;
}

const io::RecordedFrame* userFrame(const io::RecordedOp& op) {
  for (const auto& f : op.frames)
    if (f.file.find("/torch/") == std::string::npos && !f.file.empty() && f.file.front() != '<') return &f;
  return op.frames.empty() ? nullptr : &op.frames.front();
}

Finding analyse(const std::vector<io::RecorderDump>& dumps) {
  Finding out;
  out.dumps = &dumps;
  Analyser(dumps, &out).run();
  return out;
}

}  // namespace spscope::hang
