// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/step_time.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "core/base/strings.h"
#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "passes/comm/comm_bytes.h"
#include "passes/memory/liveness.h"
#include "passes/memory/op_cost.h"

namespace spscope::session {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A profile's figures at one end of their intervals, or between. `good`: 0 the worst, 1 the best.
class Rates {
 public:
  Rates(const DeviceProfile& profile, double good, double share) : profile_(profile), good_(good), share_(share) {}
  double rate(const Figure& f) const { return (f.low + (f.high - f.low) * good_) / share_; }
  double delay(const Figure& f) const { return f.high - (f.high - f.low) * good_; }
  double link(const Figure& f) const { return f.low + (f.high - f.low) * good_; }
  const DeviceProfile& profile() const { return profile_; }
  double good() const { return good_; }

 private:
  const DeviceProfile& profile_;
  double good_, share_;
};

/// What the flops of a node are divided by.
const Figure& flopRate(const ir::Graph& graph, const ir::Node& node, const DeviceProfile& p) {
  if (ir::isAttention(node.op) && !p.attention.empty()) {
    const std::string_view op = node.op.str();
    const char* kernel = op.find("cudnn") != std::string_view::npos ? "cudnn" : op.find("flash") != std::string_view::npos ? "flash-2" : "efficient";
    for (const auto& [name, figure] : p.attention)
      if (name == kernel) return figure;
    return p.attention.front().second;
  }
  const ir::ValueId out = node.outputs.empty() ? ir::kNone : node.outputs[0];
  const bool wide = out != ir::kNone && (graph.value(out).dtype == ir::DType::kF32 || graph.value(out).dtype == ir::DType::kF64);
  return wide && p.matmul_float32.low > 0 ? p.matmul_float32 : p.matmul;
}

/// A causal kernel leaves half of the products out.
bool isCausal(const ir::Node& node) {
  static const Symbol kCausal("is_causal");
  return ir::boolArg(node, kCausal, false);
}

struct Task {
  enum class Kind : std::uint8_t { kNothing, kKernel, kCollective, kBlocking } kind = Kind::kNothing;
  double flops = 0, bytes = 0;
  const Figure* flop_rate = nullptr;
  ir::MeshAxis axis = ir::MeshAxis::kSequence;
  bool attention = false, exchange = false;
  int steps = 0;              ///< latencies of a collective
  double ring_bytes = 0;      ///< keys and values that go round while this attention runs
};

class Timer {
 public:
  Timer(const ir::Graph& program, const passes::Settings& settings, const DeviceProfile& profile, const StepExtras& extras)
      : g_(program), settings_(settings), profile_(profile), extras_(extras) {
    makeTasks();
    if (extras_.gathers_layers) findGathers();
    if (extras_.replicas > 1)
      for (const ir::Output& output : g_.outputs)
        if (output.kind == ir::OutputKind::kGradient && output.value != ir::kNone) {
          const ir::Value& v = g_.value(output.value);
          if (v.producer != ir::kNone) summed_[v.producer] += static_cast<double>(v.localBytes()) * (extras_.replicas - 1) / extras_.replicas;
        }
    for (const Checkpoint& c : extras_.offloaded)
      if (c.back > c.gone) leaving_[c.made].push_back(&c), by_return_.push_back(&c);
    for (const auto& [begin, again] : extras_.tiled.again) again_[begin].push_back(again);
    std::stable_sort(by_return_.begin(), by_return_.end(), [](const Checkpoint* a, const Checkpoint* b) { return a->back < b->back; });
  }

  StepTime run() {
    StepTime out;
    out.low = step(1, nullptr);
    out.high = step(0, nullptr);
    out.middle = step(0.5, &out);
    return out;
  }

 private:
  int sizeOf(ir::MeshAxis axis) const { return ir::axisSize(g_.mesh, axis) * (axis == ir::MeshAxis::kAll ? std::max(1, extras_.replicas) : 1); }
  /// Ranks of a group that are on one node: consecutive ones, the sequence axis innermost.
  int onNode(ir::MeshAxis axis) const {
    const int node = std::max(1, extras_.gpus_per_node);
    const int sp = sizeOf(ir::MeshAxis::kSequence);
    const int size = sizeOf(axis);
    if (axis == ir::MeshAxis::kData) return std::clamp(node / std::max(1, sp), 1, size);
    return std::min(size, node);
  }

  void makeTasks() {
    tasks_.resize(g_.order.size());
    for (std::size_t i = 0; i < g_.order.size(); ++i) {
      const ir::Node& node = g_.node(g_.order[i]);
      Task& task = tasks_[i];
      if (ir::isCollective(node.op)) {
        task.kind = ir::isStart(node.op) ? Task::Kind::kCollective : Task::Kind::kBlocking;
        const Symbol plain = ir::isStart(node.op) ? ir::plainOf(node.op) : node.op;
        task.axis = ir::axisOf(node);
        task.bytes = static_cast<double>(passes::sentBytes(g_, node));
        task.exchange = plain == ir::sp::kAllToAll;
        const int depth = static_cast<int>(std::bit_width(static_cast<unsigned>(std::max(1, sizeOf(task.axis)) - 1)));
        task.steps = task.exchange ? 1 : plain == ir::sp::kAllReduce ? 2 * depth : depth;
        continue;
      }
      const passes::OpCost cost = passes::costOf(g_, node, passes::DeviceRates{});
      if (cost.bytes == 0 && cost.flops == 0) continue;
      task.kind = Task::Kind::kKernel;
      task.flops = static_cast<double>(cost.flops);
      task.bytes = static_cast<double>(cost.bytes);
      task.flop_rate = &flopRate(g_, node, profile_);
      task.attention = ir::isAttention(node.op);
      if (task.attention && isCausal(node)) task.flops /= 2;
      if (task.attention && extras_.ring) task.ring_bytes = ringBytes(node);
    }
  }

  /// Of one attention: what a rank sends while the blocks of keys and values of all others pass by. The program has whole keys
  /// of a part of the heads; of the ring's each rank has its part of the keys of all heads, as many elements. The backward
  /// sends their gradients along.
  double ringBytes(const ir::Node& node) const {
    double bytes = 0;
    for (const char* name : {"key", "value"})
      if (const ir::ValueId v = ir::useArg(node, Symbol(name)); v != ir::kNone) bytes += static_cast<double>(g_.value(v).localBytes());
    return bytes * (sizeOf(ir::MeshAxis::kSequence) - 1) * (ir::baseName(node.op).find("backward") != std::string_view::npos ? 2 : 1);
  }

  /// The layers that each node needs first, in the forward and in the backward.
  void findGathers() {
    const int ranks = sizeOf(ir::MeshAxis::kAll);
    std::map<std::string, std::int32_t, std::less<>> groups;
    std::vector<std::int32_t> group_of(g_.valueCount(), -1);
    for (const ir::Input& input : g_.inputs) {
      if (!input.trainable || input.value == ir::kNone) continue;
      const std::string layer(ir::layerOf(input.name));
      const auto [entry, fresh] = groups.try_emplace(layer.empty() ? input.name : layer, static_cast<std::int32_t>(groups.size()));
      if (fresh) gather_bytes_.push_back(0);
      gather_bytes_[at(entry->second)] += static_cast<double>(g_.value(input.value).localBytes()) * (ranks - 1) / ranks;
      group_of[at(input.value)] = entry->second;
    }
    needs_.assign(g_.order.size(), {});
    for (const bool forward : {true, false}) {
      std::vector<bool> met(gather_bytes_.size(), false);
      for (std::size_t i = 0; i < g_.order.size(); ++i) {
        const ir::Node& node = g_.node(g_.order[i]);
        if ((node.phase == ir::Phase::kForward) != forward || tasks_[i].kind == Task::Kind::kNothing) continue;
        ir::forEachUse(node, [&](const ir::Use& use) {
          const ir::Value& v = g_.value(use.value);
          const std::int32_t group = group_of[at(v.storage == ir::kNone ? v.id : v.storage)];
          if (group < 0 || met[at(group)]) return;
          met[at(group)] = true;
          needs_[i].push_back(static_cast<std::int32_t>(gathers_.size()));
          gathers_.push_back(group);
        });
      }
    }
  }

  double collectiveNs(const Rates& r, ir::MeshAxis axis, double bytes, bool exchange, int steps) const {
    const int size = sizeOf(axis), near = onNode(axis);
    if (size < 2) return 0;
    const bool far = near < size && profile_.network_link.low > 0;
    const double latency = steps * r.delay(far ? profile_.network_latency : profile_.node_latency);
    const double node = r.link(profile_.node_link), network = far ? r.link(profile_.network_link) : 0;
    if (!far) return latency + bytes / node;
    if (!exchange) return latency + bytes / std::min(node, network);  // a ring is as fast as its slowest link
    const double away = static_cast<double>(size - near) / (size - 1);
    return latency + std::max(bytes * away / network, bytes * (1 - away) / node);
  }

  double kernelNs(const Rates& r, const Task& t) const {
    double flops = t.flops;
    // Without a balanced order the last rank of a causal ring sees no block that it may leave out.
    if (t.ring_bytes > 0) flops *= 2 - r.good();
    double ns = std::max(flops / r.rate(*t.flop_rate), t.bytes / r.rate(profile_.memory));
    if (t.ring_bytes > 0) ns = std::max(ns, collectiveNs(r, ir::MeshAxis::kSequence, t.ring_bytes, false, sizeOf(ir::MeshAxis::kSequence) - 1));
    return ns + r.delay(profile_.launch);
  }

  /// A node of a tiled MLP computes as much as before, but is started once a tile.
  double tileLaunches(const Rates& r, std::size_t place) const {
    return extras_.tiled.ran.empty() ? 0 : (extras_.tiled.ran[place] - 1) * r.delay(profile_.launch);
  }

  double step(double good, StepTime* detail) {
    // Ranks of a machine whose memory they share also share its cores.
    const Rates r(profile_, good, profile_.shared ? std::min(sizeOf(ir::MeshAxis::kAll), std::max(1, extras_.gpus_per_node)) : 1);
    std::vector<double> ready(g_.valueCount(), 0);
    std::vector<double> gathered(gathers_.size(), 0);
    std::map<const Checkpoint*, double> on_host, returned;
    std::size_t issued = 0, fetched = 0;
    double compute = 0, network = 0, out_copy = 0, in_copy = 0, busy = 0, talking = 0, exposed = 0;
    const auto communicate = [&](double from, double ns) {
      network = std::max(network, from) + ns;
      talking += ns;
      return network;
    };
    const auto gather = [&] {
      gathered[issued] = communicate(compute, collectiveNs(r, ir::MeshAxis::kAll, gather_bytes_[at(gathers_[issued])], false, 1));
      ++issued;
    };
    for (std::size_t i = 0; i < g_.order.size(); ++i) {
      const ir::Node& node = g_.node(g_.order[i]);
      const Task& task = tasks_[i];
      double from = 0;
      ir::forEachUse(node, [&](const ir::Use& use) { from = std::max(from, ready[at(use.value)]); });
      if (!needs_.empty())
        for (const std::int32_t need : needs_[i]) {  // this layer's at the latest now, and the next one's behind it
          while (issued < gathers_.size() && issued <= at(need) + 1) gather();
          from = std::max(from, gathered[at(need)]);
        }
      while (fetched < by_return_.size() && by_return_[fetched]->back <= static_cast<std::int32_t>(i)) {
        const Checkpoint* c = by_return_[fetched++];
        in_copy = std::max({in_copy, compute, on_host[c]}) + static_cast<double>(c->bytes) / r.link(profile_.host_link);
        returned[c] = in_copy;
        waiting_[c->first_backward] = std::max(waiting_[c->first_backward], in_copy);
      }
      if (const auto more = again_.find(static_cast<std::int32_t>(i)); more != again_.end())
        for (const std::int32_t place : more->second) {
          if (tasks_[at(place)].kind != Task::Kind::kKernel) continue;
          const double ns = kernelNs(r, tasks_[at(place)]) + tileLaunches(r, at(place));
          busy += ns;
          compute += ns;
        }
      if (const auto wait = waiting_.find(static_cast<std::int32_t>(i)); wait != waiting_.end()) from = std::max(from, wait->second);
      double end = std::max(compute, from);
      if (task.kind == Task::Kind::kCollective || task.kind == Task::Kind::kBlocking) {
        if (!(extras_.ring && task.exchange)) {
          const double done = communicate(std::max(compute, from), collectiveNs(r, task.axis, task.bytes, task.exchange, task.steps));
          if (task.kind == Task::Kind::kBlocking) exposed += done - compute, compute = done;
          end = done;
        }
      } else if (task.kind == Task::Kind::kKernel) {
        exposed += std::max(0.0, from - compute);
        const double ns = kernelNs(r, task) + tileLaunches(r, i);
        busy += ns;
        compute = end = std::max(compute, from) + ns;
      } else {
        end = from;  // views, and waits: whoever reads their results waits
      }
      for (const ir::ValueId out : node.outputs)
        if (out != ir::kNone) ready[at(out)] = end;
      if (const auto sum = summed_.find(node.id); sum != summed_.end()) communicate(end, collectiveNs(r, ir::MeshAxis::kAll, sum->second, false, 1));
      if (const auto leaves = leaving_.find(static_cast<std::int32_t>(i)); leaves != leaving_.end())
        for (const Checkpoint* c : leaves->second) on_host[c] = out_copy = std::max(out_copy, end) + static_cast<double>(c->bytes) / r.link(profile_.host_link);
    }
    waiting_.clear();
    const double batch_end = std::max(compute, network);
    exposed += std::max(0.0, network - compute);
    double ns = batch_end * std::max(1, settings_.accumulate);
    exposed *= std::max(1, settings_.accumulate);
    double update = updateBytes() / r.rate(profile_.memory);
    // States come and go at once at best, one after the other at worst.
    if (extras_.passing_states > 0) update = std::max(update, static_cast<double>(extras_.passing_states) * (2 - r.good()) / r.link(profile_.host_link));
    ns += update;
    double spread = 0;  // the updated parameters, from whoever has them
    if (settings_.zero != 0 && settings_.ranks() > 1 && !extras_.gathers_layers)
      spread = collectiveNs(r, ir::MeshAxis::kAll, parameterBytes() * (settings_.ranks() - 1) / settings_.ranks(), false, 1);
    if (detail != nullptr) {
      detail->compute = busy * std::max(1, settings_.accumulate) + update;
      detail->communication = talking * std::max(1, settings_.accumulate) + spread;
      detail->exposed = exposed + spread;
    }
    return ns + spread;
  }

  double parameterBytes() const {
    double bytes = 0;
    for (const ir::Input& input : g_.inputs)
      if (input.trainable && input.value != ir::kNone) bytes += static_cast<double>(g_.value(input.value).localBytes());
    return bytes;
  }
  /// Read and written by the optimizer: its states both, parameters and gradients too.
  double updateBytes() const {
    const double states = static_cast<double>(passes::optimizerBytes(g_, passes::livenessOptions(settings_, nullptr)));
    const int shares = std::max(1, extras_.replicas);
    return 2 * states / shares + 3 * parameterBytes() / (settings_.zero != 0 ? settings_.ranks() : shares);
  }

  const ir::Graph& g_;
  const passes::Settings& settings_;
  const DeviceProfile& profile_;
  const StepExtras& extras_;
  std::vector<Task> tasks_;                       ///< by place in the order
  std::vector<double> gather_bytes_;              ///< by layer
  std::vector<std::int32_t> gathers_;             ///< layers, in the order in which they are gathered
  std::vector<std::vector<std::int32_t>> needs_;  ///< by place: into gathers_
  std::map<std::int32_t, std::vector<const Checkpoint*>> leaving_;  ///< by the place that makes them
  std::vector<const Checkpoint*> by_return_;
  std::map<std::int32_t, std::vector<std::int32_t>> again_;         ///< by place: forward nodes that run once more before it
  std::map<ir::NodeId, double> summed_;           ///< bytes of the gradients that a node makes, where replicas are modelled
  std::map<std::int32_t, double> waiting_;        ///< by place: when what it reads is back from the host
};

}  // namespace

StepTime estimateStep(const ir::Graph& program, const passes::Settings& settings, const DeviceProfile& profile, const StepExtras& extras) {
  return Timer(program, settings, profile, extras).run();
}

std::string timeText(const StepTime& t) {
  const double unit = t.high < 1e6 ? 1e3 : t.high < 1e9 ? 1e6 : 1e9;
  return strf("%.3g %s (%.3g to %.3g)", t.middle / unit, unit == 1e9 ? "s" : unit == 1e6 ? "ms" : "us", t.low / unit, t.high / unit);
}

}  // namespace spscope::session
