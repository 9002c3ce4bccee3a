// SPDX-License-Identifier: Apache-2.0
// Sizes as unknowns: which numbers of a static program change when its sequence length changes, and to what.
//
// Every dimension is a list of atoms (outermost first), each with its size in the file. Atoms that must agree (two
// operands of an addition, the inner dims of a product) are one class; so are atoms at a constant distance (S and the
// S-1 behind a shift), since all members of a class change by the same difference. What is neither (a split S = 8 * S/8,
// a concatenation) is an equation. Parameters cannot change: their atoms are pinned with the reason. solve() lets the
// differences given to the inputs flow through classes and equations, forwards and backwards, until nothing moves.
// Numbers are never compared with the sequence length.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace spscope::passes {

using Atom = std::int32_t;
using AtomList = boost::container::small_vector<Atom, 2>;  ///< of one dimension; empty where its size is 1

/// Which length makes an atom change; it decides the code of a refusal.
enum class Length : std::uint8_t { kNone, kSequence, kBatch, kWidth };  // kWidth: of a model made narrower (passes/shrink)

/// A size that would have to change and cannot.
struct SizeConflict {
  ir::NodeId at = ir::kNone;  ///< where the two meet
  Length length = Length::kSequence;
  std::int64_t size = 0;   ///< in the file
  std::int64_t wanted = 0; ///< what the length asks for; 0 where that is no number
  std::string reason;      ///< "parameter wpe.weight has 64 rows"
};

/// product(lhs) = sum over terms of product(term) + constant.
struct SizeEquation {
  AtomList lhs;
  std::vector<AtomList> terms;
  std::int64_t constant = 0;  ///< set by SizeSystem::add from the sizes in the file
  ir::NodeId at = ir::kNone;
  AtomList prefer;  ///< who changes where several could, best first; the others keep their size
  std::string reason;  ///< of the refusal where no whole number solves it; empty: "x does not divide"
};

class SizeSystem {
 public:
  Atom free(std::int64_t size, ir::NodeId at, bool literal = false);
  Atom pinned(std::int64_t size, std::string reason);
  /// The class changes by `difference` (0: stays) because of `length`.
  void follow(Atom a, std::int64_t difference, Length length);
  /// The atom keeps its size for `reason`.
  void pin(Atom a, const std::string& reason, ir::NodeId at);
  void pin(const AtomList& list, const std::string& reason, ir::NodeId at);
  /// Both change by the same difference; their sizes may differ.
  void unify(Atom a, Atom b, ir::NodeId at);
  /// The products are equal, in the file and afterwards.
  void unify(const AtomList& a, const AtomList& b, ir::NodeId at);
  void add(SizeEquation equation);
  /// a = outer * inner; the same pair for the same question. `prefer_inner`: which one changes where it is open.
  std::pair<Atom, Atom> split(Atom a, std::int64_t outer, bool prefer_inner, ir::NodeId at);

  /// Applies equations until nothing changes. With `decide`, at most one open choice is made. True when anything moved.
  bool propagate(bool decide);
  /// Everything still open keeps its size; then checks all equations.
  void finish();

  std::int64_t oldSize(Atom a) const { return atoms_[index(a)].size; }
  std::int64_t oldSize(const AtomList& list) const;
  std::int64_t newSize(Atom a) const { return oldSize(a) + difference(a).value_or(0); }
  std::int64_t newSize(const AtomList& list) const;
  std::optional<std::int64_t> difference(Atom a) const { return root(a).difference; }
  /// Nothing while an atom is open, unless `settled`: then open atoms count as unchanged.
  std::optional<std::int64_t> difference(const AtomList& list, bool settled) const;
  bool isPinned(Atom a) const { return root(a).pinned; }
  bool isPinned(const AtomList& list) const;
  bool changes(Atom a) const { return difference(a).value_or(0) != 0; }
  Length lengthOf(const AtomList& list) const;
  const std::string& reasonOf(Atom a) const { return root(a).reason; }
  const std::string& reasonOf(const AtomList& list) const;

  const std::optional<SizeConflict>& conflict() const { return conflict_; }
  void refuse(SizeConflict conflict) { if (!conflict_) conflict_ = std::move(conflict); }
  /// One atom of each class that no equation gives as a whole: all other sizes follow from theirs. Pinned ones and those that only
  /// literals speak of are left out.
  std::vector<Atom> leaves() const;
  bool same(Atom a, Atom b) const { return find(a) == find(b); }  ///< of one class
  /// Literal atoms that nothing explained: open to the end.
  std::vector<std::pair<Atom, ir::NodeId>> openLiterals() const;

 private:
  struct AtomInfo {
    std::int64_t size = 1;
    Atom parent = ir::kNone;
    ir::NodeId at = ir::kNone;
    bool literal = false;
    // Of the class, at its root:
    bool pinned = false;
    std::optional<std::int64_t> difference;
    Length length = Length::kNone;
    std::string reason;
  };
  static std::size_t index(Atom a) { return static_cast<std::size_t>(a); }
  Atom find(Atom a) const;
  AtomInfo& root(Atom a) { return atoms_[index(find(a))]; }
  const AtomInfo& root(Atom a) const { return atoms_[index(find(a))]; }
  bool applyEquation(const SizeEquation& e, bool decide);
  /// 12 = x + x: what x changes by, where only its class is open, once in each of its terms.
  std::optional<std::int64_t> evenPart(const SizeEquation& e, Atom open) const;
  std::vector<AtomList> sides(const SizeEquation& e) const;
  void setDifference(Atom a, std::int64_t difference, Length length, ir::NodeId at);

  mutable std::vector<AtomInfo> atoms_;
  std::vector<SizeEquation> equations_;
  std::map<std::pair<Atom, std::int64_t>, std::pair<Atom, Atom>> splits_;
  std::optional<SizeConflict> conflict_;
};

}  // namespace spscope::passes
