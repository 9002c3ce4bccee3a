// SPDX-License-Identifier: Apache-2.0
#include "core/session/plan/offload.h"

#include <algorithm>

#include "passes/memory/layers.h"

namespace spscope::session {
namespace {

ir::ValueId rootOf(const ir::Graph& graph, ir::ValueId value) {
  const ir::Value& v = graph.value(value);
  return v.storage == ir::kNone ? value : v.storage;
}

}  // namespace

std::vector<Checkpoint> findCheckpoints(const ir::Graph& program) {
  struct Seen {
    std::int32_t made = -1, last_forward = -1, first_backward = -1;
  };
  std::vector<Seen> seen(program.valueCount());
  for (std::size_t i = 0; i < program.order.size(); ++i) {
    const ir::Node& node = program.node(program.order[i]);
    const auto place = static_cast<std::int32_t>(i);
    const bool forward = node.phase == ir::Phase::kForward;
    ir::forEachUse(node, [&](const ir::Use& use) {
      Seen& s = seen[static_cast<std::size_t>(rootOf(program, use.value))];
      if (forward) s.last_forward = place;
      if (!forward && s.first_backward < 0) s.first_backward = place;
    });
    for (const ir::ValueId out : node.outputs)
      if (out != ir::kNone) seen[static_cast<std::size_t>(out)].made = seen[static_cast<std::size_t>(out)].last_forward = place;
  }
  std::vector<Checkpoint> out;
  for (const passes::HandedOn& what : passes::findHandedOn(program, passes::findLayers(program))) {
    const Seen& s = seen[static_cast<std::size_t>(what.base)];
    if (what.to == 0 || what.shared || s.first_backward < 0) continue;  // a table that many read is no checkpoint
    Checkpoint c;
    c.base = what.base;
    c.bytes = std::max(program.value(what.base).storage_bytes, program.value(what.base).localBytes());
    c.made = s.made;
    c.gone = s.last_forward + 1;
    c.first_backward = s.first_backward;
    out.push_back(c);
  }
  std::vector<std::size_t> backward(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) backward[i] = i;
  std::stable_sort(backward.begin(), backward.end(), [&](std::size_t a, std::size_t b) { return out[a].first_backward < out[b].first_backward; });
  for (std::size_t k = 0; k < backward.size(); ++k) {
    Checkpoint& c = out[backward[k]];
    if (backward[k] + 1 < out.size()) c.gone = std::max(c.gone, out[backward[k] + 1].made + 1);
    c.back = k == 0 ? c.gone : std::max(c.gone, out[backward[k - 1]].first_backward);
  }
  return out;
}

HostBytes moveToHost(const std::vector<Checkpoint>& checkpoints, std::vector<std::int64_t>& live) {
  HostBytes host;
  for (const Checkpoint& c : checkpoints) {
    if (c.back <= c.gone) continue;
    host.add(c.bytes);
    for (auto i = static_cast<std::size_t>(c.gone); i < static_cast<std::size_t>(c.back) && i < live.size(); ++i) live[i] -= c.bytes;
  }
  return host;
}

}  // namespace spscope::session
