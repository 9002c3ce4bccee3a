// SPDX-License-Identifier: Apache-2.0
#include "core/session/run_virtual.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/session/accumulation.h"
#include "core/session/nvtx_observer.h"
#include "core/session/rank_loop.h"
#include "core/session/train_state.h"
#include "core/torch/tensor_store.h"
#include "core/torch/threads.h"
#include "core/torch/virtual_ranks.h"

namespace spscope::session {
namespace {

/// All ranks are told of by one executor; each is recorded for itself.
class ByRank final : public exec::ExecutionObserver {
 public:
  std::vector<exec::ExecutionObserver*> of;  ///< by rank; null: not recorded
  exec::ExecutionObserver* of_all = nullptr; ///< what a tool sees of this one process

  void stepBegin(int rank, std::int64_t step, std::int64_t ns) override {
    if (of_all != nullptr) of_all->stepBegin(rank, step, ns);
    if (auto* o = at(rank)) o->stepBegin(rank, step, ns);
  }
  void stepEnd(int rank, std::int64_t step, std::int64_t ns) override {
    if (of_all != nullptr) of_all->stepEnd(rank, step, ns);
    if (auto* o = at(rank)) o->stepEnd(rank, step, ns);
  }
  bool nodeBegin(int rank, const ir::Node& node, std::int64_t ns) override {
    if (of_all != nullptr) of_all->nodeBegin(rank, node, ns);
    auto* o = at(rank);
    return o == nullptr || o->nodeBegin(rank, node, ns);
  }
  void nodeEnd(int rank, const ir::Node& node, std::int64_t ns) override {
    if (of_all != nullptr) of_all->nodeEnd(rank, node, ns);
    if (auto* o = at(rank)) o->nodeEnd(rank, node, ns);
  }
  void onCollectiveStart(const exec::CollectiveEvent& collective, std::int64_t ns) override {
    if (auto* o = at(collective.rank)) o->onCollectiveStart(collective, ns);
  }
  void onCollectiveWait(const exec::CollectiveEvent& collective, const exec::CollectiveSpan& times) override {
    if (auto* o = at(collective.rank)) o->onCollectiveWait(collective, times);
  }
  void allocation(int rank, const ir::Node* node, std::int64_t bytes, std::int64_t live, std::int64_t ns) override {
    if (auto* o = at(rank)) o->allocation(rank, node, bytes, live, ns);
  }

 private:
  exec::ExecutionObserver* at(int rank) const { return of[static_cast<std::size_t>(rank)]; }
};

}  // namespace

Status runVirtual(const Model& model, const RunRequest& what, const Request& request, const OnStep& on_step, RunOutcome& out) {
  exec::setThreads(what.settings.threads);
  exec::installCountingAllocator();
  const int size = what.settings.ranks();
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
  SP_ASSIGN(TrainState state, TrainState::create(model, what, request, 0, size));
  SP_TRY(ranks.bind(state.weights()));  // one copy for all ranks
  out.peak_bytes.assign(static_cast<std::size_t>(size), 0);
  out.step_peak_bytes = out.peak_bytes;
  std::vector<std::unique_ptr<RankProfile>> profiles(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    if (!what.profile.of(rank)) continue;
    const int index = out.compiled.compiled.class_of_rank[static_cast<std::size_t>(rank)];
    SP_ASSIGN(profiles[static_cast<std::size_t>(rank)],
              RankProfile::start(what.profile, rank, size, "virtual", *out.compiled.compiled.programs[static_cast<std::size_t>(index)], what.settings,
                                 request.diagnostics));
    // One copy serves all ranks; each is shown as if it were alone, as predictions and peak_bytes are.
    profiles[static_cast<std::size_t>(rank)]->resident(state.weights().bytes(), passes::optimizerBytes(*out.compiled.compiled.programs[static_cast<std::size_t>(index)], passes::livenessOptions(what.settings, nullptr)));
  }
  const std::unique_ptr<exec::ExecutionObserver> nvtx = nvtxObserver();
  const auto recordCall = [&](std::int64_t step, const char* name, std::int64_t begin) {
    for (const auto& p : profiles)
      if (p) p->hostCall(step, name, begin, monotonicNs());
  };
  const std::int64_t first = state.stepsMade();
  const BatchWeights weights = BatchWeights::of(*model.graph);
  for (std::int64_t i = 0; i < what.steps; ++i) {
    request.report("step", i + 1, what.steps);
    ByRank observer;
    observer.of_all = nvtx.get();
    bool observed = nvtx != nullptr;
    for (const auto& p : profiles) {
      observer.of.push_back(p ? p->observer(i) : nullptr);
      observed = observed || observer.of.back() != nullptr;
    }
    exec::StepOptions options;
    options.cancel = request.cancel;
    options.step = first + i;
    options.seed = what.data.seed;
    if (observed) options.observer = &observer;
    std::int64_t busy_ns = 0;
    auto results = accumulate(what.settings.accumulate, (first + i) * what.settings.accumulate, weights, [&](std::int64_t index) -> Result<BatchResult> {
      const std::int64_t load_begin = monotonicNs();
      SP_ASSIGN(const exec::TensorBag inputs, loadInputs(model, what.data, index, request));
      BatchResult batch;
      if (what.settings.accumulate > 1) {
        SP_ASSIGN(batch.weight, weights.weight(inputs));
      }
      recordCall(i, "load batch", load_begin);
      options.step = index;  // batches of one step draw other random numbers
      const std::int64_t begin = monotonicNs();
      SP_ASSIGN(batch.ranks, ranks.step(inputs, options));
      busy_ns += monotonicNs() - begin;
      return batch;
    });
    if (!results) {
      if (results.error().code != "cancelled") return std::move(results).error();
      out.cancelled = true;
      break;
    }
    if (i == 0 && !what.grads_to.empty())
      for (int r = 0; r < size; ++r)
        SP_TRY(exec::saveBag((*results)[static_cast<std::size_t>(r)].gradients, gradsFile(what.grads_to, r)));
    const std::int64_t update_begin = monotonicNs();
    // One copy of the weights serves all ranks: without ZeRO every rank has the whole gradient, and one update does; with it
    // each rank updates its blocks.
    std::vector<exec::TensorBag> gradients;
    for (const exec::StepResult& r : *results) gradients.push_back(r.gradients);
    SP_ASSIGN(const exec::OptimizerReport update, state.apply(gradients, nullptr));
    recordCall(i, kOptimizerCall, update_begin);
    for (std::size_t r = 0; r < results->size(); ++r)
      out.peak_bytes[r] = std::max(out.peak_bytes[r], (*results)[r].peak_bytes + state.residentBytes(r));
    for (std::size_t r = 0; r < results->size(); ++r)
      out.step_peak_bytes[r] = std::max(out.step_peak_bytes[r], (*results)[r].peak_bytes);
    std::vector<double> losses;
    StepLine line;
    line.step = first + i;
    line.loss = results->front().loss;
    line.ns = busy_ns + (monotonicNs() - update_begin);
    line.gradient_norm = update.gradient_norm;
    for (const exec::StepResult& r : *results) losses.push_back(r.loss);
    out.last_loss = std::move(losses);
    out.steps.push_back(line);
    if (on_step) on_step(line);
  }
  for (const auto& p : profiles)
    if (p) SP_TRY(p->finish());
  if (!what.save_to.empty() && !out.steps.empty()) {
    SP_ASSIGN(const exec::TensorBag states, state.wholeStates(nullptr));
    SP_ASSIGN(out.saved_to, state.save(what.save_to, states));
  }
  return {};
}

}  // namespace spscope::session
