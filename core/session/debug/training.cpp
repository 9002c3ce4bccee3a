// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/training.h"

#include <cmath>
#include <limits>

#include "core/session/virtual_programs.h"
#include "core/torch/compare.h"

namespace spscope::session::debug {

Result<Training> Training::create(const Sides& sides, const Origin& origin, double lr) {
  SP_TRY(haveOrigin(&origin));
  if (sides.programs.front()->form != ir::Form::kJoint)
    return makeError("debug-no-gradients", "the program has no backward: there is nothing to train", Outcome::kNo);
  const int ranks = static_cast<int>(sides.programs.size());
  SP_ASSIGN(TrainState state, TrainState::of(origin.model->graph, sides.state.clone(), origin.settings, lr, 0.0, 0, ranks));
  SP_ASSIGN(exec::VirtualRanks virtual_ranks, prepareRanks(sides.programs, state.weights()));
  return Training(sides, origin, std::move(state), std::move(virtual_ranks));
}

Result<exec::TensorBag> Training::batch(std::int64_t index, const Request& request) const {
  if (index == 0) return sides_.inputs;
  DiagnosticSink quiet;  // the first batch said it
  Request inner = request;
  inner.diagnostics = &quiet;
  return loadInputs(*origin_.model, origin_.data, index, inner);
}

Result<Training::Figures> Training::step(const Request& request, const OnNode& on_node) {
  SP_ASSIGN(const exec::TensorBag inputs, batch(made_, request));
  exec::StepOptions options = sides_.step;
  options.observer = nullptr;
  options.cancel = request.cancel;
  options.step += made_;
  SP_TRY(ranks_.begin(inputs, options));
  std::vector<std::size_t> before(static_cast<std::size_t>(ranks_.ranks()));
  while (!ranks_.done()) {
    for (int r = 0; r < ranks_.ranks(); ++r) before[static_cast<std::size_t>(r)] = ranks_.position(r);
    SP_TRY(ranks_.stepNode());
    for (int r = 0; on_node && r < ranks_.ranks(); ++r)
      if (const std::size_t at = before[static_cast<std::size_t>(r)]; ranks_.position(r) != at) SP_TRY(on_node(ranks_, r, ranks_.program(r).node(at)));
  }
  SP_ASSIGN(std::vector<exec::StepResult> results, ranks_.finish());
  Figures out;
  out.loss = results.front().loss;
  std::vector<exec::TensorBag> gradients;
  for (exec::StepResult& r : results) gradients.push_back(std::move(r.gradients));
  double squares = 0.0;
  for (std::size_t r = 0; r < (state_.sharded() ? gradients.size() : 1); ++r)  // with ZeRO each rank has its blocks
    for (const std::string& name : gradients[r].names()) {
      SP_ASSIGN(const exec::TensorStatistics s, exec::statistics(gradients[r], name));
      squares += s.not_finite > 0 ? std::numeric_limits<double>::infinity() : s.norm * s.norm;
    }
  out.gradient_norm = std::sqrt(squares);
  SP_TRY(state_.apply(gradients, nullptr));
  ++made_;
  return out;
}

}  // namespace spscope::session::debug
