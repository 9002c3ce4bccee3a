// SPDX-License-Identifier: Apache-2.0
#include "core/hang/disagreement.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::hang {
namespace {

using Camps = std::map<std::string, std::vector<int>>;

const Calls& callsOf(const Group& group, int rank, std::int64_t seq) { return group.calls.at(rank).at(seq); }

/// The camp of most ranks; nullptr where two are as large.
const Camps::value_type* majority(const Camps& camps) {
  const auto most = std::max_element(camps.begin(), camps.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (const auto& camp : camps)
    if (camp.first != most->first && camp.second.size() == most->second.size()) return nullptr;
  return &*most;
}

/// What a rank did from number `seq` on, without a gap.
std::vector<Signature> sequel(const Group& group, int rank, std::int64_t seq) {
  std::vector<Signature> out;
  const auto& calls = group.calls.at(rank);
  for (auto it = calls.find(seq); it != calls.end() && it->first - seq == static_cast<std::int64_t>(out.size()); ++it) out.push_back(signatureOf(it->second));
  return out;
}

/// Whether a[from_a ...] and b[from_b ...] are equal as far as both go, and both go on at all.
bool goesOnAs(const std::vector<Signature>& a, std::size_t from_a, const std::vector<Signature>& b, std::size_t from_b) {
  if (from_a >= a.size() || from_b >= b.size()) return false;
  const std::size_t n = std::min(a.size() - from_a, b.size() - from_b);
  return std::equal(a.begin() + static_cast<std::ptrdiff_t>(from_a), a.begin() + static_cast<std::ptrdiff_t>(from_a + n), b.begin() + static_cast<std::ptrdiff_t>(from_b));
}

/// How the one that differs came to differ; false: simply another call.
bool explainOrder(const Group& group, int odd, int usual, std::int64_t seq, Verdict* v) {
  const auto theirs = sequel(group, usual, seq), its = sequel(group, odd, seq);
  const std::string does = opOf(callsOf(group, odd, seq)), number = strf("#%lld", static_cast<long long>(seq));
  const std::string others = opOf(callsOf(group, usual, seq));
  if (theirs.size() > 1 && its.size() > 1 && its[0] == theirs[1] && its[1] == theirs[0]) {
    v->code = "hang-order";
    v->why = strf("rank %d calls %s as %s and %s after it; the others call them the other way round", odd, does.c_str(), number.c_str(), others.c_str());
    return true;
  }
  const auto& calls = group.calls.at(odd);
  const auto before = calls.find(seq - 1);
  const bool again = before != calls.end() && signatureOf(before->second) == its[0];
  if (goesOnAs(its, 1, theirs, 0) || (its.size() == 1 && again)) {
    v->code = "hang-extra-collective";
    v->why = again ? strf("rank %d calls %s twice (#%lld and %s), the others once: they are at %s", odd, does.c_str(), static_cast<long long>(seq - 1), number.c_str(), others.c_str())
                   : strf("rank %d calls %s as %s, which no other rank does there, and then goes on as the others", odd, does.c_str(), number.c_str());
    return true;
  }
  if (goesOnAs(its, 0, theirs, 1)) {
    if (its.size() > 1) v->code = "hang-skipped-collective";
    else v->code = "hang-order";
    v->why = strf("rank %d calls %s as %s, which the others call next: it has skipped %s%s", odd, does.c_str(), number.c_str(), others.c_str(),
                  its.size() > 1 ? " and goes on as they do" : ", or has them in another order");
    return true;
  }
  return false;
}

/// All members are there and sent and received elements do not add up, or one alone sends another number than it receives.
std::optional<Verdict> unevenAllToAll(const Group& group, const Meeting& m) {
  std::int64_t in = 0, out = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> camps;
  for (const int r : m.came) {
    const auto e = elementsOf(callsOf(group, r, m.seq));
    if (e.first < 0 || __builtin_add_overflow(in, e.first, &in) || __builtin_add_overflow(out, e.second, &out)) return {};
    camps[e].push_back(r);
  }
  const bool all = m.came.size() == group.members.size() && group.members_known;
  if (in == out) return {};
  Verdict v;
  v.code = "collective-mismatch";
  v.certainty = Certainty::kPossible;
  // The others all send what they receive: then the odd one is it.
  int odd = -1;
  std::size_t uneven = 0;
  for (const auto& [e, ranks] : camps)
    if (e.first != e.second) uneven += ranks.size(), odd = ranks.front();
  if (uneven == 1) v.culprits = {odd}, v.certainty = all ? Certainty::kLikely : Certainty::kPossible;
  else if (!all) return {};  // those that are not known may make it up
  v.why = strf("the splits do not agree: %s send %lld elements in all and expect %lld", all ? "the ranks" : "the ranks that are known", static_cast<long long>(in), static_cast<long long>(out));
  if (uneven == 1) {
    const auto e = elementsOf(callsOf(group, odd, m.seq));
    v.why += strf("; rank %d alone sends %lld and expects %lld", odd, static_cast<long long>(e.first), static_cast<long long>(e.second));
  }
  return v;
}

std::optional<Verdict> disagreement(const Group& group, const Meeting& m) {
  Camps ops, sizes, dtypes;
  for (const int r : m.came) {
    const Signature s = signatureOf(callsOf(group, r, m.seq));
    ops[s.op].push_back(r);
    sizes[s.sizes].push_back(r);
    dtypes[s.dtypes].push_back(r);
  }
  const Camps* const differ = ops.size() > 1 ? &ops : sizes.size() > 1 ? &sizes : dtypes.size() > 1 ? &dtypes : nullptr;
  if (!differ) return isAllToAll(callsOf(group, m.came.front(), m.seq)) ? unevenAllToAll(group, m) : std::nullopt;
  Verdict v;
  v.code = "collective-mismatch";
  const auto* const most = majority(*differ);
  const int usual = most ? most->second.front() : differ->begin()->second.front();
  int odd = -1;
  for (const auto& [text, ranks] : *differ) {
    if (most && text == most->first) continue;
    if (!most && ranks.front() == usual) continue;
    v.culprits.insert(v.culprits.end(), ranks.begin(), ranks.end());
    odd = ranks.front();
  }
  const std::size_t camps = differ->size();
  // With as many on either side the dumps do not tell who is right, but what differs is known.
  v.certainty = !most ? Certainty::kPossible : camps == 2 && v.culprits.size() * 2 < m.came.size() ? Certainty::kCertain : Certainty::kLikely;
  if (!most) v.culprits.clear();
  std::sort(v.culprits.begin(), v.culprits.end());
  if (most && v.culprits.size() == 1 && explainOrder(group, odd, usual, m.seq, &v)) return v;
  const auto words = [&](int r) {
    const Calls& c = callsOf(group, r, m.seq);
    const std::string shape = shapeOf(c);
    return opOf(c) + (shape.empty() ? "" : " of " + shape);
  };
  const std::string what = differ == &ops ? "another collective" : differ == &sizes ? "other sizes" : "another type";
  std::vector<int> rest;
  std::set_difference(m.came.begin(), m.came.end(), v.culprits.begin(), v.culprits.end(), std::back_inserter(rest));
  if (most) v.why = strf("%s: %s does %s, %s %s", what.c_str(), ranksText(v.culprits).c_str(), words(odd).c_str(), ranksText(rest).c_str(), words(usual).c_str());
  else v.why = strf("%s: %s does %s, %s %s; as many do the one as the other", what.c_str(), ranksText(differ->at(differ->begin()->first)).c_str(), words(usual).c_str(), ranksText(differ->rbegin()->second).c_str(), words(odd).c_str());
  return v;
}

}  // namespace

std::optional<Verdict> firstDisagreement(const Group& group, const std::vector<Meeting>& meetings) {
  for (const Meeting& m : meetings) {
    if (m.came.size() < 2) continue;
    if (auto v = disagreement(group, m)) {
      v->group = group.title();
      v->seq = m.seq;
      v->waiting = m.inside;
      v->missing = m.absent;
      const int who = v->culprits.empty() ? m.came.front() : v->culprits.front();
      v->where = callsOf(group, who, m.seq).front();
      v->op = opOf(callsOf(group, who, m.seq));
      return v;
    }
  }
  return {};
}

}  // namespace spscope::hang
