// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/flow_network.h"

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

/// Vertices that can still push to the sink.
std::vector<bool> reachesSink(const Network& network, std::size_t sink) {
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

void FlowNetwork::connect(std::size_t from, std::size_t to, double capacity) { edges_.push_back({from, to, capacity}); }

std::vector<bool> FlowNetwork::sinkSide(std::size_t source, std::size_t sink) const {
  constexpr double kMost = static_cast<double>(std::int64_t{1} << 60);
  double total = 0;
  for (const Edge& edge : edges_)
    if (std::isfinite(edge.capacity)) total += edge.capacity;
  const double scale = total < kMost ? 1 : kMost / total;
  std::int64_t infinite = 1;
  for (const Edge& edge : edges_)
    if (std::isfinite(edge.capacity)) infinite += std::llround(edge.capacity * scale);

  Network network(vertices_);
  for (const Edge& edge : edges_) {
    const auto forward = boost::add_edge(edge.from, edge.to, network).first;
    const auto back = boost::add_edge(edge.to, edge.from, network).first;
    network[forward].capacity = std::isfinite(edge.capacity) ? std::llround(edge.capacity * scale) : infinite;
    network[forward].reverse = back;
    network[back].reverse = forward;
  }
  boost::boykov_kolmogorov_max_flow(network, boost::get(&EdgeData::capacity, network), boost::get(&EdgeData::residual, network),
                                    boost::get(&EdgeData::reverse, network), boost::get(&VertexData::predecessor, network),
                                    boost::get(&VertexData::color, network), boost::get(&VertexData::distance, network),
                                    boost::get(boost::vertex_index, network), source, sink);
  return reachesSink(network, sink);
}

}  // namespace spscope::passes
