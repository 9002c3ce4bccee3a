// SPDX-License-Identifier: Apache-2.0
// The debugged step, repeated: all ranks in this process, batch after batch, with the optimizer between them, from the weights that the
// debugged step has. Its own copy of them: the debugged step stays as it is.
#pragma once

#include <functional>
#include <memory>

#include "core/session/debug/reference.h"
#include "core/session/train_state.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session::debug {

class Training {
 public:
  static constexpr double kLearningRate = 1e-3;  ///< that of `run`, where nothing is said
  struct Figures {
    double loss = 0.0;           ///< of rank 0; 0 where the program has none
    double gradient_norm = 0.0;  ///< of all gradients together, before the update
  };
  /// Called behind every node of every rank: has just run on `rank`.
  using OnNode = std::function<Status(const exec::VirtualRanks& ranks, int rank, const ir::Node& node)>;

  /// `sides`: programs, weights and the first batch. Errors: those of prepareRanks and TrainState::of; debug-no-gradients.
  static Result<Training> create(const Sides& sides, const Origin& origin, double lr = kLearningRate);

  std::int64_t stepsMade() const { return made_; }
  const exec::TensorBag& weights() const { return state_.weights(); }
  /// That of step `index`: 0 is the debugged one.
  Result<exec::TensorBag> batch(std::int64_t index, const Request& request) const;
  /// Forward, backward, update. Errors: cancelled, those of the executor and of loadInputs.
  Result<Figures> step(const Request& request, const OnNode& on_node = {});

 private:
  Training(Sides sides, Origin origin, TrainState state, exec::VirtualRanks ranks)
      : sides_(std::move(sides)), origin_(std::move(origin)), state_(std::move(state)), ranks_(std::move(ranks)) {}

  Sides sides_;
  Origin origin_;
  TrainState state_;
  exec::VirtualRanks ranks_;
  std::int64_t made_ = 0;
};

}  // namespace spscope::session::debug
