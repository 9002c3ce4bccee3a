// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/liveness.h"

#include <algorithm>
#include <numeric>

#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"
#include "passes/memory/replay_plan.h"
#include "passes/memory/resident.h"
#include "passes/pass.h"

namespace spscope::passes {
namespace {

/// No dimension before `dim` has more than one element: the blocks of `dim` lie one after the other in memory.
bool outermost(const ir::Dims& shape, std::int64_t dim) {
  for (std::int64_t d = 0; d < dim; ++d)
    if (shape[static_cast<std::size_t>(d)] != 1) return false;
  return true;
}

std::int64_t dimOf(const ir::Node& node, Symbol name, std::size_t rank) {
  const std::int64_t dim = ir::intArg(node, name, 0);
  return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
}

}  // namespace

std::string_view memoryClassName(MemoryClass memory_class) {
  static constexpr std::array<std::string_view, kMemoryClasses> kNames = {
      "parameters", "gradients", "optimizer", "activations", "temporaries", "communication", "workspace"};
  return kNames[static_cast<std::size_t>(memory_class)];
}

std::int64_t packingBytes(const ir::Graph& graph, const ir::Node& node) {
  static const Symbol kSelf{"self"}, kDim{"dim"}, kGatherDim{"gather_dim"}, kScatterDim{"scatter_dim"};
  // all_reduce reduces in place in its result, which is a copy of the operand: nothing beyond it.
  // The buffers of a started collective are values of the graph.
  if (!ir::isCollective(node.op) || node.op == ir::sp::kAllReduce || ir::isStart(node.op) || node.outputs.empty()) return 0;
  const ir::ValueId self = ir::useArg(node, kSelf);
  if (self == ir::kNone || node.outputs[0] == ir::kNone) return 0;
  const ir::Value& in = graph.value(self);
  const ir::Value& out = graph.value(node.outputs[0]);
  std::int64_t send = 0, receive = 0;
  if (node.op == ir::sp::kAllToAll || node.op == ir::sp::kReduceScatter) {
    const Symbol name = node.op == ir::sp::kAllToAll ? kScatterDim : kDim;
    if (!outermost(in.local, dimOf(node, name, in.local.size()))) send = in.localBytes();
  }
  if (node.op == ir::sp::kAllToAll || node.op == ir::sp::kAllGather) {
    const Symbol name = node.op == ir::sp::kAllToAll ? kGatherDim : kDim;
    if (!outermost(out.local, dimOf(node, name, out.local.size()))) receive = out.localBytes();
  }
  // The send buffer is gone before the result is unpacked from the receive buffer: send + receive, then receive + result.
  return std::max(send, receive);
}

std::vector<std::int64_t> accumulators(const ir::Graph& graph, int accumulate) {
  std::vector<std::int64_t> out;
  if (accumulate < 2) return out;
  for (const ir::Output& output : graph.outputs)
    if (output.kind == ir::OutputKind::kGradient && output.value != ir::kNone)
      out.push_back(ir::numel(graph.value(output.value).local) * std::max<std::int64_t>(4, ir::sizeOf(graph.value(output.value).dtype)));
  return out;
}

std::vector<std::int64_t> optimizerStates(const ir::Graph& graph, const LivenessOptions& options) {
  const int moments = options.optimizer == "adamw" ? 2 : 0;
  const int ranks = ir::axisSize(graph.mesh, ir::MeshAxis::kAll);
  std::vector<std::int64_t> out;
  for (const ir::Input& input : graph.inputs) {
    if (!input.trainable || input.value == ir::kNone) continue;
    const ir::Value& v = graph.value(input.value);
    const std::int64_t whole = ir::numel(v.local);
    const std::int64_t mine = options.zero == 0 ? whole : ir::shardBlocks(whole, ranks)[static_cast<std::size_t>(graph.rank)];
    const bool master = options.master_weights && (v.dtype == ir::DType::kBF16 || v.dtype == ir::DType::kF16);
    out.insert(out.end(), static_cast<std::size_t>(moments + (master ? 1 : 0)), mine * ir::sizeOf(master ? ir::DType::kF32 : v.dtype));
  }
  return out;
}

std::int64_t accumulatorBytes(const ir::Graph& graph, int accumulate) {
  const std::vector<std::int64_t> sums = accumulators(graph, accumulate);
  return std::accumulate(sums.begin(), sums.end(), std::int64_t{0});
}

std::int64_t optimizerBytes(const ir::Graph& graph, const LivenessOptions& options) {
  const std::vector<std::int64_t> states = optimizerStates(graph, options);
  return std::accumulate(states.begin(), states.end(), std::int64_t{0});
}

LivenessOptions livenessOptions(const Settings& settings, const ir::OpServices* services) {
  LivenessOptions options;
  options.services = services;
  options.device = settings.device;
  options.threads = settings.threads;
  options.optimizer = settings.optimizer;
  options.zero = settings.zero;
  options.master_weights = settings.master_weights;
  options.accumulate = settings.accumulate;
  return options;
}

MemoryCurve predictMemory(const ir::Graph& graph, const LivenessOptions& options) {
  return curveInOrder(StepModel(graph, options, nominalRates("cpu")), graph.order, false);
}

}  // namespace spscope::passes
