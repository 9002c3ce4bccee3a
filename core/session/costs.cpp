// SPDX-License-Identifier: Apache-2.0
#include "core/session/costs.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/base/strings.h"
#include "core/ir/hash.h"
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
  const auto property = [&](const char* name) {
    const auto it = t.properties.find(name);
    return it == t.properties.end() ? std::string() : it->second;
  };
  out.plan_hash = property("plan_hash");
  out.graph_hash = property("graph_hash");

  // Equal nodes of ranks with different programs are rows of their own in the trace: here they are one.
  std::unordered_map<std::int64_t, HotNode> by_id;
  std::int64_t total = 0;
  for (const trace::NodeTime& row : trace::timeByNode(t, trace::classifyWork(t))) {
    if (row.node == trace::kNoIndex || row.count == 0) continue;
    const trace::GraphNode& n = t.nodes[static_cast<std::size_t>(row.node)];
    if (n.id == trace::kUnknown) continue;
    HotNode& hot = by_id[n.id];
    hot.node = static_cast<ir::NodeId>(n.id);
    hot.name = t.strings.text(n.name);
    hot.op = t.strings.text(n.op);
    hot.stage = t.strings.text(n.stage);
    hot.source = t.strings.text(n.source);
    hot.module = t.strings.text(n.module);
    hot.measured_ns += row.total_ns;
    hot.runs += row.count;
    hot.flops = std::max<std::int64_t>(hot.flops, n.flops);  // kUnknown is below 0
    total += row.total_ns;
  }
  if (by_id.empty())
    return makeError("trace-without-nodes", "no event of " + join(paths, ", ") + " names a node of a graph: only `run --profile` records that");
  for (auto& [id, hot] : by_id) {
    hot.share = total > 0 ? static_cast<double>(hot.measured_ns) / static_cast<double>(total) : 0;
    out.executions += hot.runs;
    hot.measured_ns /= hot.runs;
    out.nodes.push_back(std::move(hot));
  }
  std::sort(out.nodes.begin(), out.nodes.end(), [](const HotNode& a, const HotNode& b) {
    return a.share != b.share ? a.share > b.share : a.node < b.node;
  });
  return out;
}

Status joinCosts(MeasuredCosts& costs, const ir::Graph& program, const passes::Compiled& compiled, const passes::Settings& settings, DiagnosticSink& diagnostics) {
  // The same nodes of the same shapes: only then do the program's flops and bytes belong to the trace's times.
  const bool same = costs.graph_hash.empty() ? !costs.plan_hash.empty() && costs.plan_hash == compiled.plan_hash
                                             : costs.graph_hash == ir::planHash(*compiled.planned);
  std::unordered_map<std::string_view, ir::NodeId> by_name;
  for (const ir::NodeId id : program.order) by_name.emplace(program.node(id).name, id);
  const std::vector<std::int32_t> place = ir::positionsOf(program);
  const auto find = [&](const HotNode& hot) -> const ir::Node* {
    ir::NodeId id = ir::kNone;
    if (const std::string_view name = hot.name; !name.empty()) {
      const auto it = by_name.find(name.starts_with('%') ? name.substr(1) : name);
      if (it != by_name.end()) id = it->second;
    } else if (hot.node >= 0 && static_cast<std::size_t>(hot.node) < place.size() && place[static_cast<std::size_t>(hot.node)] != ir::kNone) {
      id = hot.node;
    }
    return id != ir::kNone && program.node(id).op.str() == hot.op ? &program.node(id) : nullptr;
  };
  const passes::DeviceRates rates = passes::ratesOf(settings);
  struct Sum {
    double amount = 0, ns = 0;
    double rate() const { return ns > 0 ? amount / ns : 0; }
  } flops, bytes;
  costs.joined_share = 0;
  for (HotNode& hot : costs.nodes) {
    const ir::Node* node = find(hot);
    const passes::OpCost cost = node != nullptr ? passes::costOf(program, *node, rates) : passes::OpCost();
    if (node != nullptr) {
      hot.node = node->id;
      costs.joined_share += hot.share;
      if (same) hot.predicted_ns = cost.ns;
    }
    const double runs = static_cast<double>(hot.runs), ns = runs * static_cast<double>(hot.measured_ns);
    const std::int64_t node_flops = hot.flops > 0 ? hot.flops : same ? cost.flops : 0;
    if (node_flops > 0 && ns > 0) flops.amount += runs * static_cast<double>(node_flops), flops.ns += ns;
    if (!same || node_flops > 0 || cost.bytes == 0 || ir::isCollective(node->op)) continue;
    bytes.amount += runs * static_cast<double>(cost.bytes), bytes.ns += ns;
  }
  if (costs.joined_share < 0.5) {
    Error error = makeError("costs-other-model", strf("%s: only %.0f%% of the time in its nodes belongs to nodes of this program", join(costs.paths, ", ").c_str(), 100 * costs.joined_share));
    error.legal = "a trace of run --profile with this model";
    return error;
  }
  costs.flops_per_ns = flops.rate();
  costs.bytes_per_ns = bytes.rate();
  if (!same)
    diagnostics.warn("costs-other-plan", costs.graph_hash.empty() && costs.plan_hash.empty()
                         ? "the trace does not say of which plan it is: times are shown with the nodes of the same name and op, and nothing is taken for measured but flops that stand in the trace"
                         : "the trace is of another length, precision or number of ranks than this compilation: times are shown with the nodes of the same name and op, and nothing is taken for measured but flops that stand in the trace",
                     {}, {}, "Record it again with the same model and settings.");
  return {};
}

}  // namespace spscope::session
