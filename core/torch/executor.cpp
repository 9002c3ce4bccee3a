// SPDX-License-Identifier: Apache-2.0
#include "core/torch/executor.h"

#include <c10/core/InferenceMode.h>

#include <utility>

#include "core/base/clock.h"
#include "core/torch/rank_state.h"
#include "core/torch/redistribution_impl.h"
#include "core/torch/rng_ops.h"
#include "core/torch/threads.h"

namespace spscope::exec {

using Step = Program::Impl::Step;

struct Executor::Impl {
  RankState state;
  dist::Collectives* collectives;
  std::int64_t sequence = 0;  // of collectives, over all steps
  /// What is known of a started collective until it is waited for; by Program::Impl::Exchange.
  struct Started {
    std::int64_t ticket = -1;  // -1: nothing to wait for
    std::int64_t sequence = 0;
  };
  std::vector<Started> started;
  std::size_t position = 0;  // of a step that stops between nodes
  bool running = false;      // there is one
  StepOptions options;       // its own

  Impl(std::shared_ptr<const Program> program, dist::Collectives* c)
      : state(std::move(program)), collectives(c), started(state.program().impl().exchanges.size()) {}

  at::Tensor& value(ir::ValueId id) { return state.values[static_cast<std::size_t>(id)]; }

  CollectiveEvent event(const Step& step, const Redistribution& r, std::int64_t bytes, std::int64_t number) const {
    CollectiveEvent e;
    e.rank = state.program().options().rank;
    e.node = step.node;
    e.kind = dist::collectiveName(collectiveKind(r.kind));
    e.group = state.program().impl().groups[static_cast<std::size_t>(r.axis)];
    e.bytes = bytes;
    e.sequence = number;
    return e;
  }

  /// Hands the transfers to the group; the memory is kept until they are waited for, whatever becomes of the step.
  Result<std::int64_t> hand(const std::vector<const Redistribution*>& parts, std::vector<Transfer> transfers) {
    const SpKind kind = parts.front()->kind;
    if (parts.front()->ranks == 1) {
      for (std::size_t i = 0; i < parts.size(); ++i)
        if (kind != SpKind::kAllReduce) {
          std::vector<Transfer> alone{transfers[i]};
          exchangeTogether({parts[i]}, alone);
        }
      return std::int64_t{-1};
    }
    std::vector<dist::CollectivePart> list;
    for (std::size_t i = 0; i < parts.size(); ++i) list.push_back(partOf(*parts[i], transfers[i]));
    auto keep = std::make_shared<const std::vector<Transfer>>(std::move(transfers));
    return collectives->start(collectiveKind(kind), std::move(list), std::move(keep));
  }

  /// A collective that is complete in itself: started and waited for.
  Status runWhole(const Step& step, const Redistribution& r, ExecutionObserver* observer) {
    const at::Tensor& input = value(step.input);
    SP_TRY(checkInput(r, input));
    if (!r.communicates()) {
      value(step.output) = runLocal(r, input);
      return {};
    }
    Transfer t = beginTransfer(r, input);
    const bool told = observer != nullptr && r.ranks > 1;
    CollectiveEvent e;
    CollectiveSpan span;
    if (told) {
      e = event(step, r, r.bytesSent(static_cast<std::int64_t>(t.receive.element_size())), sequence++);
      observer->onCollectiveStart(e, span.wait_begin_ns = monotonicNs());
    }
    span.begin_ns = span.wait_begin_ns;
    if (r.ranks > 1) {
      const dist::CollectivePart part = partOf(r, t);
      SP_TRY(collectives->runAll(collectiveKind(r.kind), {&part, 1}));
    } else if (r.kind != SpKind::kAllReduce) {
      std::vector<Transfer> alone{t};
      exchangeTogether({&r}, alone);
    }
    if (told) {
      span.end_ns = span.wait_end_ns = monotonicNs();
      observer->onCollectiveWait(e, span);
    }
    t.send.reset();
    value(step.output) = unpackReceived(r, std::move(t.receive));
    return {};
  }

  Status runStart(const Step& step, ExecutionObserver* observer) {
    const auto index = static_cast<std::size_t>(step.start);
    const Program::Impl::Exchange& x = state.program().impl().exchanges[index];
    std::vector<const Redistribution*> parts;
    std::vector<Transfer> transfers;
    for (std::size_t i = 0; i < x.parts.size(); ++i) {
      SP_TRY(checkInput(x.parts[i], value(x.inputs[i])));
      transfers.push_back(beginTransfer(x.parts[i], value(x.inputs[i]), x.in_place[i] != 0));
      parts.push_back(&x.parts[i]);
      value(x.receives[i]) = transfers[i].receive;
      if (!x.sends.empty()) value(x.sends[i]) = transfers[i].send;
    }
    Started& s = started[index];
    s.sequence = sequence++;
    if (observer != nullptr && parts.front()->ranks > 1)
      observer->onCollectiveStart(event(step, *parts.front(), x.bytes, s.sequence), monotonicNs());
    SP_ASSIGN(s.ticket, hand(parts, std::move(transfers)));
    return {};
  }

  Status runWait(const Step& step, ExecutionObserver* observer) {
    const auto index = static_cast<std::size_t>(step.wait);
    const Program::Impl::Exchange& x = state.program().impl().exchanges[index];
    Started& s = started[index];
    if (s.ticket >= 0) {
      CollectiveSpan span;
      if (observer != nullptr) span.wait_begin_ns = monotonicNs();
      SP_ASSIGN(const dist::CollectiveTimes times, collectives->wait(std::exchange(s.ticket, -1)));
      if (observer != nullptr) {
        span.wait_end_ns = monotonicNs();
        span.begin_ns = times.begin_ns;
        span.end_ns = times.end_ns;
        observer->onCollectiveWait(event(step, x.parts.front(), x.bytes, s.sequence), span);
      }
    }
    for (std::size_t i = 0; i < x.results.size(); ++i) value(x.results[i]) = received(state.program(), x, i, value(x.receives[i]));
    return {};
  }

  Status run(const Step& step, ExecutionObserver* observer) {
    if (step.aten()) return state.run(step);
    // c10 throws on allocation failures and the like; nothing may leave as an exception.
    try {
      if (step.start >= 0) return runStart(step, observer);
      if (step.wait >= 0) return runWait(step, observer);
      return runWhole(step, state.program().impl().redistributions[static_cast<std::size_t>(step.sp)], observer);
    } catch (const std::exception& e) {
      return makeError("op-failed", e.what(), Outcome::kRunFailed);
    }
  }

  /// Waits for what a step that is given up has started: tickets are for one wait each, and nobody else will.
  Status endStarted() {
    for (Started& s : started)
      if (const std::int64_t ticket = std::exchange(s.ticket, -1); ticket >= 0) SP_TRY(collectives->wait(ticket));
    return {};
  }

  Status fitsGroup() const {
    const ProgramOptions& options = state.program().options();
    if (collectives != nullptr ? (collectives->rank() != options.rank || collectives->size() != options.ranks) : (options.ranks > 1))
      return makeError("program-invalid", "the process group does not fit the program's rank and size");
    return {};
  }

  Status runPlain(const CancelToken& cancel, const Step** at) {
    for (const Step& step : state.program().impl().steps) {
      *at = &step;
      if (cancel.cancelled()) return cancel.check();
      state.meter.setNode(step.node);  // one store: so that a peak has a name
      SP_TRY(run(step, nullptr));
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
      if (!observer.nodeBegin(rank, node, monotonicNs()))
        return makeError("cancelled", "stopped by the observer", Outcome::kRunFailed);
      state.meter.setNode(&node);
      SP_TRY(run(step, &observer));
      state.freeAfter(step);
      state.meter.setNode(nullptr);
      observer.nodeEnd(rank, node, monotonicNs());
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
  SP_TRY(impl_->fitsGroup());

  const c10::InferenceMode inference;
  const MeterScope counting(impl_->state.meter);
  SP_TRY(impl_->state.begin(inputs));
  seedStep(program, options);
  const RandomScope random(drawsOf(program, options));
  if (options.observer != nullptr) {
    impl_->state.meter.setObserver(options.observer, rank);
    options.observer->stepBegin(rank, options.step, monotonicNs());
  }
  const Step* at = nullptr;
  Status status = options.observer != nullptr ? impl_->runObserved(options, &at) : impl_->runPlain(options.cancel, &at);
  Result<StepResult> result = status ? impl_->state.finish() : Result<StepResult>(std::move(status).error());
  impl_->state.meter.setNode(nullptr);
  if (options.observer != nullptr) {
    options.observer->stepEnd(rank, options.step, monotonicNs());
    impl_->state.meter.setObserver(nullptr, rank);
  }
  if (!result) {
    impl_->state.dropValues();
    return withRank(std::move(result).error(), rank, at);
  }
  return result;
}

Status Executor::begin(const TensorBag& inputs, const StepOptions& options) {
  SP_TRY(impl_->fitsGroup());
  const c10::InferenceMode inference;
  const MeterScope counting(impl_->state.meter);
  impl_->running = false;
  SP_TRY(impl_->endStarted());
  impl_->state.dropValues();
  SP_TRY(impl_->state.begin(inputs));
  seedStep(impl_->state.program(), options);
  impl_->options = options;
  impl_->position = 0;
  impl_->running = true;
  return {};
}

Status Executor::runTo(const std::atomic<std::size_t>& limit, std::atomic<std::size_t>& at) {
  const Program& program = impl_->state.program();
  if (!impl_->running) return makeError("program-invalid", "no step has begun");
  const c10::InferenceMode inference;
  const MeterScope counting(impl_->state.meter);
  const RandomScope random(drawsOf(program, impl_->options));
  ExecutionObserver* const observer = impl_->options.observer;
  const int rank = program.options().rank;
  const auto& steps = program.impl().steps;
  std::size_t& position = impl_->position;
  while (position < steps.size()) {
    at.store(position);
    if (limit.load() <= position) return {};
    const Step& step = steps[position];
    Status status = impl_->options.cancel.check();
    if (status && observer != nullptr && !observer->nodeBegin(rank, *step.node, monotonicNs())) status = makeError("cancelled", "stopped by the observer", Outcome::kRunFailed);
    impl_->state.meter.setNode(step.node);
    if (status) status = impl_->run(step, observer);
    if (!status) {
      impl_->running = false;
      return withRank(std::move(status).error(), rank, &step);
    }
    impl_->state.freeAfter(step);
    impl_->state.meter.setNode(nullptr);
    if (observer != nullptr) observer->nodeEnd(rank, *step.node, monotonicNs());
    ++position;
  }
  at.store(position);
  return {};
}

std::size_t Executor::position() const { return impl_->position; }

Result<TensorBag> Executor::value(ir::ValueId id) const {
  if (!impl_->running) return makeError("value-not-live", "no step is under way");
  return impl_->state.value(id);
}

}  // namespace spscope::exec
