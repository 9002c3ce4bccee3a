// SPDX-License-Identifier: Apache-2.0
// A layered drawing of a directed graph, top to bottom (Sugiyama, Tagawa, Toda 1981): ranks by longest path, dummies on long
// edges, barycentre sweeps against crossings, x positions that keep the order. Cycles are allowed: an edge that closes one
// is drawn upwards. Edges over very many ranks become portals: a labelled stub at each end, since a tensor that feeds every
// layer would otherwise be a line beside all of them. Lines run sideways only between two rows, so that they cross no box.
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

/// Where lines from outside reach a box of this drawing from its upper border, or leave it through the lower one.
struct LayoutPort {
  std::int32_t box = 0;
  bool leaves = false;
};

struct LayoutOptions {
  float gap_x = 24, gap_y = 28;
  float port_gap = 16;            ///< between the border's ports and the first or last row
  std::int32_t portal_ranks = 8;  ///< an edge over more ranks becomes a portal
  std::int32_t port_ranks = 4;    ///< the same between a box and the border
  std::int32_t sweeps = 4;        ///< pairs of a downward and an upward one
};

struct Layout {
  std::vector<Point> boxes;               ///< top left corner, by box
  std::vector<std::int32_t> ranks;        ///< row of each box
  struct Route {
    bool portal = false;
    bool upwards = false;                 ///< closes a cycle
    std::vector<Point> points;            ///< bends between the rows of the two boxes, from the first to the second
  };
  std::vector<Route> routes;              ///< by edge
  std::vector<Route> ports;               ///< by port, from above to below; with its place on the border
  struct Row {
    float top = 0, bottom = 0;
  };
  std::vector<Row> rows;                  ///< by box: of the row that it stands in; a line to it comes and goes there
  Size size;                              ///< of all; positions start at 0, 0
};

/// Never fails. Close to linear in boxes and edges (5,000 boxes: a few ms). Deterministic.
Layout layered(const std::vector<Size>& boxes, const std::vector<LayoutEdge>& edges, const LayoutOptions& options = {}, const std::vector<LayoutPort>& ports = {});

}  // namespace spscope::ui
