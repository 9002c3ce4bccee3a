// SPDX-License-Identifier: Apache-2.0
// What each op says about sizes: it gives its outputs' dimensions as atoms of a SizeSystem and states what must agree.
// An op without a rule has results of unknown make: they are pinned, and its operands may not change.
#pragma once

#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/diagnostics.h"
#include "core/ir/graph.h"
#include "passes/sequence/size_system.h"

namespace spscope::passes {

/// aten.slice: each bound is counted from the start or from the end of its dim. Where the literal leaves that open
/// ([:63] of 64), the uses of the result decide; else bounds near the end (at most 4 before it) follow the end, those
/// in the first quarter stay, and what lies between is refused.
struct SizeCut {
  enum class Bound : std::uint8_t { kStart, kEnd, kOpen };
  AtomList whole;
  Atom part = ir::kNone;   ///< kNone: the result has size 1
  std::int64_t start = 0, end = 0, n = 0;  ///< in the file, both within [0, n]
  Bound start_at = Bound::kStart, end_at = Bound::kOpen;
  bool decided = false;
  std::optional<std::int64_t> places;  ///< of a width cut in equal parts: which of them
};

/// aten.select with a literal index; the same convention.
struct SizePick {
  AtomList whole;
  std::int64_t index = 0;
};

/// sign * size(atom) + add, or add alone.
struct LinearSize {
  Atom atom = ir::kNone;
  int sign = 1;
  std::int64_t add = 0;
};

/// The smallest and largest entry of an integer value, where they are known.
struct ValueBound {
  LinearSize low, high;
  bool assumed = false;  ///< positions from the user, who may know better
  std::vector<std::pair<ir::NodeId, std::int64_t>> shifts;  ///< numbers added on the way
};

/// A table of fixed length that is read at known positions.
struct TableRead {
  ir::NodeId at = ir::kNone;
  ir::ValueId table = ir::kNone;
  AtomList rows;
  ValueBound bound;
};

/// Which sizes may change: those of what runs through the program, or those of what the file stores as well.
enum class Resizable : std::uint8_t { kLengths, kAll };

class SizeRules {
 public:
  SizeRules(const ir::Graph& graph, SizeSystem& system, Resizable resizable = Resizable::kLengths);

  /// States the rules of all nodes. The inputs' atoms exist before (dims() of an input), so that lengths can be given.
  void run();
  /// Slices and position tables, whose meaning depends on what is known by now; as SizeSystem::propagate.
  bool propagate(bool decide);
  /// After the system is finished: bounds of slices, selections and table reads. Refusals go to the system. `length` is
  /// the sequence length in the file, 0 where it does not change: a number added to positions that equals it is refused.
  void check(std::int64_t length, DiagnosticSink& diagnostics);

  std::vector<AtomList>& dims(ir::ValueId v) { return dims_[static_cast<std::size_t>(v)]; }
  const std::vector<AtomList>& dims(ir::ValueId v) const { return dims_[static_cast<std::size_t>(v)]; }
  ir::Dims newShape(ir::ValueId v) const;
  const std::unordered_map<ir::NodeId, SizeCut>& cuts() const { return cuts_; }
  const std::map<ir::NodeId, SizePick>& picks() const { return picks_; }
  /// The input holds positions, 0 to its last dim's size - 1.
  void assumePositions(ir::ValueId input);
  /// Start and end of a slice, or the index (twice) of a selection, under the new sizes. After check().
  std::pair<std::int64_t, std::int64_t> newBounds(const SizeCut& cut) const;
  std::int64_t newIndex(const SizePick& pick) const;

 private:
  using Rule = void (SizeRules::*)(const ir::Node&);
  static const std::unordered_map<std::string_view, Rule>& table();

  // size_rules.cpp: elementwise, products, reductions
  void elementwise(const ir::Node& n);
  void sameAsFirst(const ir::Node& n);
  void factory(const ir::Node& n);
  void like(const ir::Node& n);
  void outer(const ir::Node& n);
  void product(const ir::Node& n);
  void addmm(const ir::Node& n);
  void linear(const ir::Node& n);
  void attention(const ir::Node& n);
  void crossEntropy(const ir::Node& n);
  void layerNorm(const ir::Node& n);
  void convolution(const ir::Node& n);
  void groupedProduct(const ir::Node& n);
  void reduce(const ir::Node& n);
  void alongDim(const ir::Node& n);
  void oneHot(const ir::Node& n);
  void histogram(const ir::Node& n);
  // size_rules_index.cpp: look-ups
  void embedding(const ir::Node& n);
  void indexBy(const ir::Node& n);
  void gather(const ir::Node& n);
  void scatter(const ir::Node& n);
  // size_rules_view.cpp: views and parts
  void view(const ir::Node& n);
  void permute(const ir::Node& n);
  void expand(const ir::Node& n);
  void repeat(const ir::Node& n);
  void repeatInterleave(const ir::Node& n);
  void slice(const ir::Node& n);
  void select(const ir::Node& n);
  void split(const ir::Node& n);
  void splitAnywhere(const ir::Node& n, ir::ValueId x, std::size_t d);
  void cat(const ir::Node& n);
  void stack(const ir::Node& n);
  void pad(const ir::Node& n);
  void difference(const ir::Node& n);
  void unknown(const ir::Node& n);

  void bounds(const ir::Node& n);  ///< smallest and largest values of integer results
  std::vector<AtomList> reshaped(const ir::Node& n, const std::vector<AtomList>& from, const ir::Dims& shape,
                                 const std::vector<bool>& inferred);
  void broadcast(const ir::Node& n, const std::vector<ir::ValueId>& operands, const ir::Dims& shape,
                 std::vector<AtomList>* out);
  std::int64_t sizeOf(const LinearSize& x, bool now) const {
    return x.add + (x.atom == ir::kNone ? 0 : x.sign * (now ? system_.newSize(x.atom) : system_.oldSize(x.atom)));
  }
  void checkReads(std::int64_t length, DiagnosticSink& diagnostics);
  bool applyCut(ir::NodeId at, SizeCut& cut, bool decide);
  void readTable(const ir::Node& n, ir::ValueId table, const AtomList& rows, ir::ValueId index);
  AtomList one(Atom a) const { return a == ir::kNone ? AtomList{} : AtomList{a}; }
  /// A new atom for a literal of the node; none for size 1.
  AtomList literal(std::int64_t size, ir::NodeId at);
  AtomList fixed(std::int64_t size, const std::string& reason);
  void set(const ir::Node& n, std::size_t output, std::vector<AtomList> dims);
  const ir::Dims& shape(ir::ValueId v) const { return graph_.value(v).shape; }
  int rank(ir::ValueId v) const { return static_cast<int>(shape(v).size()); }
  std::vector<ir::ValueId> operands(const ir::Node& n) const;

  /// With Resizable::kAll: an operand whose size the rule does not connect with anything keeps it.
  void keepOperands(const ir::Node& n, std::size_t from, const std::string& why);

  const ir::Graph& graph_;
  SizeSystem& system_;
  const bool all_;  ///< Resizable::kAll
  std::vector<std::vector<AtomList>> dims_;
  std::vector<std::optional<ValueBound>> bounds_;
  std::unordered_map<ir::NodeId, SizeCut> cuts_;
  std::vector<ir::NodeId> cut_order_;
  std::map<ir::NodeId, SizePick> picks_;
  std::vector<TableRead> reads_;
};

}  // namespace spscope::passes
