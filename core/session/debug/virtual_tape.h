// SPDX-License-Identifier: Apache-2.0
// A step of virtual ranks that can be run back: from the nearest snapshot before.
//
// Snapshots cost memory that a run without looking back should not pay: they are taken while something runs again, where the phase
// or the layer changes, and the closest together are dropped where they no longer fit in the budget.
#pragma once

#include "core/session/debug/tape.h"
#include "core/session/model.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session::debug {

class VirtualTape final : public Tape {
 public:
  struct Setup {
    std::vector<std::shared_ptr<const ir::Graph>> programs;  ///< of each rank
    exec::TensorBag state, inputs;
    exec::StepOptions step;
    std::int64_t budget_bytes = 0;  ///< of snapshots; 0: a GiB
  };
  /// The step has begun, nothing has run. Errors: those of prepareRanks and VirtualRanks::begin.
  static Result<std::unique_ptr<VirtualTape>> create(Setup setup);

  bool meets(int rank) const override { return ranks_.meets(rank); }
  Status move() override;
  Status move(int rank) override;
  Status backTo(std::size_t index) override;
  Result<exec::TensorBag> value(int rank, ir::ValueId value) override { return ranks_.value(rank, value); }
  /// On other virtual ranks: these stay where they are.
  Result<std::vector<exec::TensorBag>> again(const std::vector<ir::ValueId>& values) override;
  Figures figures() const override;

 private:
  VirtualTape(Setup setup, exec::VirtualRanks ranks) : Tape(setup.programs), setup_(std::move(setup)), ranks_(std::move(ranks)) {}
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
  std::vector<Kept> kept_;  ///< by rising sum of places
  std::int64_t run_again_ = 0;
};

}  // namespace spscope::session::debug
