// SPDX-License-Identifier: Apache-2.0
// Counts the bytes of CPU tensors that one rank requests: live, peak, and at which node. No libtorch in this header.
//
// What a peak means here is what the prediction means: the largest sum, at any instant between two marks, of the bytes
// requested for tensors since the first mark and not yet freed. So a step's figure holds its activations, temporaries,
// gradients, kernel workspaces and communication buffers; parameters and optimizer states were there before and are
// added by whoever reports (TensorBag::bytes). Bytes are those requested, without the allocator's rounding.
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/observer.h"

namespace spscope::exec {

/// Puts the counting allocator in front of libtorch's CPU allocator. Once per process, before the first tensor whose
/// free should be counted; later calls do nothing. Cheap when no meter is active. Any thread.
void installCountingAllocator();

/// One rank's counter. May be destroyed while blocks it counted are alive. Used from the thread that runs the rank;
/// blocks may be freed by other threads.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// The mark: live and peak become 0, and blocks from before it no longer count, not even when they are freed.
  void reset();
  std::int64_t live() const;
  std::int64_t peak() const;
  /// The node that ran when the peak was reached; kNone outside of any node.
  ir::NodeId peakNode() const;

  /// What runs now, for peakNode and for the observer; null: outside of any node.
  void setNode(const ir::Node* node);
  /// Who is told of each allocation and free made on the rank's own thread; null: nobody.
  void setObserver(ExecutionObserver* observer, int rank);

 private:
  friend class MeterScope;
  friend struct MeterAccess;
  struct State;
  State* state_;
};

/// Allocations of this thread count on `meter` while the scope lives. Scopes nest; the innermost counts.
class MeterScope {
 public:
  explicit MeterScope(MemoryMeter& meter);
  ~MeterScope();
  MeterScope(const MeterScope&) = delete;
  MeterScope& operator=(const MeterScope&) = delete;

 private:
  void* previous_;
};

/// Makes allocations of threads without a scope of their own (libtorch's intra-op workers) count on `meter`; null ends
/// it. For processes that hold a single rank.
void countOtherThreads(MemoryMeter* meter);

}  // namespace spscope::exec
