// SPDX-License-Identifier: Apache-2.0
#include "passes/sequence/size_system.h"

#include <algorithm>

#include "core/base/strings.h"

namespace spscope::passes {

using ir::kNone;
using ir::NodeId;

// --- classes --------------------------------------------------------------------------------------------------------

Atom SizeSystem::free(std::int64_t size, NodeId at, bool literal) {
  AtomInfo info;
  info.size = size;
  info.at = at;
  info.literal = literal;
  atoms_.push_back(std::move(info));
  return static_cast<Atom>(atoms_.size()) - 1;
}

Atom SizeSystem::pinned(std::int64_t size, std::string reason) {
  const Atom a = free(size, kNone);
  AtomInfo& info = atoms_[index(a)];
  info.pinned = true;
  info.difference = 0;
  info.reason = std::move(reason);
  return a;
}

Atom SizeSystem::find(Atom a) const {
  while (atoms_[index(a)].parent != kNone) {
    const Atom up = atoms_[index(a)].parent;
    if (atoms_[index(up)].parent != kNone) atoms_[index(a)].parent = atoms_[index(up)].parent;
    a = up;
  }
  return a;
}

void SizeSystem::follow(Atom a, std::int64_t difference, Length length) { setDifference(a, difference, length, kNone); }

void SizeSystem::setDifference(Atom a, std::int64_t difference, Length length, NodeId at) {
  AtomInfo& info = root(a);
  if (info.difference && *info.difference != difference) {
    refuse({at, length == Length::kNone ? info.length : length, oldSize(a), oldSize(a) + difference, info.reason});
    return;
  }
  if (!info.difference) info.length = length;
  info.difference = difference;
}

void SizeSystem::pin(Atom a, const std::string& reason, NodeId at) {
  AtomInfo& info = root(a);
  if (info.difference && *info.difference != 0) {
    refuse({at, info.length, oldSize(a), oldSize(a) + *info.difference, reason});
    return;
  }
  if (!info.pinned) info.reason = reason;
  info.pinned = true;
  info.difference = 0;
}

void SizeSystem::pin(const AtomList& list, const std::string& reason, NodeId at) {
  for (Atom a : list) pin(a, reason, at);
}

void SizeSystem::unify(Atom a, Atom b, NodeId at) {
  const Atom ra = find(a), rb = find(b);
  if (ra == rb) return;
  AtomInfo& x = atoms_[index(ra)];
  AtomInfo& y = atoms_[index(rb)];
  if (x.difference && y.difference && *x.difference != *y.difference) {
    const bool x_stays = *x.difference == 0;
    const AtomInfo& moving = x_stays ? y : x;
    const Atom stuck = x_stays ? a : b;
    refuse({at, moving.length, oldSize(stuck), oldSize(stuck) + *moving.difference, (x_stays ? x : y).reason});
    return;
  }
  if (!x.difference && y.difference) x.difference = y.difference, x.length = y.length;
  if (y.pinned && !x.pinned) x.pinned = true, x.reason = y.reason;
  if (x.reason.empty()) x.reason = y.reason;
  y.parent = ra;
}

void SizeSystem::unify(const AtomList& a, const AtomList& b, NodeId at) {
  if (a == b) return;
  bool pairwise = a.size() == b.size();
  for (std::size_t i = 0; pairwise && i < a.size(); ++i) pairwise = oldSize(a[i]) == oldSize(b[i]);
  if (pairwise) {
    for (std::size_t i = 0; i < a.size(); ++i) unify(a[i], b[i], at);
    return;
  }
  SizeEquation e;
  e.lhs = a;
  e.terms = {b};
  e.at = at;
  add(std::move(e));
}

std::pair<Atom, Atom> SizeSystem::split(Atom a, std::int64_t outer, bool prefer_inner, NodeId at) {
  const auto key = std::pair(a, outer);
  if (const auto it = splits_.find(key); it != splits_.end()) return it->second;
  const std::int64_t inner = oldSize(a) / outer;
  std::pair<Atom, Atom> parts;
  if (isPinned(a)) {
    const std::string why = reasonOf(a);
    parts = {pinned(outer, why), pinned(inner, why)};
  } else {
    parts = {free(outer, at), free(inner, at)};
  }
  SizeEquation e;
  e.lhs = {a};
  e.terms = {{parts.first, parts.second}};
  e.at = at;
  if (prefer_inner) e.prefer = {parts.second, parts.first};
  else e.prefer = {parts.first, parts.second};
  add(std::move(e));
  splits_[key] = parts;
  return parts;
}

// --- equations ------------------------------------------------------------------------------------------------------

void SizeSystem::add(SizeEquation e) {
  e.constant = oldSize(e.lhs);
  for (const AtomList& t : e.terms) e.constant -= oldSize(t);
  if (e.terms.size() == 1 && e.lhs.size() == 1 && e.terms[0].size() == 1) {  // a constant distance
    unify(e.lhs[0], e.terms[0][0], e.at);
    return;
  }
  equations_.push_back(std::move(e));
}

std::vector<AtomList> SizeSystem::sides(const SizeEquation& e) const {
  std::vector<AtomList> out{e.lhs};
  out.insert(out.end(), e.terms.begin(), e.terms.end());
  return out;
}

std::optional<std::int64_t> SizeSystem::evenPart(const SizeEquation& e, Atom open) const {
  if (e.lhs.size() != 1 || !root(e.lhs[0]).difference) return std::nullopt;
  std::int64_t rest = newSize(e.lhs) - e.constant, parts = 0;
  for (const AtomList& t : e.terms) {
    const bool open_term = t.size() == 1 && find(t[0]) == find(open);
    if (!open_term && std::any_of(t.begin(), t.end(), [&](Atom a) { return !root(a).difference; })) return std::nullopt;
    rest -= open_term ? oldSize(t[0]) : newSize(t);
    parts += open_term;
  }
  if (parts == 0 || rest % parts != 0) return std::nullopt;
  return rest / parts;
}

bool SizeSystem::applyEquation(const SizeEquation& e, bool decide) {
  Atom open = kNone;
  std::size_t open_side = 0;
  int classes = 0, occurrences = 0;
  Length length = Length::kNone;
  bool moving = false;
  const std::vector<AtomList> all = sides(e);
  for (std::size_t s = 0; s < all.size(); ++s)
    for (Atom a : all[s]) {
      const AtomInfo& info = root(a);
      if (info.difference) {
        if (*info.difference != 0) moving = true, length = info.length;
        continue;
      }
      ++occurrences;
      if (open == kNone || find(open) != find(a)) ++classes;
      open = a, open_side = s;
    }
  if (!moving || occurrences == 0) return false;
  if (classes == 1 && occurrences > 1)
    if (const auto part = evenPart(e, open)) {
      setDifference(open, *part, length, e.at);
      return true;
    }
  if (classes > 1 || occurrences > 1) {
    if (!decide) return false;
    for (Atom p : e.prefer) {
      if (root(p).difference) continue;
      bool moved = false;
      for (const AtomList& side : all)
        for (Atom a : side)
          if (find(a) != find(p) && !root(a).difference) {
            root(a).difference = 0, moved = true;
            if (root(a).reason.empty()) root(a).reason = strf("a size of %lld was taken to stay", static_cast<long long>(oldSize(a)));
          }
      return applyEquation(e, false) || moved;
    }
    return false;
  }
  // One open atom, once: solve for it.
  std::int64_t rest = e.constant, others = 1;
  for (std::size_t s = 1; s < all.size(); ++s)
    if (s != open_side) rest += newSize(all[s]);
  if (open_side > 0) rest = newSize(e.lhs) - rest;
  for (Atom a : all[open_side])
    if (a != open) others *= newSize(a);
  if (others == 0 || rest <= 0 || rest % others != 0) {
    refuse({e.at, length, oldSize(open), 0,
            e.reason.empty() ? strf("%lld does not divide into parts of %lld", static_cast<long long>(rest),
                                    static_cast<long long>(others))
                             : e.reason});
    return false;
  }
  setDifference(open, rest / others - oldSize(open), length, e.at);
  return true;
}

bool SizeSystem::propagate(bool decide) {
  for (const SizeEquation& e : equations_) {
    if (conflict_) return false;
    if (applyEquation(e, decide)) {
      if (decide) return true;
      while (!conflict_) {  // run on until nothing is forced any more
        bool again = false;
        for (const SizeEquation& f : equations_) again = applyEquation(f, false) || again;
        if (!again) break;
      }
      return true;
    }
  }
  return false;
}

void SizeSystem::finish() {
  for (const SizeEquation& e : equations_) {
    std::int64_t sum = e.constant;
    for (const AtomList& t : e.terms) sum += newSize(t);
    if (sum == newSize(e.lhs) && sum > 0) continue;
    std::string reason = e.reason;
    Length length = Length::kNone;
    for (const AtomList& side : sides(e)) {
      if (length == Length::kNone) length = lengthOf(side);
      if (reason.empty()) reason = reasonOf(side);
    }
    if (reason.empty())
      reason = strf("sizes do not agree: %lld against %lld", static_cast<long long>(newSize(e.lhs)),
                    static_cast<long long>(sum));
    refuse({e.at, length, oldSize(e.lhs), sum, std::move(reason)});
  }
}

// --- answers --------------------------------------------------------------------------------------------------------

std::int64_t SizeSystem::oldSize(const AtomList& list) const {
  std::int64_t n = 1;
  for (Atom a : list) n *= oldSize(a);
  return n;
}

std::int64_t SizeSystem::newSize(const AtomList& list) const {
  std::int64_t n = 1;
  for (Atom a : list) n *= newSize(a);
  return n;
}

std::optional<std::int64_t> SizeSystem::difference(const AtomList& list, bool settled) const {
  if (!settled)
    for (Atom a : list)
      if (!root(a).difference) return std::nullopt;
  return newSize(list) - oldSize(list);
}

bool SizeSystem::isPinned(const AtomList& list) const {
  return std::all_of(list.begin(), list.end(), [&](Atom a) { return isPinned(a); });
}

Length SizeSystem::lengthOf(const AtomList& list) const {
  for (Atom a : list)
    if (changes(a)) return root(a).length;
  return Length::kNone;
}

const std::string& SizeSystem::reasonOf(const AtomList& list) const {
  static const std::string none;
  for (Atom a : list)
    if (!reasonOf(a).empty()) return reasonOf(a);
  return none;
}

std::vector<Atom> SizeSystem::leaves() const {
  std::vector<bool> left_out(atoms_.size(), true), taken(atoms_.size(), false);
  for (std::size_t i = 0; i < atoms_.size(); ++i)
    if (!atoms_[i].literal) left_out[index(find(static_cast<Atom>(i)))] = false;
  for (std::size_t i = 0; i < atoms_.size(); ++i)
    if (root(static_cast<Atom>(i)).pinned) left_out[i] = true;
  for (const SizeEquation& e : equations_) {
    const std::vector<AtomList> all = sides(e);
    const bool product = std::any_of(all.begin(), all.end(), [](const AtomList& s) { return s.size() > 1; });
    if (e.lhs.size() == 1) left_out[index(find(e.lhs[0]))] = true;
    else if (product)
      for (const AtomList& side : all)
        if (side.size() == 1) left_out[index(find(side[0]))] = true;
  }
  std::vector<Atom> out;
  for (std::size_t i = 0; i < atoms_.size(); ++i) {
    const std::size_t r = index(find(static_cast<Atom>(i)));
    if (left_out[r] || taken[r]) continue;
    taken[r] = true;
    out.push_back(static_cast<Atom>(r));
  }
  return out;
}

std::vector<std::pair<Atom, NodeId>> SizeSystem::openLiterals() const {
  std::vector<std::pair<Atom, NodeId>> out;
  for (std::size_t i = 0; i < atoms_.size(); ++i)
    if (atoms_[i].literal && !root(static_cast<Atom>(i)).difference) out.emplace_back(static_cast<Atom>(i), atoms_[i].at);
  return out;
}

}  // namespace spscope::passes
