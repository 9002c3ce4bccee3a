// SPDX-License-Identifier: Apache-2.0
// All ranks in one process, in lockstep: each rank runs a node, then each its next one; a rank that comes to a collective
// waits for the others, and the collective is a copy between their tensors. Ranks of the same class of local shapes are at
// the same node all the time. For proofs, and for stepping and looking. No libtorch in this header.
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

/// A step of all ranks as it stood at one moment: what is needed to go on from there again, any number of times.
struct VirtualSnapshot;
/// Bytes that it keeps alive besides weights and inputs, each storage once.
std::int64_t bytesOf(const VirtualSnapshot& snapshot);

class VirtualRanks {
 public:
  /// One program per rank, programs[r] prepared for rank r of programs.size(). Errors: rank-programs-differ where two
  /// programs do not issue the same collectives in the same order (with the first that differs).
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
  /// Index in the rank's program of the node that it runs next; nodeCount() when it is through.
  std::size_t position(int rank) const;
  /// Runs the next node of every rank that does not wait for others, or the collective that all wait for.
  Status stepNode();
  /// Whether the next node of the rank is a collective, which all ranks run together.
  bool meets(int rank) const;
  /// Runs the next node of one rank; a collective where every rank has come to it, else error "rank-waits" (the step goes on).
  Status stepNode(int rank);
  /// The step under way. It shares the values' memory: what the program would write into is copied. nullptr: none is under way.
  std::shared_ptr<const VirtualSnapshot> snapshot() const;
  /// Goes on from a snapshot of ranks with the same programs and state, made with the same inputs and options.
  Status restore(const VirtualSnapshot& snapshot, const TensorBag& inputs, const StepOptions& options = {});
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
