// SPDX-License-Identifier: Apache-2.0
// The values of one rank while its program runs; shared by the executor (one rank, straight through) and by virtual
// ranks (all ranks, node by node). Only for core/torch (it includes ATen).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/torch/executor.h"
#include "core/torch/program_impl.h"
#include "core/torch/rng_ops.h"

namespace spscope::exec {

class RankState {
 public:
  explicit RankState(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  Status bind(const TensorBag& state);
  /// Resets the meter and puts state and inputs in their slots.
  Status begin(const TensorBag& inputs);
  /// Runs the aten op at `position`; call inside InferenceMode and a MeterScope.
  Status run(const Program::Impl::Step& step) { return callInPlace(*step.op, values); }
  void freeAfter(const Program::Impl::Step& step) {
    const Program::Impl& impl = program_->impl();
    for (std::int32_t i = step.free_begin; i < step.free_end; ++i)
      values[static_cast<std::size_t>(impl.frees[static_cast<std::size_t>(i)])].reset();
  }
  /// Takes the outputs, applies buffer updates and drops all values.
  Result<StepResult> finish();
  void dropValues();
  /// As it is now, in a bag of one tensor named after the value. Error: value-not-live.
  Result<TensorBag> value(ir::ValueId value) const;

  const Program& program() const { return *program_; }
  MemoryMeter meter;
  std::vector<at::Tensor> values;  ///< by ValueId

 private:
  std::shared_ptr<const Program> program_;
  std::vector<at::Tensor> bound_;  ///< by input index; undefined for user inputs
  bool has_state_ = false;
};

/// Adds the rank to an error of a run, and node and source where they are missing.
Error withRank(Error error, int rank, const Program::Impl::Step* step);
/// What a wait gives for part `i` of an exchange whose buffer is complete: the same memory in the result's shape.
at::Tensor received(const Program& program, const Program::Impl::Exchange& exchange, std::size_t i, const at::Tensor& buffer);
/// For which rank and replica of its mesh a program draws by position. On a mesh without a data axis the options say the replica.
RandomScope::State drawsOf(const Program& program, const StepOptions& options);
/// Seeds libtorch's CPU generator from the step's seed, for programs with random nodes.
void seedStep(const Program& program, const StepOptions& options);

}  // namespace spscope::exec
