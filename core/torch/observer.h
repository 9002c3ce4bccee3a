// SPDX-License-Identifier: Apache-2.0
// The only way to look at a run: the profiler, the debugger and the window attach here. No libtorch in this header.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ir/graph.h"

namespace spscope::exec {

struct CollectiveEvent {
  int rank = 0;
  const ir::Node* node = nullptr;
  std::string_view kind;           ///< "all_to_all" ...; static
  std::string_view group = "sp";   ///< which ranks (ir::groupName); lives as long as the program
  std::int64_t bytes = 0;          ///< that this rank sends
  std::int64_t sequence = 0;       ///< of the group, over all steps; the same on every rank
};

struct CollectiveSpan {
  std::int64_t wait_begin_ns = 0, wait_end_ns = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// Called by the executor on the thread that runs the rank. All times are steady-clock nanoseconds.
/// Default implementations do nothing; without an observer the executor takes no time stamps.
class ExecutionObserver {
 public:
  virtual ~ExecutionObserver() = default;
  virtual void stepBegin(int /*rank*/, std::int64_t /*step*/, std::int64_t /*ns*/) {}
  virtual void stepEnd(int /*rank*/, std::int64_t /*step*/, std::int64_t /*ns*/) {}
  /// Before a node runs. Returning false stops the run at this node (cancelled).
  virtual bool nodeBegin(int /*rank*/, const ir::Node& /*node*/, std::int64_t /*ns*/) { return true; }
  virtual void nodeEnd(int /*rank*/, const ir::Node& /*node*/, std::int64_t /*ns*/) {}
  /// A collective begins. A blocking one is told of as one that is started and waited for at once.
  virtual void onCollectiveStart(const CollectiveEvent& /*collective*/, std::int64_t /*ns*/) {}
  /// The rank has waited for it from `times.wait_begin_ns` to `times.wait_end_ns`; it was under way from `times.begin_ns` (it
  /// begins when the one before has ended) to `times.end_ns`. `collective.node` is the node that waited.
  virtual void onCollectiveWait(const CollectiveEvent& /*collective*/, const CollectiveSpan& /*times*/) {}
  /// An allocation (bytes > 0) or free (bytes < 0) of memory that `node` made (null: made outside any node); `live` after it.
  virtual void allocation(int /*rank*/, const ir::Node* /*node*/, std::int64_t /*bytes*/, std::int64_t /*live*/,
                          std::int64_t /*ns*/) {}
};

}  // namespace spscope::exec
