// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/position_table.h"

#include <algorithm>
#include <array>

#include "core/base/strings.h"

namespace spscope::session {
namespace {

/// Ops that hand positions on as they are, their own first operand.
bool handsOn(std::string_view base) {
  static constexpr std::array kOps = {"view", "reshape", "unsqueeze", "expand", "slice", "alias", "clone", "_to_copy", "to", "contiguous", "detach", "lift_fresh_copy"};
  return std::find(kOps.begin(), kOps.end(), base) != kOps.end();
}

/// The highest position that `indices` surely hold; -1 where nothing says.
std::int64_t highestPosition(const ir::Graph& graph, ir::ValueId indices) {
  for (int depth = 0; depth < 64 && indices != ir::kNone; ++depth) {
    const ir::Value& v = graph.value(indices);
    if (v.producer == ir::kNone) {
      const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const ir::Input& in) { return in.value == indices; });
      const bool positions = input != graph.inputs.end() && input->kind == ir::InputKind::kUser && input->name == "position_ids";
      return positions && !v.shape.empty() ? v.shape.back() - 1 : -1;
    }
    const ir::Node& node = graph.node(v.producer);
    const std::string_view base = ir::baseName(node.op);
    if (base == "arange") return ir::intArg(node, "end", 0) - 1;
    if (!handsOn(base)) return -1;
    indices = ir::useArg(node, "self");
  }
  return -1;
}

}  // namespace

std::optional<Error> shortPositionTable(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.node(id);
    if (ir::baseName(node.op) != "embedding") continue;
    const ir::ValueId table = ir::useArg(node, "weight");
    if (table == ir::kNone || graph.value(table).shape.empty()) continue;
    const std::int64_t rows = graph.value(table).shape[0], highest = highestPosition(graph, ir::useArg(node, "indices"));
    if (highest < rows) continue;
    Error e = makeError("position-table-short", strf("the table of positions %%%s has %lld rows: positions up to %lld would be out of range", graph.value(table).name.c_str(),
                                                     static_cast<long long>(rows), static_cast<long long>(highest)));
    e.legal = strf("up to %lld tokens", static_cast<long long>(rows));
    e.node = node.name;
    if (node.location) e.source = node.location->source;
    return e;
  }
  return std::nullopt;
}

}  // namespace spscope::session
