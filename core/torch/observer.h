// SPDX-License-Identifier: Apache-2.0
// The only way to look at a run: the profiler, the debugger and the window attach here. No libtorch in this header.
#pragma once

#include <cstdint>

#include "core/ir/graph.h"

namespace spscope::exec {

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
  /// A collective: started, and complete; bytes sent by this rank; sequence number within its group.
  virtual void collective(int /*rank*/, const ir::Node& /*node*/, std::int64_t /*begin_ns*/, std::int64_t /*end_ns*/,
                          std::int64_t /*bytes*/, std::int64_t /*sequence*/) {}
  /// An allocation (bytes > 0) or free (bytes < 0) while `node` ran (null: outside any node); `live` after it.
  virtual void allocation(int /*rank*/, const ir::Node* /*node*/, std::int64_t /*bytes*/, std::int64_t /*live*/,
                          std::int64_t /*ns*/) {}
};

}  // namespace spscope::exec
