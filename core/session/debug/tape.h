// SPDX-License-Identifier: Apache-2.0
// A step of virtual ranks that can be run back: every move is remembered by where the ranks stood before it. To go back is to run
// again, from the nearest snapshot before: the executor is deterministic, random ops draw by their place, so the values are the same
// to the last bit.
//
// Snapshots cost memory that a run without looking back should not pay: they are taken while something runs again, where the phase
// or the layer changes, and the closest together are dropped where they no longer fit in the budget.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/session/model.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session::debug {

using Places = std::vector<std::size_t>;  ///< of each rank, in its program: of the node that it runs next

class Tape {
 public:
  struct Setup {
    std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< of each rank
    exec::TensorBag state, inputs;
    exec::StepOptions step;
    std::int64_t budget_bytes = 0;  ///< of snapshots; 0: a GiB
  };
  /// The step has begun, nothing has run. Errors: those of prepareRanks and VirtualRanks::begin.
  static Result<Tape> create(Setup setup);

  const exec::VirtualRanks& ranks() const { return ranks_; }
  int size() const { return ranks_.ranks(); }
  const Places& places() const { return places_; }
  /// The node that the rank runs next; nullptr at the end.
  const ir::Node* next(int rank) const;
  bool done() const { return ranks_.done(); }
  std::size_t moves() const { return trail_.size(); }
  /// Where the ranks stood before move `index`.
  const Places& before(std::size_t index) const { return trail_[index]; }

  /// One node of each rank that does not wait, or the collective that all wait for. Where it fails the ranks stand where they
  /// stood before it. Errors: those of VirtualRanks::stepNode.
  Status move();
  /// One node of one rank. Errors: also rank-waits.
  Status move(int rank);
  /// To where the ranks stood before move `index`; what came later is forgotten.
  Status backTo(std::size_t index);

  /// A value that a rank had right after it was computed, though it may be gone by now: the step runs again, on other virtual
  /// ranks, as far as needed. One entry per rank of `values` (kNone: not asked for). Errors: value-not-live (nobody reads it: it
  /// is freed at once).
  Result<std::vector<exec::TensorBag>> again(const std::vector<ir::ValueId>& values);

  struct Figures {
    std::size_t snapshots = 0;
    std::int64_t snapshot_bytes = 0;
    std::int64_t run_again = 0;  ///< moves
  };
  Figures figures() const;

 private:
  Tape(Setup setup, exec::VirtualRanks ranks) : setup_(std::move(setup)), ranks_(std::move(ranks)) {}
  struct Kept {
    Places places;
    std::shared_ptr<const exec::VirtualSnapshot> snapshot;
  };
  /// Sets `ranks` to a moment at or before `target`, and says which.
  Result<Places> nearestBefore(exec::VirtualRanks& ranks, const Places& target);
  Status runTo(exec::VirtualRanks& ranks, Places from, const Places& target);
  void keep(const exec::VirtualRanks& ranks, const Places& places);
  void readPlaces();
  Status recover(Status failed);

  Setup setup_;
  exec::VirtualRanks ranks_;
  std::unique_ptr<exec::VirtualRanks> other_;  ///< for again()
  Places places_;
  std::vector<Places> trail_;
  std::vector<Kept> kept_;  ///< by rising sum of places
  std::int64_t run_again_ = 0;
};

}  // namespace spscope::session::debug
