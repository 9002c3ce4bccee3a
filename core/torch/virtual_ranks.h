// SPDX-License-Identifier: Apache-2.0
// All ranks in one process, in lockstep: node i runs on every rank before node i+1 runs on any, and a collective is a
// copy between the ranks' tensors. For proofs, and for stepping and looking. No libtorch in this header.
//
// Packing and unpacking are the same code that real ranks use; only the exchange differs. Sums are made in rank order on
// every rank, so that all ranks get the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/torch/executor.h"
#include "core/torch/program.h"

namespace spscope::exec {

class VirtualRanks {
 public:
  /// One program per rank, programs[r] prepared for rank r of programs.size(). Errors: rank-programs-differ where two
  /// programs do not have the same ops in the same order (with the first node that differs).
  static Result<VirtualRanks> create(std::vector<std::shared_ptr<const Program>> programs);
  ~VirtualRanks();
  VirtualRanks(VirtualRanks&&) noexcept;
  VirtualRanks& operator=(VirtualRanks&&) noexcept;

  int ranks() const;
  const Program& program(int rank) const;

  /// The same bag for all ranks (parameters are replicated on the sequence axis; they stay one copy), or one for each.
  Status bind(const TensorBag& state);
  Status bind(const std::vector<TensorBag>& states);

  /// begin(), stepNode() until done(), finish(). Errors as those of Executor::step.
  Result<std::vector<StepResult>> step(const TensorBag& inputs, const StepOptions& options = {});

  // --- one node at a time ---------------------------------------------------------------------------------------
  /// Starts a step; one that is under way is dropped. Inputs are the same on every rank (ids, labels and the like are
  /// replicated and sliced by the program).
  Status begin(const TensorBag& inputs, const StepOptions& options = {});
  bool done() const;
  /// Index of the node that stepNode() runs next; nodeCount() when done.
  std::size_t position() const;
  /// Runs the next node on every rank.
  Status stepNode();
  /// A value as it is now on a rank, in a bag of one tensor named after the value; "value-not-live" before it is computed
  /// and after its last use (see ProgramOptions::keep_values).
  Result<TensorBag> value(int rank, ir::ValueId value) const;
  /// Results of all ranks; the step is over.
  Result<std::vector<StepResult>> finish();

 private:
  VirtualRanks();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::exec
