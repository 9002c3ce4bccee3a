// SPDX-License-Identifier: Apache-2.0
// Where the parts of a value live: factors of its dimensions, and its placement on an axis of the mesh.
//
// A dimension is a list of factors, outermost first: [B*S, D] is {{B,S},{D}}. A dimension of size 1 has no factor.
// What is sharded is one factor, in contiguous blocks of possibly different (possibly zero) size per rank, so that
// view, flatten, transpose and expand keep the answer exact. The model is that of facts gathered on 64 exported
// graphs; gradients are dual (R<->R, S<->S, P<->R) as in JAX's shard_map with varying axes.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace spscope::ir {

using Dims = std::vector<std::int64_t>;

/// Number of elements; 1 for a scalar.
std::int64_t numel(const Dims& dims);

enum class Tag : std::uint8_t {
  kNone,
  kSequence,  ///< s: follows the sequence of a tagged input
  kBatch,     ///< b: follows the batch of a tagged input
  kExpanded,  ///< x: values are equal along it (made by expand)
};

struct Factor {
  std::int64_t size = 1;
  Tag tag = Tag::kNone;
  friend bool operator==(const Factor&, const Factor&) = default;
};

using FactorList = boost::container::small_vector<Factor, 2>;  ///< of one dimension
using Factors = boost::container::small_vector<FactorList, 4>; ///< of all dimensions

/// One plain factor per dimension (none where the size is 1).
Factors plainFactors(const Dims& shape);
Dims shapeOf(const Factors& factors);
std::int64_t sizeOf(const FactorList& factors);
bool hasTag(const FactorList& factors, Tag tag);
bool hasTag(const Factors& factors, Tag tag);

enum class PlacementKind : std::uint8_t {
  kReplicated,  ///< R: equal on every rank
  kSharded,     ///< S: factor `factor` of dimension `dim` is split in blocks of `sizes`
  kPartial,     ///< P: the true value is the sum over the ranks
};

/// Placement on the sequence axis ("sp") of the mesh.
struct Placement {
  PlacementKind kind = PlacementKind::kReplicated;
  int dim = 0;      ///< meaningful for kSharded only
  int factor = 0;   ///< index into the dimension's factor list
  Dims sizes;       ///< one block size per rank, in units of the factor; sums to the factor's size

  static Placement replicated() { return {}; }
  static Placement partial() { return {PlacementKind::kPartial, 0, 0, {}}; }
  static Placement sharded(int dim, int factor, Dims sizes) {
    return {PlacementKind::kSharded, dim, factor, std::move(sizes)};
  }
  bool isReplicated() const { return kind == PlacementKind::kReplicated; }
  bool isSharded() const { return kind == PlacementKind::kSharded; }
  bool isPartial() const { return kind == PlacementKind::kPartial; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Canonical form of a shard: dimension `dim` seen as [outer, sum(blocks)], each rank holding `blocks[rank]` elements of
/// the second. [S/8 split, 8] and [S split] in blocks of 8 are the same layout; comparing this form tells.
struct ShardSpec {
  int dim = 0;
  std::int64_t outer = 1;
  Dims blocks;
  friend bool operator==(const ShardSpec&, const ShardSpec&) = default;
};
ShardSpec canonical(const Factors& factors, const Placement& placement);

/// Blocks of `n` over `ranks`, the first ones one larger where it does not divide.
Dims balancedBlocks(std::int64_t n, int ranks);
/// Exclusive prefix sums, one more entry than `sizes`.
Dims offsetsOf(const Dims& sizes);

/// Shape on `rank`; the global shape where the value is not sharded.
Dims localShape(const Factors& factors, const Placement& placement, int rank);

/// The named axes of the device mesh, e.g. {dp 1, sp 4}.
struct Mesh {
  struct Axis {
    std::string name;
    int size = 1;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;
  /// Size of the named axis; 1 where there is none.
  int sizeOf(std::string_view name) const;
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace spscope::ir
