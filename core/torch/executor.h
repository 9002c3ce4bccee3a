// SPDX-License-Identifier: Apache-2.0
// Runs one rank's program: parameters and inputs in, loss and gradients out. No libtorch in this header.
//
// Without an observer the executor takes no time stamps and looks up no name: a step costs the kernels plus a few
// hundred nanoseconds a node. Values are freed at their last use. Deterministic for a given thread count.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/cancel.h"
#include "core/base/result.h"
#include "core/dist/collectives.h"
#include "core/torch/memory.h"
#include "core/torch/observer.h"
#include "core/torch/program.h"
#include "core/torch/tensor_bag.h"

namespace spscope::exec {

struct StepOptions {
  CancelToken cancel;                      ///< looked at before every node
  ExecutionObserver* observer = nullptr;   ///< not owned
  std::int64_t step = 0;                   ///< told to the observer; part of the seed of random ops
  std::uint64_t seed = 0;                  ///< of random ops (dropout); the same on every rank
  int replica = 0, replicas = 1;           ///< on the data axis: random ops draw for the rows that it holds
};

struct StepResult {
  bool has_loss = false;
  double loss = 0.0;
  TensorBag gradients;      ///< under the parameters' names, in the order of the graph's outputs
  TensorBag outputs;        ///< kUser outputs, under the values' names
  std::int64_t peak_bytes = 0;             ///< requested in this step beyond what was there (see memory.h)
  ir::NodeId peak_node = ir::kNone;
};

/// Not thread-safe: one thread runs a rank.
class Executor {
 public:
  /// `collectives` (not owned) may be null for programs without communication, and must have the program's rank and size
  /// otherwise.
  Executor(std::shared_ptr<const Program> program, dist::Collectives* collectives = nullptr);
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// Parameters, buffers and constants under their names; shared with the bag, so an optimizer that changes them in place
  /// changes what the next step sees. Errors: weight-missing, weight-shape, weight-dtype.
  Status bind(const TensorBag& state);

  /// One step. Buffers that the graph updates are changed in place. Errors (outcome kRunFailed): op-failed, sp-op,
  /// cancelled, those of Collectives; with the node, its source line and a note that names the rank. Before anything
  /// runs: input-missing, input-shape, input-dtype, and program-invalid where bind() or the collectives are missing.
  Result<StepResult> step(const TensorBag& inputs, const StepOptions& options = {});

  // --- a step that stops between nodes: for a debugger of ranks that are processes -----------------------------------------
  /// Begins a step at its first node; one that is under way is dropped, when the collectives that it has started have ended.
  /// Errors: those of step() before anything runs, those of Collectives.
  Status begin(const TensorBag& inputs, const StepOptions& options = {});
  /// Runs nodes while the position is below `limit`, which other threads may change: it is read before every node, after the node
  /// was stored in `at`, so that whoever lowers it and then reads `at` knows the last node that may still run. Errors: those of
  /// step(); the step stands before the node that failed then, but what that node got done is lost: begin() again.
  Status runTo(const std::atomic<std::size_t>& limit, std::atomic<std::size_t>& at);
  /// Of the node that runs next; Program::nodeCount() behind the last one. The step's results stay values: nothing is updated.
  std::size_t position() const;
  /// A value as it is now, in a bag of one tensor named after it; "value-not-live" before it is computed and after its last use.
  Result<TensorBag> value(ir::ValueId value) const;

  const Program& program() const;
  /// The counter of this rank, for what belongs to the step but is not in the program (the optimizer).
  MemoryMeter& meter();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spscope::exec
