// SPDX-License-Identifier: Apache-2.0
// The sp.* ops as libtorch sees them: schemas, shapes on one rank, and gradients. Only the capture calls them; on real
// tensors the executor runs them through dist::Collectives, not through the dispatcher.
#pragma once

#include "core/ir/placement.h"

namespace spscope::exec {

/// Registers the library "sp" with the dispatcher, once per process. Any thread.
void registerSpOps();

/// Whose shapes the sp.* ops give on this thread while the object lives. Nests.
class RankScope {
 public:
  /// `mesh` outlives the scope.
  RankScope(int rank, const ir::Mesh& mesh);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  int previous_rank_;
  const ir::Mesh* previous_mesh_;
};

}  // namespace spscope::exec
