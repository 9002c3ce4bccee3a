// SPDX-License-Identifier: Apache-2.0
// A layered drawing of a directed graph, top to bottom (Sugiyama, Tagawa, Toda 1981): ranks by longest path, dummies on long
// edges, barycentre sweeps against crossings, x positions that keep the order. Cycles are allowed: an edge that closes one
// is drawn upwards. Edges over very many ranks become portals: a labelled stub at each end, since a tensor that feeds every
// layer would otherwise be a line beside all of them.
#pragma once

#include <cstdint>
#include <vector>

namespace spscope::ui {

struct Point {
  float x = 0, y = 0;
  friend bool operator==(Point, Point) = default;
};
struct Size {
  float width = 0, height = 0;
};

struct LayoutEdge {
  std::int32_t from = 0, to = 0;  ///< boxes; an edge of a box to itself is ignored
};

struct LayoutOptions {
  float gap_x = 24, gap_y = 28;
  std::int32_t portal_ranks = 8;  ///< an edge over more ranks becomes a portal
  std::int32_t sweeps = 4;        ///< pairs of a downward and an upward one
};

struct Layout {
  std::vector<Point> boxes;               ///< top left corner, by box
  std::vector<std::int32_t> ranks;        ///< row of each box
  struct Route {
    bool portal = false;
    bool upwards = false;                 ///< closes a cycle
    std::vector<Point> points;            ///< bends between the boxes; empty: straight, or a portal
  };
  std::vector<Route> routes;              ///< by edge
  Size size;                              ///< of all; positions start at 0, 0
};

/// Never fails. Close to linear in boxes and edges (5,000 boxes: a few ms). Deterministic.
Layout layered(const std::vector<Size>& boxes, const std::vector<LayoutEdge>& edges, const LayoutOptions& options = {});

}  // namespace spscope::ui
