// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph/layered_layout.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace spscope::ui {
namespace {

/// Neighbour lists in one array.
class Adjacency {
 public:
  Adjacency(std::size_t nodes, const std::vector<LayoutEdge>& edges, bool downwards) : begin_(nodes + 1, 0), to_(edges.size()) {
    for (const LayoutEdge& e : edges) ++begin_[static_cast<std::size_t>(downwards ? e.from : e.to) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::int32_t> at(begin_.begin(), begin_.end() - 1);
    for (const LayoutEdge& e : edges) to_[static_cast<std::size_t>(at[static_cast<std::size_t>(downwards ? e.from : e.to)]++)] = downwards ? e.to : e.from;
  }
  const std::int32_t* begin(std::int32_t node) const { return to_.data() + begin_[static_cast<std::size_t>(node)]; }
  const std::int32_t* end(std::int32_t node) const { return to_.data() + begin_[static_cast<std::size_t>(node) + 1]; }
  std::int32_t degree(std::int32_t node) const { return static_cast<std::int32_t>(end(node) - begin(node)); }

 private:
  std::vector<std::int32_t> begin_, to_;
};

/// Edges that close a cycle on a depth-first walk, by edge. Iterative: chains may be 100,000 long.
std::vector<bool> closingEdges(std::size_t nodes, const std::vector<LayoutEdge>& edges) {
  std::vector<std::vector<std::int32_t>> out(nodes);
  for (std::size_t e = 0; e < edges.size(); ++e) out[static_cast<std::size_t>(edges[e].from)].push_back(static_cast<std::int32_t>(e));
  std::vector<bool> closing(edges.size(), false);
  std::vector<std::uint8_t> state(nodes, 0);  // 1: on the walk, 2: done
  std::vector<std::pair<std::int32_t, std::size_t>> walk;
  for (std::size_t root = 0; root < nodes; ++root) {
    if (state[root] != 0) continue;
    walk.emplace_back(static_cast<std::int32_t>(root), 0);
    state[root] = 1;
    while (!walk.empty()) {
      auto& [node, next] = walk.back();
      const auto& list = out[static_cast<std::size_t>(node)];
      if (next == list.size()) {
        state[static_cast<std::size_t>(node)] = 2;
        walk.pop_back();
        continue;
      }
      const std::int32_t edge = list[next++];
      const auto target = static_cast<std::size_t>(edges[static_cast<std::size_t>(edge)].to);
      if (state[target] == 1) {
        closing[static_cast<std::size_t>(edge)] = true;
      } else if (state[target] == 0) {
        state[target] = 1;
        walk.emplace_back(static_cast<std::int32_t>(target), 0);
      }
    }
  }
  return closing;
}

/// Longest path from the top; then boxes without operands go down to just above their first reader, so that constants do
/// not all stand in the first row.
std::vector<std::int32_t> assignRanks(std::size_t nodes, const std::vector<LayoutEdge>& edges) {
  const Adjacency down(nodes, edges, true), up(nodes, edges, false);
  std::vector<std::int32_t> rank(nodes, 0), missing(nodes);
  std::vector<std::int32_t> ready, order;
  for (std::size_t n = 0; n < nodes; ++n) {
    missing[n] = up.degree(static_cast<std::int32_t>(n));
    if (missing[n] == 0) ready.push_back(static_cast<std::int32_t>(n));
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::int32_t node = ready[i];
    for (const std::int32_t* t = down.begin(node); t != down.end(node); ++t) {
      rank[static_cast<std::size_t>(*t)] = std::max(rank[static_cast<std::size_t>(*t)], rank[static_cast<std::size_t>(node)] + 1);
      if (--missing[static_cast<std::size_t>(*t)] == 0) ready.push_back(*t);
    }
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    const auto node = static_cast<std::int32_t>(n);
    if (up.degree(node) != 0 || down.degree(node) == 0) continue;
    std::int32_t nearest = std::numeric_limits<std::int32_t>::max();
    for (const std::int32_t* t = down.begin(node); t != down.end(node); ++t) nearest = std::min(nearest, rank[static_cast<std::size_t>(*t)]);
    rank[n] = nearest - 1;
  }
  return rank;
}

/// Boxes and dummies in rows, with edges between neighbouring rows only.
struct Rows {
  std::vector<float> width;                       ///< by vertex
  std::vector<std::int32_t> row_of;
  std::vector<LayoutEdge> edges;                  ///< each one row down
  std::vector<std::vector<std::int32_t>> rows;    ///< vertices, left to right
};

void sortByBarycentre(std::vector<std::int32_t>& row, const Adjacency& neighbours, const std::vector<float>& place, std::vector<float>& key) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::int32_t v = row[i];
    if (neighbours.degree(v) == 0) {
      key[static_cast<std::size_t>(v)] = place[static_cast<std::size_t>(v)];  // stays about where it is
      continue;
    }
    float sum = 0;
    for (const std::int32_t* n = neighbours.begin(v); n != neighbours.end(v); ++n) sum += place[static_cast<std::size_t>(*n)];
    key[static_cast<std::size_t>(v)] = sum / static_cast<float>(neighbours.degree(v));
  }
  std::stable_sort(row.begin(), row.end(), [&](std::int32_t a, std::int32_t b) { return key[static_cast<std::size_t>(a)] < key[static_cast<std::size_t>(b)]; });
}

/// Places are relative (0..1), so that rows of different lengths compare.
void notePlaces(const std::vector<std::int32_t>& row, std::vector<float>& place) {
  const float scale = row.size() > 1 ? 1.0f / static_cast<float>(row.size() - 1) : 0.0f;
  for (std::size_t i = 0; i < row.size(); ++i) place[static_cast<std::size_t>(row[i])] = row.size() > 1 ? static_cast<float>(i) * scale : 0.5f;
}

void orderRows(Rows& r, const Adjacency& down, const Adjacency& up, int sweeps) {
  std::vector<float> place(r.width.size(), 0), key(r.width.size(), 0);
  for (const auto& row : r.rows) notePlaces(row, place);
  for (int s = 0; s < sweeps; ++s) {
    for (std::size_t i = 1; i < r.rows.size(); ++i) sortByBarycentre(r.rows[i], up, place, key), notePlaces(r.rows[i], place);
    for (std::size_t i = r.rows.size(); i-- > 1;) sortByBarycentre(r.rows[i - 1], down, place, key), notePlaces(r.rows[i - 1], place);
  }
}

/// Puts a row's vertices as near to where they want to be as their order and widths allow: least squares by pooling
/// adjacent violators.
void placeRow(const std::vector<std::int32_t>& row, const std::vector<float>& wanted, const std::vector<float>& width, const std::vector<float>& weight,
              float gap, std::vector<float>& centre) {
  struct Block {
    double sum = 0, weight = 0;
    std::size_t first = 0;
    double value() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  std::vector<double> offset(row.size(), 0);  // of each vertex from the row's first, when packed
  for (std::size_t i = 1; i < row.size(); ++i)
    offset[i] = offset[i - 1] + (static_cast<double>(width[static_cast<std::size_t>(row[i - 1])]) + static_cast<double>(width[static_cast<std::size_t>(row[i])])) / 2 + static_cast<double>(gap);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto v = static_cast<std::size_t>(row[i]);
    blocks.push_back({(static_cast<double>(wanted[v]) - offset[i]) * static_cast<double>(weight[v]), static_cast<double>(weight[v]), i});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].value() > blocks.back().value()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().weight += last.weight;
    }
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::size_t end = b + 1 < blocks.size() ? blocks[b + 1].first : row.size();
    for (std::size_t i = blocks[b].first; i < end; ++i) centre[static_cast<std::size_t>(row[i])] = static_cast<float>(blocks[b].value() + offset[i]);
  }
}

std::vector<float> placeColumns(const Rows& r, const Adjacency& down, const Adjacency& up, std::size_t boxes, const LayoutOptions& options) {
  std::vector<float> centre(r.width.size(), 0), wanted(r.width.size(), 0), weight(r.width.size(), 1);
  // Dummies pull harder: long edges become straight.
  for (std::size_t v = boxes; v < weight.size(); ++v) weight[v] = 4;
  for (const auto& row : r.rows) {
    float x = 0;
    for (const std::int32_t v : row) {
      wanted[static_cast<std::size_t>(v)] = x + r.width[static_cast<std::size_t>(v)] / 2;
      x += r.width[static_cast<std::size_t>(v)] + options.gap_x;
    }
    for (const std::int32_t v : row) wanted[static_cast<std::size_t>(v)] -= x / 2;
    placeRow(row, wanted, r.width, weight, options.gap_x, centre);
  }
  const auto pull = [&](const std::vector<std::int32_t>& row, const Adjacency& a, const Adjacency* b) {
    for (const std::int32_t v : row) {
      float sum = 0;
      std::int32_t count = 0;
      for (const Adjacency* side : {&a, b}) {
        if (side == nullptr) continue;
        for (const std::int32_t* n = side->begin(v); n != side->end(v); ++n) sum += centre[static_cast<std::size_t>(*n)], ++count;
      }
      wanted[static_cast<std::size_t>(v)] = count == 0 ? centre[static_cast<std::size_t>(v)] : sum / static_cast<float>(count);
    }
    placeRow(row, wanted, r.width, weight, options.gap_x, centre);
  };
  for (int s = 0; s < 3; ++s) {
    for (std::size_t i = 1; i < r.rows.size(); ++i) pull(r.rows[i], up, nullptr);
    for (std::size_t i = r.rows.size(); i-- > 1;) pull(r.rows[i - 1], down, nullptr);
  }
  for (const auto& row : r.rows) pull(row, up, &down);
  return centre;
}

}  // namespace

Layout layered(const std::vector<Size>& boxes, const std::vector<LayoutEdge>& edges, const LayoutOptions& options, const std::vector<LayoutPort>& ports) {
  Layout out;
  const std::size_t n = boxes.size();
  out.boxes.resize(n);
  out.rows.resize(n);
  out.routes.resize(edges.size());
  out.ports.resize(ports.size());
  if (n == 0) return out;

  // Downward edges, each once.
  const std::vector<bool> closing = closingEdges(n, edges);
  std::vector<LayoutEdge> acyclic;
  std::vector<std::int32_t> of_acyclic;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    out.routes[e].upwards = closing[e];
    if (edges[e].from == edges[e].to) continue;
    acyclic.push_back(closing[e] ? LayoutEdge{edges[e].to, edges[e].from} : edges[e]);
    of_acyclic.push_back(static_cast<std::int32_t>(e));
  }
  out.ranks = assignRanks(n, acyclic);
  const std::int32_t last = *std::max_element(out.ranks.begin(), out.ranks.end());

  // Rows: the ports above, the ranks, the ports below. A row of ports has no height.
  const bool above = std::any_of(ports.begin(), ports.end(), [](const LayoutPort& p) { return !p.leaves; });
  const bool below = std::any_of(ports.begin(), ports.end(), [](const LayoutPort& p) { return p.leaves; });
  const std::int32_t first = above ? 1 : 0;
  Rows r;
  r.rows.resize(static_cast<std::size_t>(first + last + 1 + (below ? 1 : 0)));
  for (std::size_t b = 0; b < n; ++b) {
    r.width.push_back(boxes[b].width);
    r.row_of.push_back(out.ranks[b] + first);
  }
  const auto dummy = [&](std::int32_t row) {
    r.width.push_back(8);
    r.row_of.push_back(row);
    return static_cast<std::int32_t>(r.width.size()) - 1;
  };
  // A line from one vertex down to another, with dummies in the rows between.
  const auto connect = [&](std::int32_t from, std::int32_t to, std::vector<std::int32_t>& dummies) {
    std::int32_t previous = from;
    for (std::int32_t row = r.row_of[static_cast<std::size_t>(from)] + 1; row < r.row_of[static_cast<std::size_t>(to)]; ++row) {
      dummies.push_back(dummy(row));
      r.edges.push_back({previous, dummies.back()});
      previous = dummies.back();
    }
    r.edges.push_back({previous, to});
  };
  std::vector<std::vector<std::int32_t>> dummies(edges.size()), port_dummies(ports.size());
  for (std::size_t i = 0; i < acyclic.size(); ++i) {
    const LayoutEdge& e = acyclic[i];
    const auto edge = static_cast<std::size_t>(of_acyclic[i]);
    if (out.ranks[static_cast<std::size_t>(e.to)] - out.ranks[static_cast<std::size_t>(e.from)] > options.portal_ranks)
      out.routes[edge].portal = true;
    else
      connect(e.from, e.to, dummies[edge]);
  }
  for (std::size_t p = 0; p < ports.size(); ++p) {
    const std::int32_t rank = out.ranks[static_cast<std::size_t>(ports[p].box)];
    out.ports[p].portal = (ports[p].leaves ? last - rank : rank) >= options.port_ranks;
    if (out.ports[p].portal) continue;
    const std::int32_t end = dummy(ports[p].leaves ? static_cast<std::int32_t>(r.rows.size()) - 1 : 0);
    if (ports[p].leaves) {
      connect(ports[p].box, end, port_dummies[p]);
      port_dummies[p].push_back(end);
    } else {
      port_dummies[p].push_back(end);
      connect(end, ports[p].box, port_dummies[p]);
    }
  }
  for (std::size_t v = 0; v < r.width.size(); ++v) r.rows[static_cast<std::size_t>(r.row_of[v])].push_back(static_cast<std::int32_t>(v));

  const Adjacency down(r.width.size(), r.edges, true), up(r.width.size(), r.edges, false);
  orderRows(r, down, up, options.sweeps);
  const std::vector<float> centre = placeColumns(r, down, up, n, options);

  float left = std::numeric_limits<float>::max(), right = std::numeric_limits<float>::lowest();
  for (std::size_t v = 0; v < r.width.size(); ++v) {
    left = std::min(left, centre[v] - r.width[v] / 2);
    right = std::max(right, centre[v] + r.width[v] / 2);
  }
  std::vector<float> top(r.rows.size(), 0), height(r.rows.size(), 0);
  for (std::size_t b = 0; b < n; ++b) {
    float& h = height[static_cast<std::size_t>(r.row_of[b])];
    h = std::max(h, boxes[b].height);
  }
  for (std::size_t i = 1; i < r.rows.size(); ++i) {
    const bool border = (above && i == 1) || (below && i + 1 == r.rows.size());
    top[i] = top[i - 1] + height[i - 1] + (border ? options.port_gap : options.gap_y);
  }
  for (std::size_t b = 0; b < n; ++b) {
    const auto row = static_cast<std::size_t>(r.row_of[b]);
    out.boxes[b] = {centre[b] - boxes[b].width / 2 - left, top[row] + (height[row] - boxes[b].height) / 2};
    out.rows[b] = {top[row], top[row] + height[row]};
  }
  const auto bends = [&](const std::vector<std::int32_t>& of, std::vector<Point>& points) {
    for (const std::int32_t d : of) {
      const auto row = static_cast<std::size_t>(r.row_of[static_cast<std::size_t>(d)]);
      const float x = centre[static_cast<std::size_t>(d)] - left;
      points.push_back({x, top[row]});
      if (height[row] > 0) points.push_back({x, top[row] + height[row]});  // straight past what stands in the row
    }
  };
  for (std::size_t e = 0; e < edges.size(); ++e) {
    bends(dummies[e], out.routes[e].points);
    if (out.routes[e].upwards) std::reverse(out.routes[e].points.begin(), out.routes[e].points.end());
  }
  for (std::size_t p = 0; p < ports.size(); ++p) bends(port_dummies[p], out.ports[p].points);
  out.size = {right - left, top.back() + height.back()};
  return out;
}

}  // namespace spscope::ui
