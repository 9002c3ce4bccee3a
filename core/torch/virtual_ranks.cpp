// SPDX-License-Identifier: Apache-2.0
#include "core/torch/virtual_ranks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/strings.h"
#include "core/torch/rank_state.h"
#include "core/torch/redistribution_impl.h"
#include "core/torch/rng_ops.h"
#include "core/torch/tensor_bag_impl.h"
#include "core/torch/threads.h"
#include "core/torch/virtual_snapshot.h"

namespace spscope::exec {

using Step = Program::Impl::Step;
using Started = StartedExchange;

struct VirtualRanks::Impl {
  std::vector<std::unique_ptr<RankState>> states;
  std::vector<std::size_t> positions;   ///< of each rank in its own program
  std::vector<at::Tensor> generators;   ///< state of the random generator of each rank
  StepOptions options;
  std::int64_t sequence = 0;
  bool running = false;
  std::vector<Started> started;
  MemoryMeter spare;  ///< counts what belongs to no rank

  RankState& state(int rank) { return *states[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(states.size()); }
  std::size_t& position(int rank) { return positions[static_cast<std::size_t>(rank)]; }
  bool ended(int rank) { return position(rank) >= state(rank).program().nodeCount(); }
  const Step& step(int rank) { return state(rank).program().impl().steps[position(rank)]; }
  const ir::Node& node(int rank) { return state(rank).program().node(position(rank)); }
  const Program::Impl::Exchange& exchange(int rank, std::int32_t index) {
    return state(rank).program().impl().exchanges[static_cast<std::size_t>(index)];
  }
  at::Tensor& value(int rank, ir::ValueId id) { return state(rank).values[static_cast<std::size_t>(id)]; }
  const Redistribution* redistribution(int rank) {
    const Step& s = step(rank);
    return s.sp < 0 ? nullptr : &state(rank).program().impl().redistributions[static_cast<std::size_t>(s.sp)];
  }
  bool meets(int rank) {  // the next node needs the other ranks
    if (ended(rank)) return false;
    if (step(rank).start >= 0) return true;
    const Redistribution* r = redistribution(rank);
    return r != nullptr && r->communicates();
  }

  void stop() {
    for (auto& s : states) {
      s->meter.setNode(nullptr);
      s->meter.setObserver(nullptr, 0);
      s->dropValues();
    }
    for (Started& s : started) s = {};
    running = false;
  }

  Status nodeBegins(int rank) {
    const ir::Node& n = node(rank);
    state(rank).meter.setNode(&n);
    if (options.observer == nullptr) return {};
    if (!options.observer->nodeBegin(rank, n, monotonicNs()))
      return makeError("cancelled", "stopped by the observer", Outcome::kRunFailed);
    return {};
  }
  void nodeEnds(int rank) {
    if (options.observer == nullptr) return;
    state(rank).meter.setNode(nullptr);
    options.observer->nodeEnd(rank, node(rank), monotonicNs());
  }

  Status runNode(int rank) {
    const Step& s = step(rank);
    if (s.aten()) return state(rank).run(s);
    if (s.wait >= 0) return runWait(rank);
    const at::Tensor& input = value(rank, s.input);
    SP_TRY(checkInput(*redistribution(rank), input));
    value(rank, s.output) = runLocal(*redistribution(rank), input);
    return {};
  }

  /// One node of one rank that needs no other. Random ops draw from a generator of the rank's own, so that equal ops
  /// draw equal numbers, as where each rank is a process with the same seed.
  Status runAlone(int rank) {
    const bool random = ir::isRandom(node(rank).op);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    at::Tensor& random_state = generators[static_cast<std::size_t>(rank)];
    if (random && random_state.defined()) generator.set_state(random_state);
    const MeterScope counting(state(rank).meter);
    const RandomScope indexed(drawsOf(state(rank).program(), options));
    Status status = nodeBegins(rank);
    if (status) {
      try {
        status = runNode(rank);
      } catch (const std::exception& e) {
        status = makeError("op-failed", e.what(), Outcome::kRunFailed);
      }
    }
    if (!status) return withRank(std::move(status).error(), rank, &step(rank));
    if (random) random_state = generator.get_state();
    state(rank).freeAfter(step(rank));
    nodeEnds(rank);
    ++position(rank);
    return {};
  }

  /// All ranks stand before a collective, or are through.
  Status checkMeeting() {
    for (int r = 0; r < ranks(); ++r)
      if (ended(r) || node(r).op != node(0).op)
        return makeError("rank-programs-differ",
                         strf("rank 0 stands before %s, rank %d %s", ended(0) ? "its end" : node(0).op.str().c_str(), r,
                              ended(r) ? "is through" : ("before " + node(r).op.str()).c_str()));
    return {};
  }

  CollectiveEvent event(int rank, const Redistribution& r, std::int64_t bytes, std::int64_t number) {
    CollectiveEvent e;
    e.rank = rank;
    e.node = &node(rank);
    e.kind = dist::collectiveName(collectiveKind(r.kind));
    e.group = state(rank).program().impl().groups[static_cast<std::size_t>(r.axis)];
    e.bytes = bytes;
    e.sequence = number;
    return e;
  }

  /// Packs one operand of every rank. `parts[r]` describes it on rank r.
  Result<std::vector<Transfer>> beginTogether(const std::vector<const Redistribution*>& parts, const std::vector<ir::ValueId>& inputs,
                                              const std::vector<char>& in_place) {
    std::vector<Transfer> transfers;
    for (int r = 0; r < ranks(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      const MeterScope counting(state(r).meter);
      const at::Tensor& input = value(r, inputs[i]);
      if (auto status = checkInput(*parts[i], input); !status) return withRank(std::move(status).error(), r, &step(r));
      transfers.push_back(beginTransfer(*parts[i], input, in_place[i] != 0));
    }
    return transfers;
  }

  /// The exchange within each group of the axis. `parts` and `transfers` have one entry per rank of the mesh.
  void exchangeByGroup(const std::vector<const Redistribution*>& parts, std::vector<Transfer>& transfers) {
    const ir::Mesh& mesh = state(0).program().impl().mesh;
    const ir::MeshAxis axis = parts.front()->axis;
    for (int first = 0; first < ranks(); ++first) {
      if (ir::axisRank(mesh, first, axis) != 0) continue;
      std::vector<const Redistribution*> group_parts;
      std::vector<Transfer> group;
      const std::vector<int> members = ir::axisGroup(mesh, first, axis);
      for (const int r : members) {
        group_parts.push_back(parts[static_cast<std::size_t>(r)]);
        group.push_back(transfers[static_cast<std::size_t>(r)]);  // shares the tensors: what is received lands in them
      }
      exchangeTogether(group_parts, group);
    }
  }

  /// All ranks have come to the same collective: the whole of it, or its start.
  Status meet() {
    const bool start = step(0).start >= 0;
    for (int r = 0; r < ranks(); ++r)
      if (auto status = nodeBegins(r); !status) return withRank(std::move(status).error(), r, &step(r));
    const std::int64_t number = sequence++;
    try {
      if (auto status = start ? runStart(number) : runWhole(number); !status) return status;
    } catch (const std::exception& e) {
      return withRank(makeError("op-failed", e.what(), Outcome::kRunFailed), 0, &step(0));
    }
    for (int r = 0; r < ranks(); ++r) {
      const MeterScope counting(state(r).meter);
      state(r).freeAfter(step(r));
      nodeEnds(r);
    }
    for (int r = 0; r < ranks(); ++r) ++position(r);
    return {};
  }

  Status runWhole(std::int64_t number) {
    std::vector<const Redistribution*> parts;
    std::vector<ir::ValueId> inputs;
    for (int r = 0; r < ranks(); ++r) {
      parts.push_back(redistribution(r));
      inputs.push_back(step(r).input);
    }
    SP_ASSIGN(std::vector<Transfer> transfers, beginTogether(parts, inputs, std::vector<char>(inputs.size(), 0)));
    CollectiveSpan span;
    if (options.observer != nullptr) span.begin_ns = span.wait_begin_ns = monotonicNs();
    exchangeByGroup(parts, transfers);
    if (options.observer != nullptr) span.end_ns = span.wait_end_ns = monotonicNs();
    for (int r = 0; r < ranks(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      const MeterScope counting(state(r).meter);
      transfers[i].send.reset();
    }
    for (int r = 0; r < ranks(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      const MeterScope counting(state(r).meter);
      const auto element = static_cast<std::int64_t>(transfers[i].receive.element_size());
      if (options.observer != nullptr && ranks() > 1) {
        const CollectiveEvent e = event(r, *parts[i], parts[i]->bytesSent(element), number);
        options.observer->onCollectiveStart(e, span.begin_ns);
        options.observer->onCollectiveWait(e, span);
      }
      value(r, step(r).output) = unpackReceived(*parts[i], std::move(transfers[i].receive));
    }
    return {};
  }

  Status runStart(std::int64_t number) {
    Started& s = started[static_cast<std::size_t>(step(0).start)];
    s = {};
    s.sequence = number;
    const std::size_t count = exchange(0, step(0).start).parts.size();
    for (std::size_t p = 0; p < count; ++p) {
      std::vector<const Redistribution*> parts;
      std::vector<ir::ValueId> inputs;
      std::vector<char> in_place;
      for (int r = 0; r < ranks(); ++r) {
        const Program::Impl::Exchange& x = exchange(r, step(r).start);
        parts.push_back(&x.parts[p]);
        inputs.push_back(x.inputs[p]);
        in_place.push_back(x.in_place[p]);
      }
      SP_ASSIGN(std::vector<Transfer> transfers, beginTogether(parts, inputs, in_place));
      for (int r = 0; r < ranks(); ++r) {
        const Program::Impl::Exchange& x = exchange(r, step(r).start);
        value(r, x.receives[p]) = transfers[static_cast<std::size_t>(r)].receive;
        if (!x.sends.empty()) value(r, x.sends[p]) = transfers[static_cast<std::size_t>(r)].send;
      }
      s.parts.push_back(std::move(transfers));
    }
    if (options.observer != nullptr && ranks() > 1) {
      s.span.begin_ns = monotonicNs();
      for (int r = 0; r < ranks(); ++r) {
        const Program::Impl::Exchange& x = exchange(r, step(r).start);
        options.observer->onCollectiveStart(event(r, x.parts[0], x.bytes, number), s.span.begin_ns);
      }
    }
    return {};
  }

  /// The first rank that waits moves the data of all. Exchanges have the same number on every rank: all ranks start the
  /// same ones in the same order.
  Status runWait(int rank) {
    const std::int32_t index = step(rank).wait;
    Started& s = started[static_cast<std::size_t>(index)];
    const Program::Impl::Exchange& x = exchange(rank, index);
    if (options.observer != nullptr) s.span.wait_begin_ns = monotonicNs();
    if (!s.moved) {
      const MeterScope nobody(spare);
      for (std::size_t p = 0; p < s.parts.size(); ++p) {
        std::vector<const Redistribution*> parts;
        for (int r = 0; r < ranks(); ++r) parts.push_back(&exchange(r, index).parts[p]);
        exchangeByGroup(parts, s.parts[p]);
      }
      s.moved = true;
      if (options.observer != nullptr) s.span.end_ns = monotonicNs();
    }
    if (options.observer != nullptr && ranks() > 1) {
      s.span.wait_end_ns = monotonicNs();
      options.observer->onCollectiveWait(event(rank, x.parts[0], x.bytes, s.sequence), s.span);
    }
    for (std::size_t i = 0; i < x.results.size(); ++i)
      value(rank, x.results[i]) = received(state(rank).program(), x, i, value(rank, x.receives[i]));
    for (auto& part : s.parts) part[static_cast<std::size_t>(rank)] = {};
    return {};
  }
};

namespace {

bool sameMove(const Redistribution& x, const Redistribution& y) {
  return x.axis == y.axis && x.gather_dim == y.gather_dim && x.scatter_dim == y.scatter_dim && x.gather_blocks == y.gather_blocks &&
         x.scatter_blocks == y.scatter_blocks;
}

/// Ranks with other local shapes may run other nodes in between; what they exchange must be the same, in the same order.
Status sameCollectives(const Program& first, const Program& p) {
  const auto collectives = [](const Program& program) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < program.nodeCount(); ++i)
      if (program.isCollective(i)) out.push_back(i);
    return out;
  };
  const auto movesOf = [](const Program& program, std::size_t position) {
    const Step& step = program.impl().steps[position];
    if (step.start >= 0) return program.impl().exchanges[static_cast<std::size_t>(step.start)].parts;
    return std::vector<Redistribution>{program.impl().redistributions[static_cast<std::size_t>(step.sp)]};
  };
  const auto a = collectives(first), b = collectives(p);
  for (std::size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
    const char* reason = nullptr;
    if (k >= a.size() || k >= b.size() || first.node(a[k]).op != p.node(b[k]).op) {
      reason = "is another one";
    } else {
      const auto x = movesOf(first, a[k]), y = movesOf(p, b[k]);
      if (x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), sameMove)) continue;
      reason = "has other dimensions or blocks";
    }
    Error error = makeError("rank-programs-differ", strf("collective %zu %s on rank %d than on rank 0", k, reason, p.options().rank));
    if (k < a.size()) error.node = "%" + first.node(a[k]).name;
    return error;
  }
  return {};
}

}  // namespace

VirtualRanks::VirtualRanks() : impl_(std::make_unique<Impl>()) {
  installCountingAllocator();
  useDeterministicKernels();
}
VirtualRanks::~VirtualRanks() = default;
VirtualRanks::VirtualRanks(VirtualRanks&&) noexcept = default;
VirtualRanks& VirtualRanks::operator=(VirtualRanks&&) noexcept = default;

Result<VirtualRanks> VirtualRanks::create(std::vector<std::shared_ptr<const Program>> programs) {
  if (programs.empty()) return makeError("program-invalid", "no program");
  VirtualRanks all;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const Program& p = *programs[r];
    if (p.options().rank != static_cast<int>(r) || p.options().ranks != static_cast<int>(programs.size()))
      return makeError("program-invalid", strf("program %zu is that of rank %d of %d", r, p.options().rank, p.options().ranks));
    SP_TRY(sameCollectives(*programs.front(), p));
  }
  all.impl_->positions.assign(programs.size(), 0);
  all.impl_->started.resize(programs.front()->impl().exchanges.size());
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
  impl_->positions.assign(static_cast<std::size_t>(ranks()), 0);
  const c10::InferenceMode inference;
  for (int r = 0; r < ranks(); ++r) {
    if (auto status = impl_->state(r).begin(inputs); !status) {
      impl_->stop();
      return status;
    }
  }
  seedStep(impl_->state(0).program(), options);
  impl_->generators.assign(static_cast<std::size_t>(ranks()), {});
  if (impl_->state(0).program().hasRandomNodes())
    for (auto& g : impl_->generators) g = at::detail::getDefaultCPUGenerator().get_state();
  if (options.observer != nullptr)
    for (int r = 0; r < ranks(); ++r) {
      impl_->state(r).meter.setObserver(options.observer, r);
      options.observer->stepBegin(r, options.step, monotonicNs());
    }
  impl_->running = true;
  return {};
}

bool VirtualRanks::done() const {
  for (int r = 0; r < ranks(); ++r)
    if (!impl_->ended(r)) return false;
  return true;
}
std::size_t VirtualRanks::position(int rank) const { return impl_->position(rank); }
bool VirtualRanks::meets(int rank) const { return impl_->meets(rank); }

Status VirtualRanks::stepNode() {
  if (!impl_->running || done()) return makeError("program-invalid", "there is no node to run");
  const c10::InferenceMode inference;
  Status status = impl_->options.cancel.check();
  bool alone = false;
  for (int r = 0; status && r < ranks(); ++r) {
    if (impl_->ended(r) || impl_->meets(r)) continue;
    alone = true;
    status = impl_->runAlone(r);
  }
  if (status && !alone) {
    status = impl_->checkMeeting();
    if (status) status = impl_->meet();
  }
  if (!status) impl_->stop();
  return status;
}

Status VirtualRanks::stepNode(int rank) {
  if (!impl_->running || impl_->ended(rank)) return makeError("program-invalid", strf("rank %d has no node to run", rank));
  const c10::InferenceMode inference;
  Status status = impl_->options.cancel.check();
  if (status && !impl_->meets(rank)) {
    status = impl_->runAlone(rank);
  } else if (status) {
    for (int r = 0; r < ranks(); ++r)
      if (!impl_->meets(r)) return withRank(makeError("rank-waits", strf("a collective needs all ranks, and rank %d has not come to it", r)), rank, &impl_->step(rank));
    status = impl_->checkMeeting();
    if (status) status = impl_->meet();
  }
  if (!status) impl_->stop();
  return status;
}

std::shared_ptr<const VirtualSnapshot> VirtualRanks::snapshot() const {
  if (!impl_->running) return nullptr;
  const c10::InferenceMode inference;
  return takeSnapshot(impl_->states, impl_->positions, impl_->generators, impl_->started, impl_->sequence);
}

Status VirtualRanks::restore(const VirtualSnapshot& snapshot, const TensorBag& inputs, const StepOptions& options) {
  if (snapshot.values.size() != impl_->states.size()) return makeError("program-invalid", "the snapshot is of other ranks");
  SP_TRY(begin(inputs, options));
  const c10::InferenceMode inference;
  putBack(snapshot, impl_->states, impl_->positions, impl_->generators, impl_->started, impl_->sequence);
  return {};
}

Result<TensorBag> VirtualRanks::value(int rank, ir::ValueId id) const {
  if (!impl_->running) return makeError("value-not-live", "no step is under way");
  return impl_->state(rank).value(id);
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
    if (impl_->options.observer != nullptr) impl_->options.observer->stepEnd(r, impl_->options.step, monotonicNs());
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
