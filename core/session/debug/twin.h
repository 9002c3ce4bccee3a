// SPDX-License-Identifier: Apache-2.0
// The twin of a debugged step: what its values are held against (reference.h), run beside it. It runs only as far as it is asked to,
// and keeps what it was asked for and what it made last, within a bound of memory; what is gone is made again by another run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/session/debug/reference.h"
#include "core/session/value_scale.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session::debug {

class Twin {
 public:
  /// Errors: those of prepareRanks.
  static Result<std::unique_ptr<Twin>> create(Reference reference);

  const Reference& reference() const { return reference_; }
  const ir::Graph& graph(int rank = 0) const { return *reference_.programs[static_cast<std::size_t>(rank)]; }
  /// A value of the step, wherever in it it exists. Errors: value-not-live (nobody reads it: it is freed at once), those of the executor.
  Result<exec::TensorBag> value(ir::ValueId value, int rank = 0);
  /// What a difference of the value is measured by (see ValueScales), where the twin is one rank; else 0: its own norm. Call value() first.
  double scale(ir::ValueId value) const { return reference_.by_rank ? 0.0 : scales_.of(value); }

 private:
  using Key = std::pair<int, ir::ValueId>;  ///< rank, value
  Twin(Reference reference, exec::VirtualRanks ranks);
  Status runOn();
  void keep(Key key, exec::TensorBag bag);

  Reference reference_;
  std::int64_t budget_;
  exec::VirtualRanks ranks_;
  ValueScales scales_;
  std::vector<std::vector<std::int32_t>> position_;  ///< by rank and node id
  std::size_t measured_ = 0;            ///< nodes whose results have a scale
  bool begun_ = false;
  std::map<Key, exec::TensorBag> kept_;
  std::deque<Key> age_;                 ///< of kept_, the oldest first
  std::int64_t kept_bytes_ = 0;
};

}  // namespace spscope::session::debug
