// SPDX-License-Identifier: Apache-2.0
#include "core/torch/virtual_ranks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>

#include "core/base/strings.h"
#include "core/torch/rank_state.h"
#include "core/torch/redistribution_impl.h"
#include "core/torch/tensor_bag_impl.h"

namespace spscope::exec {

using Step = Program::Impl::Step;

struct VirtualRanks::Impl {
  std::vector<std::unique_ptr<RankState>> states;
  StepOptions options;
  std::size_t position = 0;
  std::size_t nodes = 0;
  std::int64_t sequence = 0;
  bool running = false;

  RankState& state(int rank) { return *states[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(states.size()); }
  const Step& step(int rank) { return state(rank).program().impl().steps[position]; }
  const ir::Node& node(int rank) { return state(rank).program().node(position); }

  void stop() {
    for (auto& s : states) {
      s->meter.setNode(nullptr);
      s->meter.setObserver(nullptr, 0);
      s->dropValues();
    }
    running = false;
  }

  Status nodeBegins(int rank) {
    if (options.observer == nullptr) return {};
    const ir::Node& n = node(rank);
    if (!options.observer->nodeBegin(rank, n, steadyNs()))
      return makeError("cancelled", "stopped by the observer", Outcome::kRunFailed);
    state(rank).meter.setNode(&n);
    return {};
  }
  void nodeEnds(int rank) {
    if (options.observer == nullptr) return;
    state(rank).meter.setNode(nullptr);
    options.observer->nodeEnd(rank, node(rank), steadyNs());
  }

  /// A random op must draw the same numbers on every rank, as it does when each rank is a process with the same seed.
  Status runCompute() {
    const bool random = ir::isRandom(node(0).op);
    at::Tensor before;
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    if (random) before = generator.get_state();
    for (int r = 0; r < ranks(); ++r) {
      if (random && r > 0) generator.set_state(before);
      const MeterScope counting(state(r).meter);
      Status status = nodeBegins(r);
      if (status) status = state(r).run(step(r));
      if (!status) return withRank(std::move(status).error(), r, &step(r));
      state(r).freeAfter(step(r));
      nodeEnds(r);
    }
    return {};
  }

  Status runRedistribution() {
    std::vector<const Redistribution*> descriptions;
    std::vector<at::Tensor> inputs;
    for (int r = 0; r < ranks(); ++r) {
      const Step& s = step(r);
      descriptions.push_back(&state(r).program().impl().redistributions[static_cast<std::size_t>(s.sp)]);
      inputs.push_back(state(r).values[static_cast<std::size_t>(s.input)]);
      Status status = checkInput(*descriptions.back(), inputs.back());
      if (status) status = nodeBegins(r);
      if (!status) return withRank(std::move(status).error(), r, &s);
    }
    const std::int64_t begin = options.observer != nullptr ? steadyNs() : 0;
    std::vector<at::Tensor> results;
    try {
      results = redistributeTogether(descriptions, inputs,
                                     [&](int rank) { return std::make_unique<MeterScope>(state(rank).meter); });
    } catch (const std::exception& e) {
      return withRank(makeError("op-failed", e.what(), Outcome::kRunFailed), 0, &step(0));
    }
    inputs.clear();
    const std::int64_t end = options.observer != nullptr ? steadyNs() : 0;
    for (int r = 0; r < ranks(); ++r) {
      const MeterScope counting(state(r).meter);
      const auto i = static_cast<std::size_t>(r);
      const Step& s = step(r);
      if (options.observer != nullptr && descriptions[i]->communicates() && ranks() > 1)
        options.observer->collective(r, node(r), begin, end,
                                     descriptions[i]->bytesSent(static_cast<std::int64_t>(results[i].element_size())),
                                     sequence);
      state(r).values[static_cast<std::size_t>(s.output)] = std::move(results[i]);
      state(r).freeAfter(s);
      nodeEnds(r);
    }
    if (descriptions[0]->communicates()) ++sequence;
    return {};
  }
};

VirtualRanks::VirtualRanks() : impl_(std::make_unique<Impl>()) { installCountingAllocator(); }
VirtualRanks::~VirtualRanks() = default;
VirtualRanks::VirtualRanks(VirtualRanks&&) noexcept = default;
VirtualRanks& VirtualRanks::operator=(VirtualRanks&&) noexcept = default;

Result<VirtualRanks> VirtualRanks::create(std::vector<std::shared_ptr<const Program>> programs) {
  if (programs.empty()) return makeError("program-invalid", "no program");
  const Program& first = *programs.front();
  VirtualRanks all;
  all.impl_->nodes = first.nodeCount();
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const Program& p = *programs[r];
    if (p.options().rank != static_cast<int>(r) || p.options().ranks != static_cast<int>(programs.size()))
      return makeError("program-invalid", strf("program %zu is that of rank %d of %d", r, p.options().rank, p.options().ranks));
    const std::size_t common = std::min(p.nodeCount(), first.nodeCount());
    for (std::size_t i = 0; i <= common; ++i) {
      if (i == common && p.nodeCount() == first.nodeCount()) break;
      if (i < common && p.node(i).op == first.node(i).op) continue;
      Error error = makeError("rank-programs-differ",
                              strf("node %zu is %s on rank 0 and %s on rank %zu", i,
                                   i < first.nodeCount() ? first.node(i).op.str().c_str() : "missing",
                                   i < p.nodeCount() ? p.node(i).op.str().c_str() : "missing", r));
      if (i < first.nodeCount()) error.node = "%" + first.node(i).name;
      return error;
    }
    for (std::size_t k = 0; k < first.impl().redistributions.size(); ++k) {
      const Redistribution& a = first.impl().redistributions[k];
      const Redistribution& b = p.impl().redistributions[k];
      if (a.gather_dim == b.gather_dim && a.scatter_dim == b.scatter_dim && a.gather_blocks == b.gather_blocks &&
          a.scatter_blocks == b.scatter_blocks)
        continue;
      return makeError("rank-programs-differ", strf("redistribution %zu has other dimensions or blocks on rank %zu than on rank 0", k, r));
    }
  }
  for (auto& program : programs) all.impl_->states.push_back(std::make_unique<RankState>(std::move(program)));
  return all;
}

int VirtualRanks::ranks() const { return impl_->ranks(); }
const Program& VirtualRanks::program(int rank) const { return impl_->state(rank).program(); }

Status VirtualRanks::bind(const TensorBag& state) {
  for (int r = 0; r < ranks(); ++r) SP_TRY(impl_->state(r).bind(state));
  return {};
}

Status VirtualRanks::bind(const std::vector<TensorBag>& states) {
  if (static_cast<int>(states.size()) != ranks()) return makeError("program-invalid", "one state per rank is wanted");
  for (int r = 0; r < ranks(); ++r) SP_TRY(impl_->state(r).bind(states[static_cast<std::size_t>(r)]));
  return {};
}

Status VirtualRanks::begin(const TensorBag& inputs, const StepOptions& options) {
  impl_->stop();
  impl_->options = options;
  impl_->position = 0;
  const c10::InferenceMode inference;
  for (int r = 0; r < ranks(); ++r) {
    if (auto status = impl_->state(r).begin(inputs); !status) {
      impl_->stop();
      return status;
    }
  }
  seedStep(impl_->state(0).program(), options);
  if (options.observer != nullptr)
    for (int r = 0; r < ranks(); ++r) {
      impl_->state(r).meter.setObserver(options.observer, r);
      options.observer->stepBegin(r, options.step, steadyNs());
    }
  impl_->running = true;
  return {};
}

bool VirtualRanks::done() const { return impl_->position >= impl_->nodes; }
std::size_t VirtualRanks::position() const { return impl_->position; }

Status VirtualRanks::stepNode() {
  if (!impl_->running || done()) return makeError("program-invalid", "there is no node to run");
  const c10::InferenceMode inference;
  Status status = impl_->options.cancel.check();
  if (status) status = impl_->step(0).sp < 0 ? impl_->runCompute() : impl_->runRedistribution();
  if (!status) {
    impl_->stop();
    return status;
  }
  ++impl_->position;
  return {};
}

Result<TensorBag> VirtualRanks::value(int rank, ir::ValueId id) const {
  const auto& values = impl_->state(rank).values;
  const auto i = static_cast<std::size_t>(id);
  const ir::Graph& graph = impl_->state(rank).program().graph();
  if (id < 0 || i >= graph.valueCount()) return makeError("value-not-live", "there is no such value");
  if (!impl_->running || i >= values.size() || !values[i].defined())
    return makeError("value-not-live", "%" + graph.value(id).name + " is not computed yet, or was freed after its last use");
  TensorBag bag;
  bag.impl().append(graph.value(id).name, values[i]);
  return bag;
}

Result<std::vector<StepResult>> VirtualRanks::finish() {
  if (!impl_->running || !done()) return makeError("program-invalid", "the step is not over");
  const c10::InferenceMode inference;
  std::vector<StepResult> results;
  for (int r = 0; r < ranks(); ++r) {
    auto result = impl_->state(r).finish();
    if (!result) {
      impl_->stop();
      return withRank(std::move(result).error(), r, nullptr);
    }
    if (impl_->options.observer != nullptr) impl_->options.observer->stepEnd(r, impl_->options.step, steadyNs());
    results.push_back(std::move(*result));
  }
  impl_->stop();
  return results;
}

Result<std::vector<StepResult>> VirtualRanks::step(const TensorBag& inputs, const StepOptions& options) {
  SP_TRY(begin(inputs, options));
  while (!done()) SP_TRY(stepNode());
  return finish();
}

}  // namespace spscope::exec
