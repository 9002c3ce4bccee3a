// SPDX-License-Identifier: Apache-2.0
#include "core/session/costs.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/strings.h"
#include "passes/memory/op_cost.h"
#include "profiler/analyze/nodes.h"
#include "profiler/import/import.h"

namespace spscope::session {

Result<MeasuredCosts> measureCosts(const std::vector<std::string>& paths, const Request& request) {
  trace::ImportOptions options;
  options.progress = request.progress;
  options.cancel = request.cancel;
  SP_ASSIGN(const trace::Trace t, trace::importTraces(paths, options));
  MeasuredCosts out;
  out.paths = paths;
  if (const auto it = t.properties.find("plan_hash"); it != t.properties.end()) out.plan_hash = it->second;

  // Equal nodes of ranks with different programs are rows of their own in the trace: here they are one.
  std::unordered_map<std::int64_t, std::pair<HotNode, std::int64_t>> by_id;
  std::int64_t total = 0;
  double contraction_flops = 0, contraction_ns = 0;
  for (const trace::NodeTime& row : trace::timeByNode(t, trace::classifyWork(t))) {
    if (row.node == trace::kNoIndex || row.count == 0) continue;
    const trace::GraphNode& n = t.nodes[static_cast<std::size_t>(row.node)];
    if (n.id == trace::kUnknown) continue;
    auto& [hot, count] = by_id[n.id];
    hot.node = static_cast<ir::NodeId>(n.id);
    hot.name = t.strings.text(n.name);
    hot.op = t.strings.text(n.op);
    hot.stage = t.strings.text(n.stage);
    hot.source = t.strings.text(n.source);
    hot.module = t.strings.text(n.module);
    hot.measured_ns += row.total_ns;
    count += row.count;
    total += row.total_ns;
    if (n.flops > 0 && row.total_ns > 0) {
      contraction_flops += static_cast<double>(n.flops) * static_cast<double>(row.count);
      contraction_ns += static_cast<double>(row.total_ns);
    }
  }
  if (by_id.empty())
    return makeError("trace-without-nodes", "no event of " + join(paths, ", ") + " names a node of a graph: only `run --profile` records that");
  for (auto& [id, row] : by_id) {
    auto& [hot, count] = row;
    hot.share = total > 0 ? static_cast<double>(hot.measured_ns) / static_cast<double>(total) : 0;
    out.executions += count;
    hot.measured_ns /= count;
    out.nodes.push_back(hot);
  }
  std::sort(out.nodes.begin(), out.nodes.end(), [](const HotNode& a, const HotNode& b) {
    return a.share != b.share ? a.share > b.share : a.node < b.node;
  });
  if (contraction_ns > 0) out.flops_per_ns = contraction_flops / contraction_ns;
  return out;
}

void joinCosts(MeasuredCosts& costs, const ir::Graph& program, const std::string& plan_hash, const passes::Settings& settings, DiagnosticSink& diagnostics) {
  if (!costs.plan_hash.empty() && costs.plan_hash != plan_hash)
    diagnostics.warn("costs-other-plan", "the trace is of another plan than this compilation: nodes are joined by their ids all the same", {}, {},
                     "Record it again with the same model and settings.");
  const passes::DeviceRates rates = passes::ratesOf(settings);
  const std::vector<std::int32_t> place = ir::positionsOf(program);
  double bytes = 0, ns = 0;
  for (HotNode& hot : costs.nodes) {
    if (hot.node < 0 || static_cast<std::size_t>(hot.node) >= place.size() || place[static_cast<std::size_t>(hot.node)] == ir::kNone) continue;
    const ir::Node& node = program.node(hot.node);
    if (node.op.str() != hot.op) continue;
    const passes::OpCost cost = passes::costOf(program, node, rates);
    hot.predicted_ns = cost.ns;
    if (cost.flops != 0 || cost.bytes == 0 || ir::isCollective(node.op)) continue;
    bytes += static_cast<double>(cost.bytes);
    ns += static_cast<double>(hot.measured_ns);
  }
  if (ns > 0) costs.bytes_per_ns = bytes / ns;
}

}  // namespace spscope::session
