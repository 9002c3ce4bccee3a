// SPDX-License-Identifier: Apache-2.0
// What the executor needs of a process group, without libtorch: a tensor is a typed, contiguous block of memory.
//
// All calls have a deadline; every rank of the group must make the same calls in the same order. All but start() block.
// Errors: collective-timeout, collective-mismatch, peer-lost. After an error the group is unusable.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/dtype.h"
#include "core/ir/mesh_axis.h"

namespace spscope::dist {

/// A contiguous buffer of `count` elements; not owned.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  ir::DType dtype = ir::DType::kUnknown;
};

enum class CollectiveKind : std::uint8_t { kAllReduce, kAllToAll, kAllGather, kReduceScatter };
/// "all_reduce" ...
std::string_view collectiveName(CollectiveKind kind);

/// One operand of a collective that may carry several; all of one collective have one axis. all_reduce: `recv` alone, summed
/// in place.
struct CollectivePart {
  Buffer send, recv;
  std::vector<std::int64_t> send_counts;  ///< all_to_all, reduce_scatter
  std::vector<std::int64_t> recv_counts;  ///< all_to_all, all_gather
  ir::MeshAxis axis = ir::MeshAxis::kAll; ///< read by groups of a mesh (mesh_collectives.h); others span all their ranks
};

/// When a collective was under way; steady-clock nanoseconds.
struct CollectiveTimes {
  std::int64_t begin_ns = 0, end_ns = 0;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sum over ranks, in place.
  virtual Status allReduceSum(Buffer buffer) = 0;
  /// Rank r sends send_counts[i] consecutive elements to rank i and receives recv_counts[i] from it, in rank order.
  virtual Status allToAll(Buffer send, std::span<const std::int64_t> send_counts, Buffer recv,
                          std::span<const std::int64_t> recv_counts) = 0;
  /// Concatenation of every rank's block in rank order; counts[i] elements from rank i.
  virtual Status allGather(Buffer send, Buffer recv, std::span<const std::int64_t> counts) = 0;
  /// Sum over ranks, of which rank r keeps the r-th block of counts[r] elements.
  virtual Status reduceScatterSum(Buffer send, Buffer recv, std::span<const std::int64_t> counts) = 0;
  /// The same collective for several operands, as one operation of the group. Here: one after the other.
  virtual Status runAll(CollectiveKind kind, std::span<const CollectivePart> parts);
  /// Begins runAll() and returns a ticket for wait(). Nobody may touch the buffers before; `keep`, which owns them, is let
  /// go by wait() (after an error: when nothing can write into them any more). Collectives begin in
  /// the order of the calls. Here: done at once (see async_collectives.h).
  virtual Result<std::int64_t> start(CollectiveKind kind, std::vector<CollectivePart> parts, std::shared_ptr<const void> keep);
  /// Blocks until that operation has ended. Each ticket once.
  virtual Result<CollectiveTimes> wait(std::int64_t ticket);
  virtual Status barrier() = 0;
  /// Small texts for agreement and reports: every rank's text, in rank order.
  virtual Result<std::vector<std::string>> allGatherText(const std::string& text) = 0;

  /// Number of collectives started so far; the same on every rank of a healthy group.
  virtual std::int64_t sequence() const { return 0; }

 private:
  std::vector<CollectiveTimes> done_;  ///< by ticket, of the start() that is done at once
};

}  // namespace spscope::dist
