// SPDX-License-Identifier: Apache-2.0
// A directed network with capacities, and its minimum cut: all that the memory policies need of Boost.Graph.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace spscope::passes {

class FlowNetwork {
 public:
  /// A capacity that no minimum cut contains as long as any finite cut exists.
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  /// Vertices are numbered 0 .. vertices-1.
  explicit FlowNetwork(std::size_t vertices) : vertices_(vertices) {}

  /// `capacity` >= 0, in any unit: finite ones are rounded to integers, and scaled down first where their sum would not
  /// fit 60 bits.
  void connect(std::size_t from, std::size_t to, double capacity);

  /// By vertex: does it lie on the sink's side of a minimum cut? Among several minima the one with the fewest vertices
  /// there, so the answer is unique.
  std::vector<bool> sinkSide(std::size_t source, std::size_t sink) const;

 private:
  struct Edge {
    std::size_t from, to;
    double capacity;
  };
  std::size_t vertices_;
  std::vector<Edge> edges_;
};

}  // namespace spscope::passes
