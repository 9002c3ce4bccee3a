// SPDX-License-Identifier: Apache-2.0
#include "core/torch/executor.h"

#include <c10/core/InferenceMode.h>

#include "core/torch/rank_state.h"
#include "core/torch/redistribution_impl.h"
#include "core/torch/threads.h"

namespace spscope::exec {

using Step = Program::Impl::Step;

struct Executor::Impl {
  RankState state;
  dist::Collectives* collectives;
  std::int64_t sequence = 0;  // of collectives, over all steps

  Impl(std::shared_ptr<const Program> program, dist::Collectives* c) : state(std::move(program)), collectives(c) {}

  Status runRedistribution(const Step& step) {
    const Redistribution& r = state.program().impl().redistributions[static_cast<std::size_t>(step.sp)];
    const at::Tensor& input = state.values[static_cast<std::size_t>(step.input)];
    // c10 throws on allocation failures and the like; nothing may leave as an exception.
    try {
      SP_ASSIGN(state.values[static_cast<std::size_t>(step.output)], redistribute(r, input, collectives));
    } catch (const std::exception& e) {
      return makeError("op-failed", e.what(), Outcome::kRunFailed);
    }
    return {};
  }

  Status runPlain(const CancelToken& cancel, const Step** at) {
    for (const Step& step : state.program().impl().steps) {
      *at = &step;
      if (cancel.cancelled()) return cancel.check();
      state.meter.setNode(step.node);  // one store: so that a peak has a name
      if (step.sp < 0)
        SP_TRY(state.run(step));
      else
        SP_TRY(runRedistribution(step));
      state.freeAfter(step);
    }
    return {};
  }

  Status runObserved(const StepOptions& options, const Step** at) {
    const Program& program = state.program();
    const int rank = program.options().rank;
    ExecutionObserver& observer = *options.observer;
    for (const Step& step : program.impl().steps) {
      *at = &step;
      if (options.cancel.cancelled()) return options.cancel.check();
      const ir::Node& node = *step.node;
      if (!observer.nodeBegin(rank, node, steadyNs()))
        return makeError("cancelled", "stopped by the observer", Outcome::kRunFailed);
      state.meter.setNode(&node);
      if (step.sp < 0) {
        SP_TRY(state.run(step));
      } else {
        const Redistribution& r = program.impl().redistributions[static_cast<std::size_t>(step.sp)];
        const std::int64_t begin = steadyNs();
        SP_TRY(runRedistribution(step));
        const at::Tensor& result = state.values[static_cast<std::size_t>(step.output)];
        if (r.communicates() && r.ranks > 1)
          observer.collective(rank, node, begin, steadyNs(), r.bytesSent(static_cast<std::int64_t>(result.element_size())),
                              sequence++);
      }
      state.freeAfter(step);
      state.meter.setNode(nullptr);
      observer.nodeEnd(rank, node, steadyNs());
    }
    return {};
  }
};

Executor::Executor(std::shared_ptr<const Program> program, dist::Collectives* collectives)
    : impl_(std::make_unique<Impl>(std::move(program), collectives)) {
  installCountingAllocator();
  useDeterministicKernels();
}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

Status Executor::bind(const TensorBag& state) { return impl_->state.bind(state); }
const Program& Executor::program() const { return impl_->state.program(); }
MemoryMeter& Executor::meter() { return impl_->state.meter; }

Result<StepResult> Executor::step(const TensorBag& inputs, const StepOptions& options) {
  const Program& program = impl_->state.program();
  const int rank = program.options().rank;
  const int ranks = program.options().ranks;
  dist::Collectives* const c = impl_->collectives;
  if (c != nullptr ? (c->rank() != rank || c->size() != ranks) : (ranks > 1))
    return makeError("program-invalid", "the process group does not fit the program's rank and size");

  const c10::InferenceMode inference;
  const MeterScope counting(impl_->state.meter);
  SP_TRY(impl_->state.begin(inputs));
  seedStep(program, options);
  if (options.observer != nullptr) {
    impl_->state.meter.setObserver(options.observer, rank);
    options.observer->stepBegin(rank, options.step, steadyNs());
  }
  const Step* at = nullptr;
  Status status = options.observer != nullptr ? impl_->runObserved(options, &at) : impl_->runPlain(options.cancel, &at);
  Result<StepResult> result = status ? impl_->state.finish() : Result<StepResult>(std::move(status).error());
  impl_->state.meter.setNode(nullptr);
  if (options.observer != nullptr) {
    options.observer->stepEnd(rank, options.step, steadyNs());
    impl_->state.meter.setObserver(nullptr, rank);
  }
  if (!result) {
    impl_->state.dropValues();
    return withRank(std::move(result).error(), rank, at);
  }
  return result;
}

}  // namespace spscope::exec
