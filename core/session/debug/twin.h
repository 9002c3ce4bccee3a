// SPDX-License-Identifier: Apache-2.0
// The unsharded twin of a debugged step: the same graph, weights and inputs on one rank. It runs only as far as it is asked to, and
// keeps what it was asked for and what it made last, within a bound of memory; what is gone is made again by another run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/session/first_difference.h"
#include "core/session/value_scale.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session::debug {

class Twin {
 public:
  /// Errors: those of prepareRanks.
  static Result<std::unique_ptr<Twin>> create(const Sides& sides);

  const ir::Graph& graph() const { return *graph_; }
  /// A value of the step, wherever in it it exists. Errors: value-not-live (nobody reads it: it is freed at once), those of the executor.
  Result<exec::TensorBag> value(ir::ValueId value);
  /// What a difference of the value is measured by (see ValueScales). Call value() first.
  double scale(ir::ValueId value) const { return scales_.of(value); }

 private:
  Twin(const Sides& sides, exec::VirtualRanks ranks);
  Status runOn();
  void keep(ir::ValueId value, exec::TensorBag bag);

  std::shared_ptr<const ir::Graph> graph_;
  exec::TensorBag inputs_;
  exec::StepOptions step_;
  std::int64_t budget_;
  exec::VirtualRanks ranks_;
  ValueScales scales_;
  std::vector<std::int32_t> position_;  ///< by node id
  std::size_t measured_ = 0;            ///< nodes whose results have a scale
  bool begun_ = false;
  std::map<ir::ValueId, exec::TensorBag> kept_;
  std::deque<ir::ValueId> age_;         ///< of kept_, the oldest first
  std::int64_t kept_bytes_ = 0;
};

}  // namespace spscope::session::debug
