// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/min_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <queue>

// g++ 12 sees an uninitialised optional inside Boost's edge iterator; it is assigned before any use.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spscope::passes {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

struct VertexData {
  boost::default_color_type color = boost::white_color;
  std::int64_t distance = 0;
  Traits::edge_descriptor predecessor;
};
struct EdgeData {
  std::int64_t capacity = 0;
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse;
};
using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexData, EdgeData>;

void connect(Network& network, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto forward = boost::add_edge(from, to, network).first;
  const auto back = boost::add_edge(to, from, network).first;
  network[forward].capacity = capacity;
  network[forward].reverse = back;
  network[back].reverse = forward;
}

/// Vertices that can still push to the sink: the smallest sink side, hence the least re-run among equal minima.
std::vector<bool> sinkSide(const Network& network, std::size_t sink) {
  std::vector<bool> reached(boost::num_vertices(network), false);
  std::queue<std::size_t> queue;
  reached[sink] = true;
  queue.push(sink);
  while (!queue.empty()) {
    const std::size_t v = queue.front();
    queue.pop();
    for (auto [edge, end] = boost::out_edges(v, network); edge != end; ++edge) {
      const std::size_t from = boost::target(*edge, network);
      if (reached[from] || network[network[*edge].reverse].residual <= 0) continue;
      reached[from] = true;
      queue.push(from);
    }
  }
  return reached;
}

}  // namespace

CutSolution solveCut(const CutProblem& problem, double price) {
  const std::size_t ops = problem.ops.size();
  const std::size_t storages = problem.storages.size();
  // Larger than any finite cut: keeping everything is one.
  std::int64_t infinite = 1;
  for (const auto& storage : problem.storages) infinite += storage.bytes;

  Network network(ops + storages + 2);
  const std::size_t source = ops + storages, sink = source + 1;
  for (std::size_t o = 0; o < ops; ++o) {
    const CutProblem::Op& op = problem.ops[o];
    const double priced = price * static_cast<double>(op.cost);
    const std::int64_t capacity = op.banned || priced >= static_cast<double>(infinite) ? infinite : std::llround(priced);
    connect(network, source, o, capacity);
    for (const std::int32_t s : op.writes) connect(network, o, ops + static_cast<std::size_t>(s), problem.storages[static_cast<std::size_t>(s)].bytes);
    for (const std::int32_t s : op.reads) connect(network, ops + static_cast<std::size_t>(s), o, infinite);
  }
  for (std::size_t s = 0; s < storages; ++s)
    if (problem.storages[s].needed) connect(network, ops + s, sink, infinite);

  boost::boykov_kolmogorov_max_flow(network, boost::get(&EdgeData::capacity, network), boost::get(&EdgeData::residual, network),
                                    boost::get(&EdgeData::reverse, network), boost::get(&VertexData::predecessor, network),
                                    boost::get(&VertexData::color, network), boost::get(&VertexData::distance, network),
                                    boost::get(boost::vertex_index, network), source, sink);

  const std::vector<bool> on_sink_side = sinkSide(network, sink);
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
