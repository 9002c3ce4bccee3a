// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/min_cut.h"

#include <algorithm>
#include <cmath>

#include "passes/memory/flow_network.h"

namespace spscope::passes {

CutSolution solveCut(const CutProblem& problem, double price) {
  const std::size_t ops = problem.ops.size();
  const std::size_t storages = problem.storages.size();
  // Keeping everything that may be kept costs less than this: what an op costs beyond it changes nothing.
  double ceiling = 1;
  for (const auto& storage : problem.storages) ceiling += static_cast<double>(storage.bytes);

  FlowNetwork network(ops + storages + 2);
  const std::size_t source = ops + storages, sink = source + 1;
  for (std::size_t o = 0; o < ops; ++o) {
    const CutProblem::Op& op = problem.ops[o];
    const bool forced = !op.banned && std::any_of(op.writes.begin(), op.writes.end(), [&](std::int32_t s) {
      return problem.storages[static_cast<std::size_t>(s)].never_kept;
    });
    // What must run again anyway, once anyone needs it, has no price.
    const double priced = forced ? 0 : std::min(price * static_cast<double>(op.cost), ceiling);
    network.connect(source, o, op.banned ? FlowNetwork::kInfinite : priced);
    for (const std::int32_t s : op.writes) {
      const CutProblem::Storage& storage = problem.storages[static_cast<std::size_t>(s)];
      const bool never_kept = storage.never_kept && !op.banned;
      network.connect(o, ops + static_cast<std::size_t>(s), never_kept ? FlowNetwork::kInfinite : static_cast<double>(storage.bytes));
    }
    for (const std::int32_t s : op.reads) network.connect(ops + static_cast<std::size_t>(s), o, FlowNetwork::kInfinite);
  }
  for (std::size_t s = 0; s < storages; ++s)
    if (problem.storages[s].needed) network.connect(ops + s, sink, FlowNetwork::kInfinite);

  const std::vector<bool> on_sink_side = network.sinkSide(source, sink);
  CutSolution solution;
  solution.kept.assign(storages, false);
  solution.remade.assign(storages, false);
  solution.rerun.assign(ops, false);
  for (std::size_t o = 0; o < ops; ++o) {
    solution.rerun[o] = on_sink_side[o];
    if (solution.rerun[o]) solution.cost += problem.ops[o].cost;
    for (const std::int32_t s : problem.ops[o].writes) {
      const auto storage = static_cast<std::size_t>(s);
      if (!on_sink_side[ops + storage]) continue;
      (solution.rerun[o] ? solution.remade : solution.kept)[storage] = true;
      if (!solution.rerun[o]) solution.bytes += problem.storages[storage].bytes;
    }
  }
  return solution;
}

}  // namespace spscope::passes
