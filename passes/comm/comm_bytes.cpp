// SPDX-License-Identifier: Apache-2.0
#include "passes/comm/comm_bytes.h"

#include <map>

#include "core/ir/mesh_axis.h"
#include "core/ir/pending.h"
#include "core/ir/sp_ops.h"

namespace spscope::passes {

std::int64_t sentBytes(const ir::Graph& graph, const ir::Node& node) {
  if (!ir::isCollective(node.op)) return 0;
  const ir::MeshAxis axis = ir::axisOf(node);
  const std::int64_t ranks = ir::axisSize(graph.mesh, axis);
  if (ir::isStart(node.op)) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < ir::partCount(node); ++i) bytes += sentBytes(graph, ir::partOf(graph, node, i));
    return bytes;
  }
  const ir::ValueId in = ir::useArg(node, "self");
  if (ranks < 2 || in == ir::kNone || node.outputs.empty() || node.outputs[0] == ir::kNone) return 0;
  const std::int64_t element = ir::sizeOf(graph.value(in).dtype);
  const std::int64_t operand = ir::numel(graph.value(in).local);
  const std::int64_t result = ir::numel(graph.value(node.outputs[0]).local);
  const auto ring = [&](std::int64_t n) { return n * element / ranks * (ranks - 1) + n * element % ranks * (ranks - 1) / ranks; };
  if (node.op == ir::sp::kAllReduce) return 2 * ring(operand);
  if (node.op == ir::sp::kReduceScatter) return ring(operand);
  if (node.op == ir::sp::kAllGather) return ring(result);
  // all_to_all: this rank keeps its own block of the scattered dimension and sends all others.
  const auto blocks = ir::intListArg(node, "scatter_blocks");
  if (!blocks || blocks->size() != static_cast<std::size_t>(ranks)) return 0;
  std::int64_t whole = 0;
  for (std::int64_t b : *blocks) whole += b;
  if (whole == 0) return 0;
  return operand / whole * (whole - (*blocks)[static_cast<std::size_t>(ir::axisRank(graph.mesh, graph.rank, axis))]) * element;
}

std::vector<CollectiveTotal> collectiveTotals(const ir::Graph& graph, bool fused) {
  std::map<std::string, CollectiveTotal> by_kind;
  if (graph.form != ir::Form::kLocal && graph.form != ir::Form::kJoint) return {};
  for (ir::NodeId id : graph.order) {
    const ir::Node& n = graph.node(id);
    if (!ir::isCollective(n.op)) continue;
    const bool start = ir::isStart(n.op);
    CollectiveTotal& total = by_kind[std::string(ir::baseName(start ? ir::plainOf(n.op) : n.op))];
    total.count += start && !fused ? static_cast<std::int64_t>(ir::partCount(n)) : 1;
    total.bytes += sentBytes(graph, n);
  }
  std::vector<CollectiveTotal> out;
  for (auto& [kind, total] : by_kind) {
    total.kind = kind;
    out.push_back(std::move(total));
  }
  return out;
}

std::int64_t totalSentBytes(const ir::Graph& graph) {
  std::int64_t bytes = 0;
  for (const CollectiveTotal& total : collectiveTotals(graph)) bytes += total.bytes;
  return bytes;
}

}  // namespace spscope::passes
