// SPDX-License-Identifier: Apache-2.0
// What the executor needs of a process group, without libtorch: a tensor is a typed, contiguous block of memory.
//
// All calls are blocking and have a deadline; every rank of the group must make the same calls in the same order.
// Errors: collective-timeout, collective-mismatch, peer-lost. After an error the group is unusable.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/dtype.h"

namespace spscope::dist {

/// A contiguous buffer of `count` elements; not owned.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  ir::DType dtype = ir::DType::kUnknown;
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
  virtual Status barrier() = 0;
  /// Small texts for agreement and reports: every rank's text, in rank order.
  virtual Result<std::vector<std::string>> allGatherText(const std::string& text) = 0;

  /// Number of collectives started so far; the same on every rank of a healthy group.
  virtual std::int64_t sequence() const { return 0; }
};

}  // namespace spscope::dist
