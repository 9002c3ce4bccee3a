// SPDX-License-Identifier: Apache-2.0
#include "core/session/run_virtual.h"

#include <algorithm>
#include <chrono>

#include "core/session/rank_loop.h"
#include "core/session/train_state.h"
#include "core/torch/tensor_store.h"
#include "core/torch/threads.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session {

Status runVirtual(const Model& model, const RunRequest& what, const Request& request, const OnStep& on_step, RunOutcome& out) {
  exec::setThreads(what.settings.threads);
  exec::installCountingAllocator();
  const int size = what.settings.sp;
  std::vector<std::shared_ptr<const exec::Program>> programs;
  for (int rank = 0; rank < size; ++rank) {
    const int index = out.compiled.compiled.class_of_rank[static_cast<std::size_t>(rank)];
    exec::ProgramOptions options;
    options.rank = rank;
    options.ranks = size;
    SP_ASSIGN(auto program, exec::Program::prepare(out.compiled.compiled.programs[static_cast<std::size_t>(index)], options));
    programs.push_back(std::move(program));
  }
  SP_ASSIGN(exec::VirtualRanks ranks, exec::VirtualRanks::create(std::move(programs)));
  SP_ASSIGN(TrainState state, TrainState::create(model, what, request));
  SP_TRY(ranks.bind(state.weights()));  // one copy for all ranks
  out.peak_bytes.assign(static_cast<std::size_t>(size), 0);
  out.step_peak_bytes = out.peak_bytes;
  out.comm_ns.assign(static_cast<std::size_t>(size), 0);
  out.exposed_comm_ns = out.comm_ns;
  const std::int64_t first = state.stepsMade();
  for (std::int64_t i = 0; i < what.steps; ++i) {
    request.report("step", i + 1, what.steps);
    SP_ASSIGN(const exec::TensorBag inputs, loadInputs(model, what.data, first + i, request));
    exec::StepOptions options;
    options.cancel = request.cancel;
    options.step = first + i;
    options.seed = what.data.seed;
    const auto begin = std::chrono::steady_clock::now();
    auto results = ranks.step(inputs, options);
    if (!results) {
      if (results.error().code != "cancelled") return std::move(results).error();
      out.cancelled = true;
      break;
    }
    // Every rank has the whole gradient, so that one update serves the one copy of the weights.
    if (i == 0 && !what.grads_to.empty())
      for (int r = 0; r < size; ++r)
        SP_TRY(exec::saveBag((*results)[static_cast<std::size_t>(r)].gradients, gradsFile(what.grads_to, r)));
    SP_ASSIGN(const exec::OptimizerReport update, state.apply(results->front().gradients));
    for (std::size_t r = 0; r < results->size(); ++r)
      out.peak_bytes[r] = std::max(out.peak_bytes[r], (*results)[r].peak_bytes + state.residentBytes());
    for (std::size_t r = 0; r < results->size(); ++r)
      out.step_peak_bytes[r] = std::max(out.step_peak_bytes[r], (*results)[r].peak_bytes);
    std::vector<double> losses;
    StepLine line;
    line.step = first + i;
    line.loss = results->front().loss;
    line.ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    line.gradient_norm = update.gradient_norm;
    for (const exec::StepResult& r : *results) losses.push_back(r.loss);
    out.last_loss = std::move(losses);
    out.steps.push_back(line);
    if (on_step) on_step(line);
  }
  if (!what.save_to.empty() && !out.steps.empty()) {
    SP_ASSIGN(out.saved_to, state.save(what.save_to));
  }
  return {};
}

}  // namespace spscope::session
