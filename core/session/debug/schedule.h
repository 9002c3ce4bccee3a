// SPDX-License-Identifier: Apache-2.0
// The order in which ranks move together, known from their programs alone: as exec::VirtualRanks moves them. Whatever places it
// comes to, every collective before them has been passed by all ranks, and none behind them by any: ranks that are processes may run
// there each on its own, and none is left inside a collective while others stand.
#pragma once

#include <memory>
#include <vector>

#include "core/session/debug/tape.h"

namespace spscope::session::debug {

class Schedule {
 public:
  /// Errors: those of Program::prepare.
  static Result<Schedule> create(const std::vector<std::shared_ptr<const ir::Graph>>& programs);

  /// The node at the place is a collective, which all ranks run together.
  bool meets(int rank, std::size_t place) const;
  /// The next node of each rank that does not wait, or the collective that all wait for. Error: rank-programs-differ.
  Status move(Places& places) const;
  /// The next node of one rank, which has one. Errors: also rank-waits.
  Status move(Places& places, int rank) const;

 private:
  Status meet(Places& places) const;
  std::vector<std::shared_ptr<const ir::Graph>> programs_;
  std::vector<std::shared_ptr<const std::vector<bool>>> collective_;  ///< of each rank, by place
};

}  // namespace spscope::session::debug
